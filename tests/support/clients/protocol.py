#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""protocol.py: a client of wsd that was written from proto/PROTOCOL.md and proto/wsd.proto alone, with nothing but Python's
standard library, and a case for each of PROTOCOL.md's numbered sentences.

    protocol.py numbers     the numbers that have a case here, a line each
    protocol.py run [P...]  starts wsds of its own (WSD, EXECUTOR, SPAWNER, PLUGINS, TEST_PLUGINS, WORK) and runs the cases

A result is a line: `ok [P1] ...`, `FAIL [P1] ...: why` or `skip [P1] ...: why`."""
import array
import fcntl
import json
import os
import pwd
import re
import signal
import socket
import struct
import subprocess
import sys
import time
import traceback

SCALE = int(os.environ.get('TIME_SCALE', '1'))
HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 30 * SCALE

# --- protobuf: what wsd.proto says ------------------------------------------------------------------------------------

FIELD = re.compile(r'(repeated )?(\w+) (\w+) = (\d+);')


def read_schema(path):
    messages = {}
    with open(path, encoding='utf-8') as f:
        text = re.sub(r'//[^\n]*', '', f.read())
    for name, body in re.findall(r'message (\w+) \{(.*?)\}', text, re.S):
        messages[name] = {int(n): (field, kind, bool(repeated)) for repeated, kind, field, n in FIELD.findall(body)}
    return messages


SCHEMA = read_schema(os.path.join(HERE, '../../../proto/wsd.proto'))


def varint(n):
    out = bytearray()
    while n > 0x7f:
        out.append(n & 0x7f | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def read_varint(data, at):
    n = shift = 0
    while True:
        n |= (data[at] & 0x7f) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return n, at


def encode(message, values):
    out = b''
    numbers = {name: (n, kind, repeated) for n, (name, kind, repeated) in SCHEMA[message].items()}
    for name, value in values.items():
        n, kind, repeated = numbers[name]
        for one in value if repeated else [value]:
            if kind == 'bytes':
                one = one.encode() if isinstance(one, str) else one
                if one or repeated:
                    out += varint(n << 3 | 2) + varint(len(one)) + one
            elif kind in SCHEMA:
                one = encode(kind, one)
                out += varint(n << 3 | 2) + varint(len(one)) + one
            elif int(one):
                one = (one << 1 ^ one >> 31) & 0xffffffff if kind == 'sint32' else int(one)
                out += varint(n << 3) + varint(one)
    return out


class Message:
    """Its fields; those that did not come are 0, or empty."""

    def __init__(self, name):
        self.seen = set()
        for field, kind, repeated in SCHEMA[name].values():
            setattr(self, field, [] if repeated else b'' if kind == 'bytes' else 0)

    def __repr__(self):
        return repr({k: v for k, v in vars(self).items() if v and k != 'seen'})


def decode(name, data):
    m, at = Message(name), 0
    while at < len(data):
        tag, at = read_varint(data, at)
        if tag & 7 == 2:
            size, at = read_varint(data, at)
            value = data[at:at + size]
            at += size
        else:
            value, at = read_varint(data, at)
        if tag >> 3 not in SCHEMA[name]:
            continue
        field, kind, repeated = SCHEMA[name][tag >> 3]
        m.seen.add(field)
        if kind in SCHEMA:
            value = decode(kind, value)
        elif kind == 'sint32':
            value = value >> 1 ^ -(value & 1)
        if repeated:
            getattr(m, field).append(value)
        else:
            setattr(m, field, value)
    return m


# --- frames -----------------------------------------------------------------------------------------------------------

REQUESTS = {'HELLO': (1, 'Hello'), 'SUBMIT': (2, 'Submit'), 'INPUT': (3, 'Chunk'), 'CREDIT': (4, 'Credit'), 'CANCEL': (5, 'Id'),
            'AWAIT': (6, 'Id'), 'STATUS': (7, 'Id'), 'LIST': (8, 'Empty'), 'PLUGINS': (9, 'Plugins'), 'STATS': (10, 'Empty'),
            'PING': (11, 'Empty'), 'OPENED': (12, 'Opened'), 'WORKERS': (13, 'Workers'), 'TRACE': (14, 'Trace'),
            'RELEASE': (15, 'Release'), 'RELOAD': (16, 'Reload'), 'GATE': (17, 'Gate'), 'FORGET': (18, 'Empty'),
            'DEAD': (20, 'Dead'), 'SCHEDULE': (21, 'Schedule'), 'ARRAY': (23, 'Submit'), 'BATCH': (24, 'Batch'),
            'LIST_WHERE': (25, 'Filter'), 'CANCEL_WHERE': (26, 'Filter'), 'ARENA_OPEN': (34, 'Empty'),
            'ARENA_CLOSE': (35, 'Empty'), 'LIMIT': (36, 'Limit'), 'RUNNER_OPEN': (40, 'Offer'), 'RUNNER_CLOSE': (41, 'Empty'),
            'RUN_OUTPUT': (42, 'RunChunk'), 'RUN_MESSAGE': (43, 'RunMessage'), 'RUN_PROGRESS': (44, 'RunProgress'),
            'RUN_OPEN': (45, 'RunOpen'), 'RUN_END': (46, 'RunEnd'), 'RUN_PONG': (47, 'RunRef'), 'FUNCTIONS': (50, 'Functions'),
            'PERSON': (51, 'Person'), 'ACTIONS': (52, 'Actions')}
ANSWERS = {4: ('CREDIT', 'Credit'), 65: ('WELCOME', 'Welcome'), 66: ('ACCEPTED', 'Accepted'), 67: ('OUTPUT', 'Chunk'),
           68: ('PROGRESS', 'Progress'), 69: ('MESSAGE', 'Message'), 70: ('DONE', 'Job'), 71: ('ERROR', 'Error'), 72: ('JOB', 'Job'),
           73: ('PLUGIN', 'Plugin'), 74: ('COUNTERS', 'Stats'), 75: ('PONG', 'Empty'), 76: ('END', 'Empty'), 77: ('OPEN', 'Open'),
           78: ('GOODBYE', 'Error'), 79: ('EXECUTOR', 'Executor'), 80: ('WORKER', 'Worker'), 81: ('PIECE', 'Chunk'),
           82: ('RELOADED', 'Reloaded'), 83: ('GATE_STATE', 'GateState'), 84: ('SCHEDULED', 'Scheduled'),
           86: ('BATCH_STATE', 'BatchState'), 87: ('ENDS', 'Ends'), 88: ('COUNT', 'Count'), 100: ('LANE', 'Empty'),
           101: ('LANE_BOUND', 'LaneBound'), 102: ('LANE_LOST', 'Error'), 103: ('ARENA', 'Empty'), 105: ('FINISHED', 'Finished'),
           106: ('LIMIT_STATE', 'Limit'), 110: ('RUNNER', 'Empty'), 111: ('RUN', 'Run'), 112: ('RUN_INPUT', 'RunChunk'),
           113: ('RUN_STOP', 'RunRef'), 114: ('RUN_OPENED', 'RunOpened'), 115: ('RUN_CREDIT', 'RunCredit'),
           116: ('RUN_PING', 'RunRef'), 120: ('FUNCTION_STATS', 'FunctionStats'), 121: ('ACTION', 'Action')}
ALL = 2 | 4 | 8 | 16 | 32 | 64 | 128 | 256 | 512 | 1024 | 2048 | 8192 | 16384 | 32768 | 65536 | 131072 | 262144 | 524288 | 1048576 | 2097152 | 4194304 | 8388608
OLD = ALL & ~(2048 | 8192 | 16384 | 32768 | 131072 | 262144 | 524288 | 1048576 | 2097152 | 4194304)
HELD, DELAYED, QUEUED, RUNNING, SUCCEEDED, FAILED, CANCELLED, TIMED_OUT, CRASHED, INTERRUPTED = range(1, 11)


class Frame:
    def __init__(self, kind, tag, message, body):
        self.kind, self.tag, self.message, self.body = kind, tag, message, body

    def __repr__(self):
        return f'{self.kind} {self.tag} {self.message} body {len(self.body)}'


class Closed(Exception):
    pass


class Peer:
    """A connection. next() gives frames in their order, of one tag where that is wanted."""

    def __init__(self, path, features=ALL, window=1 << 20, greet=True, directory=b''):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(LIMIT)
        self.socket.connect(path)
        self.data, self.waiting, self.tag, self.fds = b'', [], 0, []
        if greet:
            self.send('HELLO', 0, version_min=1, version_max=1, features=features, window=window, program='protocol.py',
                      directory=directory)
            self.welcome = self.next('WELCOME', 0).message

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.socket.close()

    def raw(self, data):
        self.socket.sendall(data)

    def frame(self, number, tag, header=b'', body=b'', magic=0x57, version=1):
        return struct.pack('<BBHIII', magic, version, number, tag, len(header), len(body)) + header + body

    def send(self, kind, /, tag=None, body=b'', fd=None, **values):
        """Returns the tag, which is a new one where none is given."""
        if tag is None:
            self.tag += 1
            tag = self.tag
        number, message = REQUESTS[kind]
        data = self.frame(number, tag, encode(message, values), body)
        if fd is None:
            self.raw(data)
        else:
            n = self.socket.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', fd if isinstance(fd, tuple) else [fd]))])
            self.raw(data[n:])
        return tag

    def read(self):
        while len(self.data) < 16 or len(self.data) < 16 + sum(struct.unpack('<II', self.data[8:16])):
            try:
                more, fds, _, _ = socket.recv_fds(self.socket, 1 << 16, 8)
            except ConnectionResetError:
                more, fds = b'', []
            self.fds += fds
            if not more:
                raise Closed
            self.data += more
        magic, version, number, tag, header, body = struct.unpack('<BBHIII', self.data[:16])
        assert (magic, version) == (0x57, 1) and 16 + header + body <= 65536
        name, message = ANSWERS[number]
        frame = Frame(name, tag, decode(message, self.data[16:16 + header]), self.data[16 + header:16 + header + body])
        self.data = self.data[16 + header + body:]
        return frame

    def next(self, kind=None, tag=None):
        for i, frame in enumerate(self.waiting):
            if tag in (None, frame.tag):
                del self.waiting[i]
                break
        else:
            frame = self.read()
            while tag not in (None, frame.tag):
                self.waiting.append(frame)
                frame = self.read()
        if kind and frame.kind not in kind.split('|'):
            raise AssertionError(f'{frame} where {kind} was expected')
        return frame

    def quiet(self, tag, seconds=0.3):
        """Nothing comes for this tag."""
        ping = self.send('PING')
        self.next('PONG', ping)
        until = time.monotonic() + seconds
        self.socket.settimeout(0.05)
        try:
            while time.monotonic() < until:
                try:
                    self.waiting.append(self.read())
                except TimeoutError:
                    pass
        finally:
            self.socket.settimeout(LIMIT)
        return not any(f.tag == tag for f in self.waiting)

    def submit(self, plugin, *args, body=b'', fd=None, **values):
        name, _, function = plugin.partition(':')
        return self.send('SUBMIT', plugin=name, function=function, args=list(args), body=body, fd=fd, **values)

    def accepted(self, *args, **values):
        """Returns tag and id of a job that was."""
        tag = self.submit(*args, **values)
        return tag, self.next('ACCEPTED', tag).message.id

    def end(self, tag):
        """The frames up to the last, and the output."""
        frames, output = [], b''
        while not frames or frames[-1].kind not in ('DONE', 'FINISHED', 'ERROR', 'END'):
            frames.append(self.next(None, tag))
            if frames[-1].kind in ('OUTPUT', 'FINISHED'):
                output += frames[-1].body
        return frames, output

    def run(self, *args, **values):
        """Its last message, as a Job has it, and the output."""
        frames, output = self.end(self.submit(*args, **values))
        return frames[-1].message, output

    def status(self, job):
        tag = self.send('STATUS', id=job)
        return self.next('JOB|ERROR', tag).message

    def wait_state(self, job, *states):
        until = time.monotonic() + LIMIT
        while (m := self.status(job)).state not in states:
            assert time.monotonic() < until, m
            time.sleep(0.01)
        return m

    def list(self, kind, tag):
        """What comes before END."""
        frames = []
        while not frames or frames[-1].kind not in ('END', 'ERROR', 'COUNT'):
            frames.append(self.next(None, tag))
        return frames

    def is_refused(self, code, tag):
        m = self.next('ERROR', tag).message
        assert m.code == code, m
        assert 0 < len(m.text) < 256 and b'\n' not in m.text, m
        return m

    def breaks(self, data):
        """What is sent is a protocol error."""
        try:
            self.raw(data)
        except (BrokenPipeError, ConnectionResetError):
            pass
        frame = self.next()
        while frame.kind != 'ERROR' or frame.tag:
            frame = self.next()
        assert frame.message.code == 76, frame
        try:
            self.next()
        except Closed:
            return True
        raise AssertionError('the connection goes on')


def records(frame):
    """Those of an ENDS, as dictionaries."""
    at, found = 0, []
    names = 'index n state exit attempts worker error status backtrace output queued_usec run_usec cpu_usec'.split()
    for _ in range(frame.message.records):
        r = dict(zip(names, struct.unpack_from('<IIBBHHHHHIQQQ', frame.body, at)))
        at += 48
        for text in ('worker', 'error', 'status', 'backtrace', 'output'):
            r[text], at = frame.body[at:at + r[text]], at + r[text]
        found.append(r)
    assert at == len(frame.body), 'not all of the body is records'
    return found


def item(args=(), body=b''):
    given = b''.join((a.encode() if isinstance(a, str) else a) + b'\0' for a in args)
    return struct.pack('<HHI', len(args), len(given), len(body)) + given + body


# --- wsds -------------------------------------------------------------------------------------------------------------

class Wsd:
    n = 0

    def __init__(self, config='', environment=None, options=True, wait=True):
        Wsd.n += 1
        self.dir = os.path.join(os.environ['WORK'], f'protocol-{Wsd.n}')
        os.makedirs(self.dir, exist_ok=True)
        os.chmod(os.environ['WORK'], 0o755)
        self.socket, self.config = os.path.join(self.dir, 's'), os.path.join(self.dir, 'conf')
        self.write(config)
        self.environment, self.options, self.process = environment or {}, options, None
        self.start(wait)

    def write(self, config):
        with open(self.config, 'w', encoding='ascii') as f:
            f.write(config)

    def start(self, wait=True):
        e = os.environ
        command = [e['WSD'], '--config', self.config, '--executor', e['EXECUTOR'], '--spawner', e['SPAWNER'], '--workers', '2',
                   '--state-dir', os.path.join(self.dir, 'state'), '--plugin-dir', e['PLUGINS'], '--plugin-dir', e['TEST_PLUGINS']]
        with open(os.path.join(self.dir, 'log'), 'ab') as log:
            self.process = subprocess.Popen(command + (['--socket', self.socket] if self.options else []), stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, env={**e, **self.environment})
        until = time.monotonic() + LIMIT
        while wait:
            try:
                with Peer(self.socket):
                    return
            except (OSError, Closed):
                assert self.process.poll() is None and time.monotonic() < until, 'wsd did not get ready'
                time.sleep(0.02)

    def log(self):
        with open(os.path.join(self.dir, 'log'), encoding='utf8', errors='replace') as f:
            return f.read()

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self):
        return self.process.wait(LIMIT * 2)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


# --- the cases: one function each, for one or several of the numbers ----------------------------------------------------

CASES = []


def case(*numbers, config=None):
    """config: with a wsd of its own. Without: with the one that all share."""
    def add(function):
        CASES.append((numbers, config, function))
        return function
    return add


class Skip(Exception):
    pass


# Finding wsd, frames


@case('P1', config='')
def where_the_socket_is(wsd):
    given, runtime = os.path.join(wsd.dir, 'given'), os.path.join(wsd.dir, 'runtime')
    os.makedirs(runtime, mode=0o700)
    for environment, path in (({'WSD_SOCKET': given}, given), ({'XDG_RUNTIME_DIR': runtime}, runtime + '/wsd/wsd.sock')):
        env = {k: v for k, v in os.environ.items() if k not in ('WSD_SOCKET', 'XDG_RUNTIME_DIR')}
        if os.geteuid() == 0 and 'XDG_RUNTIME_DIR' in environment:
            continue  # root's own is the system's
        command = [os.environ['WSD'], '--config', wsd.config, '--executor', os.environ['EXECUTOR'], '--state-dir', wsd.dir + '/x']
        process = subprocess.Popen(command, env={**env, **environment}, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        try:
            until = time.monotonic() + LIMIT
            while not os.path.exists(path):
                assert time.monotonic() < until and process.poll() is None
                time.sleep(0.02)
        finally:
            process.terminate()
            process.wait()


@case('P2', 'P3')
def what_begins_a_frame(wsd):
    for data in (b'X', b'W\x02', struct.pack('<BBHIII', 0x57, 2, 11, 9, 0, 0), struct.pack('<BBHIII', 0x58, 1, 11, 9, 0, 0),
                 struct.pack('<BBHIII', 0x57, 1, 11, 9, 0, 65521)):
        with Peer(wsd.socket) as p:
            p.breaks(data + bytes(16 - len(data) if len(data) < 16 else 0))
    with Peer(wsd.socket) as p:  # the largest
        tag = p.send('PING', body=bytes(65520))
        assert len(p.next('PONG', tag).body) == 65520


@case('P4')
def unknown_fields(wsd):
    with Peer(wsd.socket) as p:
        header = encode('Submit', {'plugin': 'echo', 'args': ['x']}) + varint(999 << 3) + varint(5) + varint(998 << 3 | 2) + b'\x01y'
        p.raw(p.frame(2, 7, header))
        assert p.end(7)[1] == b'x\n'
        p.breaks(p.frame(2, 8, b'\xff\xff'))


@case('P5')
def which_have_a_body(wsd):
    for kind in ('CREDIT', 'CANCEL', 'AWAIT', 'STATUS', 'LIST', 'PLUGINS', 'STATS', 'BATCH', 'FORGET', 'OPENED', 'GATE'):
        with Peer(wsd.socket) as p:
            header = encode(REQUESTS[kind][1], {'id': bytes(16)} if kind in ('AWAIT', 'STATUS', 'CANCEL') else
                            {'action': 1} if kind in ('BATCH', 'GATE') else {})
            p.breaks(p.frame(REQUESTS[kind][0], 1, header, b'body'))
    with Peer(wsd.socket) as p:
        assert p.next('PONG', p.send('PING', body=b'body')).body == b'body'


@case('P6')
def types(wsd):
    for number in (0, 19, 22, 65, 70, 200):
        with Peer(wsd.socket) as p:
            p.breaks(p.frame(number, 1))


@case('P7')
def tags(wsd):
    with Peer(wsd.socket) as p:
        p.breaks(p.frame(8, 0))
    with Peer(wsd.socket) as p:
        tag = p.submit('ends:heed')
        p.breaks(p.frame(2, tag, encode('Submit', {'plugin': 'echo'})))
    with Peer(wsd.socket) as p:  # not open: passed over
        p.send('CREDIT', 77, bytes=5)
        p.send('INPUT', 77, body=b'late')
        p.send('CANCEL', 77)
        p.send('FORGET', 77)
        tag = p.submit('echo', 'x')
        p.end(tag)
        p.submit('echo', 'again')
        p.send('SUBMIT', tag, plugin='echo', args=['y'])  # free again
        assert p.end(tag)[1] == b'y\n'
        assert p.quiet(77)


@case('P8')
def order_of_answers(wsd):
    with Peer(wsd.socket) as p:
        slow, _ = p.accepted('sleep:sleep', '60000')
        ping = p.send('PING')
        assert p.next().tag == ping
        p.send('CANCEL', slow)
        assert p.end(slow)[0][-1].kind == 'DONE'


# Handshake


@case('P9')
def versions(wsd):
    with Peer(wsd.socket) as p:
        assert p.welcome.version == 1 and p.welcome.window > 0 and p.welcome.program.startswith(b'wsd ')
    for low, high in ((2, 9), (0, 0)):
        with Peer(wsd.socket, greet=False) as p:
            p.send('HELLO', 0, version_min=low, version_max=high)
            assert p.is_refused(76, 0)
            try:
                p.next()
                raise AssertionError('it goes on')
            except Closed:
                pass


@case('P10')
def hello_is_first_and_once(wsd):
    with Peer(wsd.socket, greet=False) as p:
        p.breaks(p.frame(11, 1))
    with Peer(wsd.socket) as p:
        p.breaks(p.frame(1, 0, encode('Hello', {'version_min': 1, 'version_max': 1})))


@case('P11')
def without_waiting(wsd):
    with Peer(wsd.socket, greet=False) as p:
        p.send('HELLO', 0, version_min=1, version_max=1, window=1000)
        tag = p.submit('echo', 'x')
        p.next('WELCOME', 0)
        assert p.end(tag)[1] == b'x\n'


@case('P12')
def features(wsd):
    with Peer(wsd.socket, features=1 << 63 | 2) as p:
        assert p.welcome.features & ALL == ALL and not p.welcome.features & 1 << 63
        assert [f.kind for f in p.end(p.submit('echo', 'x'))[0]][-1] == 'DONE'
        p.breaks(p.frame(24, 9, encode('Batch', {'action': 1})))


@case('P13')
def directory(wsd):
    with Peer(wsd.socket, directory=b'/proc') as p:
        assert p.run('echo:directory')[1] == b'/proc\n'
    with Peer(wsd.socket) as p:
        assert p.run('echo:directory')[1] == b'\n'
    with Peer(wsd.socket, greet=False) as p:
        p.breaks(p.frame(1, 0, encode('Hello', {'version_min': 1, 'version_max': 1, 'directory': 'relative'})))


# A call


@case('P14')
def ids(wsd):
    with Peer(wsd.socket) as p:
        _, job = p.accepted('echo', 'x', flags=1)
        assert len(job) == 16
        said = subprocess.run([os.environ['WSCTL'], '--socket', wsd.socket, '--json', 'status', job.hex()], capture_output=True, check=True)
        assert b'"id":"%s"' % job.hex().encode() in said.stdout
    for size in (15, 17):
        with Peer(wsd.socket) as p:
            p.breaks(p.frame(7, 1, encode('Id', {'id': bytes(size)})))


@case('P15')
def one_call(wsd):
    with Peer(wsd.socket, features=0, window=1 << 30) as p:
        frames, output = p.end(p.submit('bigoutput', '300000'))
        kinds = [f.kind for f in frames]
        assert kinds[0] == 'ACCEPTED' and kinds[-1] == 'DONE' and set(kinds[1:-1]) == {'OUTPUT'} and len(output) == 300000
        at = 0
        for f in frames[1:-1]:
            assert f.message.offset == at and 0 < len(f.body) <= 60 << 10
            at += len(f.body)
        assert frames[-1].message.id == frames[0].message.id and frames[-1].message.state == SUCCEEDED


@case('P16', 'P17')
def more_input(wsd):
    with Peer(wsd.socket) as p:
        tag = p.submit('echo', body=b'one ', flags=4)
        p.send('INPUT', tag, offset=4, body=b'two ')
        p.send('INPUT', tag, offset=8, last=1, body=b'three')
        assert p.end(tag)[1] == b'one two three'
        assert p.run('echo', body=b'all')[1] == b'all'
        tag = p.submit('echo', body=b'x', flags=4)
        p.send('INPUT', tag, offset=1, last=1)
        assert p.end(tag)[1] == b'x'
    with Peer(wsd.socket) as p:  # the offset
        tag = p.submit('echo', flags=4)
        p.breaks(p.frame(3, tag, encode('Chunk', {'offset': 1})))
    with Peer(wsd.socket) as p:  # not announced
        tag, _ = p.accepted('ends:heed')
        p.breaks(p.frame(3, tag, b'', b'x'))


@case('P18')
def refusals(wsd):
    with Peer(wsd.socket) as p:
        for code, plugin, values in ((66, 'nowhere', {}), (66, 'echo:nothing', {}), (64, '', {}), (64, 'echo', {'input_from': 1})):
            if values and not p.welcome.features & 4:
                continue
            if not values:
                assert not p.is_refused(code, p.submit(plugin)).accepted
        assert p.run('echo', 'x')[1] == b'x\n'  # nothing else has ended


@case('P19', 'P20')
def ends(wsd):
    with Peer(wsd.socket) as p:
        for args, values, state, code in ((('ends',), {}, SUCCEEDED, 0), (('ends', '7'), {}, FAILED, 7), (('ends', '63'), {}, FAILED, 63),
                                          (('ends:heed',), {'timeout_usec': 50000}, TIMED_OUT, 124),
                                          (('ends:heed', '9'), {'timeout_usec': 50000}, TIMED_OUT, 124),
                                          (('echo:status', '64'), {}, FAILED, 63), (('crash:segv',), {}, CRASHED, 70)):
            m, _ = p.run(*args, **values)
            if 'state' in vars(m):
                assert (m.state, m.exit) == (state, code), (args, m)
            else:
                assert (state, code) == (SUCCEEDED, 0)
        p.end(p.send('RELEASE', name='crash'))
        tag, _ = p.accepted('ends:heed')
        p.send('CANCEL', tag)
        frames, _ = p.end(tag)
        assert (frames[-1].message.state, frames[-1].message.exit) == (CANCELLED, 130)


@case('P21')
def finished(wsd):
    with Peer(wsd.socket) as p:
        frames, output = p.end(p.submit('echo', 'x'))
        assert [f.kind for f in frames] == ['ACCEPTED', 'FINISHED'] and output == b'x\n' and frames[1].message.id == frames[0].message.id
        assert p.end(p.submit('ends:steps', '3'))[0][-1].kind == 'DONE'  # there is more to tell
    with Peer(wsd.socket, features=ALL & ~8) as p:
        assert p.end(p.submit('echo', 'x'))[0][-1].kind == 'DONE'


@case('P22')
def without_accepted(wsd):
    with Peer(wsd.socket) as p:
        frames, _ = p.end(p.submit('echo', 'x', flags=16))
        assert [f.kind for f in frames] == ['FINISHED'] and len(frames[0].message.id) == 16
        tag, job = p.accepted('sleep:sleep', '10', flags=1 | 32)
        p.wait_state(job, SUCCEEDED)
        p.send('SUBMIT', tag, plugin='echo', args=['again'])
        assert p.end(tag)[1] == b'again\n'


@case('P23', 'P24')
def progress_and_messages(wsd):
    with Peer(wsd.socket) as p:
        tag, _ = p.accepted('ends:heed')
        frames, _ = p.end(p.submit('ends:steps', '100000', flags=2))
        seen = [f for f in frames if f.kind == 'PROGRESS']
        assert len(seen) < 1000, 'each of them is told'
        assert (frames[-1].message.done, frames[-1].message.total) == (100000, 100001)
        frames, _ = p.end(p.submit('ends:steps', '5', '3'))
        assert not [f for f in frames if f.kind == 'PROGRESS'] and (frames[-1].message.done, frames[-1].message.total) == (5, 6)
        frames, _ = p.end(p.submit('echo:status', '5'))
        assert [(f.message.level, f.message.text) for f in frames if f.kind == 'MESSAGE'] == [(6, b'ends with 5')]
        assert frames[-1].message.status == b'asked for 5'
        p.send('CANCEL', tag)


@case('P25', 'P26')
def awaits(wsd):
    with Peer(wsd.socket) as p, Peer(wsd.socket) as q:
        tag, job = p.accepted('ends:heed', flags=1)
        p.next('OUTPUT', tag)
        follows = q.send('AWAIT', id=job)
        f = q.next(None, follows)  # no ACCEPTED
        assert f.kind == 'OUTPUT' and f.message.offset == 0 and f.body == b'begun\n'
        p.send('CANCEL', tag)
        assert q.end(follows)[0][-1].message.state == CANCELLED
        frames, output = q.end(q.send('AWAIT', id=job))  # it has ended, and is kept
        assert [f.kind for f in frames] == ['OUTPUT', 'DONE'] and output == b'begun\n'
        q.is_refused(66, q.send('AWAIT', id=bytes(16)))


@case('P27', config='[limits]\nmax-result = 1M\n')
def beyond_max_result(wsd):
    with Peer(wsd.socket, window=1 << 30) as p:
        m, output = p.run('bigoutput', '3000000', flags=1)  # it is read all the time
        assert (m.state, m.exit) == (FAILED, 63) and b'max-result' in m.error
        assert len(p.run('bigoutput', '3000000')[1]) == 3000000


@case('P28', config='')
def the_name_of_a_plugin(wsd):
    with Peer(wsd.socket) as p:
        path = os.path.join(os.environ['TEST_PLUGINS'], 'echo.so')
        tag, job = p.accepted(path, 'x', flags=8)
        assert p.end(tag)[0][-1].message.plugin == b'echo'
        tag, later = p.accepted(path, 'x', flags=8, delay_usec=3600 * 10**6)
        assert p.status(later).plugin == b'echo'
    wsd.signal(signal.SIGKILL)
    wsd.wait()
    wsd.start()
    with Peer(wsd.socket) as p:
        assert p.status(job).plugin == p.status(later).plugin == b'echo'


# Promises


@case('P29', 'P30', config='')
def durable_jobs(wsd):
    with Peer(wsd.socket) as p, Peer(wsd.socket) as old:
        tag, job = p.accepted('echo', 'kept', flags=8, delay_usec=3000)
        gate = os.path.join(wsd.dir, 'gate')
        slow, running = p.accepted('ledger:gate', gate, 'late', flags=8)
        p.wait_state(running, RUNNING)
        p.wait_state(job, SUCCEEDED)
    wsd.signal(signal.SIGKILL)
    wsd.wait()
    wsd.start()
    with Peer(wsd.socket) as p:
        assert p.end(p.send('AWAIT', id=job))[1] == b'kept\n'
        with open(gate, 'w', encoding='ascii'):
            pass
        assert p.end(p.send('AWAIT', id=running))[0][-1].message.state in (SUCCEEDED, INTERRUPTED)
        _, later = p.accepted('echo', 'y', flags=8, delay_usec=3600 * 10**6, key='k')
        with Peer(wsd.socket, features=OLD) as old:
            tag, _ = p.accepted('echo', 'z', flags=8, delay_usec=3600 * 10**6)
            follows = old.send('SUBMIT', plugin='echo', key='k')
            assert old.next('ACCEPTED', follows).message.id == later
            wsd.signal(signal.SIGTERM)
            m = p.is_refused(125, tag)  # it goes on, and is not to be submitted again
            assert m.accepted and not m.retry_usec
            assert not old.is_refused(75, follows).accepted
    wsd.wait()
    wsd.start()
    with Peer(wsd.socket) as p:
        assert p.status(later).state == DELAYED


@case('P31')
def keys(wsd):
    with Peer(wsd.socket) as p, Peer(wsd.socket) as q:
        tag, job = p.accepted('ends:heed', key='the key')
        again, same = q.accepted('echo', 'passed over', key='the key')
        assert same == job and q.next('OUTPUT', again).body == b'begun\n'
        p.send('CANCEL', tag)
        assert q.end(again)[0][-1].message.id == job


@case('P32')
def retries(wsd):
    with Peer(wsd.socket) as p:
        m, _ = p.run('ends', '3', retries=2, retry_usec=1000)
        assert m.attempts == 3 and m.exit == 3
        assert p.run('ends', '3', retries=2, retry_usec=1000, retry_on=1 << CRASHED)[0].attempts == 1
        tag, job = p.accepted('ends', '3', retries=1, retry_usec=3600 * 10**6)
        assert 0 < p.wait_state(job, DELAYED).due_usec <= 3600 * 10**6
        p.send('CANCEL', tag)
        assert p.end(tag)[0][-1].message.state == CANCELLED
        assert p.run('ends:heed', retries=1, retry_usec=1000, timeout_usec=20000)[0].attempts == 2


@case('P33', config='')
def dead_jobs(wsd):
    with Peer(wsd.socket) as p:
        tag, job = p.accepted('ends', '3', retries=1, retry_usec=1000, flags=8)
        assert p.end(tag)[0][-1].message.dead
        assert [f.message.id for f in p.list('DEAD', p.send('DEAD', action=1))[:-1]] == [job]
        p.next('END', p.send('DEAD', action=2, id=job))
        m = p.wait_state(job, FAILED)
        assert m.attempts == 2
        p.next('END', p.send('DEAD', action=3, id=job))
        p.is_refused(66, p.send('DEAD', action=3, id=job))
        p.is_refused(66, p.send('STATUS', id=job))


# Later, order


@case('P34')
def delays(wsd):
    with Peer(wsd.socket) as p:
        tag, job = p.accepted('echo', 'x', delay_usec=3600 * 10**6)
        m = p.status(job)
        assert m.state == DELAYED and 3500 * 10**6 < m.due_usec <= 3600 * 10**6
        p.send('CANCEL', tag)
        assert p.run('echo', 'x', at_usec=1)[1] == b'x\n'
        with Peer(wsd.socket) as q:
            q.breaks(q.frame(2, 1, encode('Submit', {'plugin': 'echo', 'delay_usec': 1, 'at_usec': 1})))
        hold = [p.submit('ends:heed') for _ in range(2)]
        m, _ = p.run('echo', 'x', queue_usec=20000)
        assert m.state == TIMED_OUT and m.attempts == 0
        for tag in hold:
            p.send('CANCEL', tag)


@case('P35', config='')
def schedules(wsd):
    with Peer(wsd.socket) as p:
        p.next('END', p.send('SCHEDULE', action=1, name='nightly', calendar='*-*-* 03:00', plugin='echo', args=['x']))
        p.is_refused(64, p.send('SCHEDULE', action=1, name='nightly', calendar='*-*-* 03:00', plugin='echo'))
        p.is_refused(64, p.send('SCHEDULE', action=1, name='other', calendar='not a time', plugin='echo'))
        p.is_refused(64, p.send('SCHEDULE', action=1, name='-x', calendar='daily', plugin='echo'))
        said = p.list('SCHEDULE', p.send('SCHEDULE', action=2))
        assert [f.message.name for f in said[:-1]] == [b'nightly'] and said[0].message.next_usec > time.time() * 10**6
        tag = p.send('SCHEDULE', action=4, name='nightly')
        job = p.next('SCHEDULED', tag).message.id
        p.next('END', tag)
        assert p.end(p.send('AWAIT', id=job))[1] == b'x\n'
        p.next('END', p.send('SCHEDULE', action=3, name='nightly'))
        p.is_refused(66, p.send('SCHEDULE', action=3, name='nightly'))


@case('P36', 'P37')
def after(wsd):
    with Peer(wsd.socket) as p:
        tag, first = p.accepted('ends:heed', flags=1)
        waits, second = p.accepted('echo', 'x', after=first)
        _, third = p.accepted('echo', 'y', flags=1, after_any=first + second)
        m = p.status(second)
        assert m.state == HELD and m.waits_for == 1 and p.status(third).waits_for == 2
        p.send('CANCEL', tag)
        m = p.end(waits)[0][-1].message
        assert (m.state, m.exit) == (CANCELLED, 130) and first.hex().encode() in m.error
        assert p.end(p.send('AWAIT', id=third))[1] == b'y\n'
        p.is_refused(66, p.submit('echo', after=bytes(16)))
        p.is_refused(64, p.submit('echo', after=first, flags=8))
        batch = p.send('BATCH', action=1, flags=1)
        state = p.next('BATCH_STATE', batch).message
        job = p.submit('sleep:sleep', '20', batch=batch, flags=1)
        waits = p.submit('echo', 'x', after=state.id)
        p.is_refused(64, p.submit('echo', after=state.id, batch=batch, flags=1))
        p.is_refused(64, p.submit('echo', after=state.id, flags=8))
        p.end(job)
        assert p.status(p.next('ACCEPTED', waits).message.id).state == HELD  # more may come into it
        p.send('BATCH', batch, action=2)
        assert p.end(waits)[1] == b'x\n'
        assert p.run('echo', 'y', after=state.id)[1] == b'y\n'


@case('P38')
def names_of_tags(wsd):
    with Peer(wsd.socket) as p:
        tag, job = p.accepted('echo', 'x', tags='a.b,c_d', flags=1)
        assert p.status(job).tags == b'a.b,c_d'
    for tags in ('a,b,c,d', 'a b', ',', 'x' * 64):
        with Peer(wsd.socket) as p:
            p.breaks(p.frame(2, 1, encode('Submit', {'plugin': 'echo', 'tags': tags})))


# Flow


@case('P39', 'P40')
def windows(wsd):
    with Peer(wsd.socket) as p:
        # one that does not read
        tag = p.submit('reader:stream', os.path.join(wsd.dir, 'begun'), os.path.join(wsd.dir, 'never'), flags=4)
        p.next('ACCEPTED', tag)
        data = b''.join(p.frame(3, tag, encode('Chunk', {'offset': at}), bytes(32768)) for at in range(0, 1 << 22, 32768))
        p.breaks(data)
    with Peer(wsd.socket, window=0, features=0) as p:
        tag, _ = p.accepted('echo', 'hello')
        assert p.quiet(tag)
        p.send('CREDIT', tag, bytes=3)
        assert p.next('OUTPUT', tag).body == b'hel'
        ping = p.send('PING')  # nothing else is held up
        p.next('PONG', ping)
        p.send('CREDIT', tag, bytes=100)
        assert p.next('OUTPUT', tag).body == b'lo\n' and p.next('DONE', tag)


# Files


@case('P41', 'P42')
def files(wsd):
    path = os.path.join(wsd.dir, 'file')
    with open(path, 'w', encoding='ascii') as f:
        f.write('content')
    if os.geteuid():
        raise Skip('only root has files that his own executor cannot open')
    os.chmod(path, 0)
    os.chown(path, 65534, 65534)  # its capabilities are what opens it, and the client alone has them
    with Peer(wsd.socket, directory=wsd.dir.encode()) as p:
        tag, _ = p.accepted('echo:cat', 'file')
        m = p.next('OPEN', tag).message
        assert m.path in (b'file', path.encode())
        with open(path, 'rb') as f:
            p.send('OPENED', tag, serial=m.serial, fd=f.fileno())
        assert p.end(tag)[1] == b'content'
        tag, _ = p.accepted('echo:cat', path)
        m = p.next('OPEN', tag).message
        p.send('OPENED', tag, serial=m.serial, error=5)
        m = p.end(tag)[0][-1].message
        assert m.exit == 1 and m.error.startswith(path.encode()), m
        p.breaks(p.frame(12, 99, encode('Opened', {'error': 1})))  # that was not asked for


@case('P43')
def input_from_a_file(wsd):
    path = os.path.join(wsd.dir, 'input')
    with open(path, 'w+b') as f:
        f.write(b'0123456789')
        f.flush()
        with Peer(wsd.socket, features=ALL | 4) as p:
            assert p.run('echo', input_from=1, input_offset=2, input_size=5, fd=f.fileno())[1] == b'23456'
            p.is_refused(64, p.submit('echo', input_from=1, input_offset=2, input_size=9, fd=f.fileno()))
            p.breaks(p.frame(2, 99, encode('Submit', {'plugin': 'echo', 'input_from': 1, 'input_size': 1})))  # without it


# Cancelling


@case('P44', 'P45')
def cancels(wsd):
    with Peer(wsd.socket) as p, Peer(wsd.socket, features=OLD) as old:
        tag, job = p.accepted('ends:heed', flags=1)
        p.next('END', p.send('CANCEL', id=job))
        m = p.end(tag)[0][-1].message
        assert (m.state, m.exit) == (CANCELLED, 130)
        p.is_refused(66, p.send('CANCEL', id=job))  # it is kept
        old.next('END', old.send('CANCEL', id=job))
        tag, job = p.accepted('ends:heed')
        p.next('END', p.send('CANCEL', id=job))
        p.end(tag)
        p.is_refused(66, p.send('CANCEL', id=job))  # it is not
        old.is_refused(66, old.send('CANCEL', id=job))
        p.is_refused(66, p.send('CANCEL', id=bytes(16)))


@case('P126')
def cancels_on_disk(wsd):
    with Peer(wsd.socket) as p:
        for delay in (3600 * 10**6, 0):  # waits; is begun, or is about to be
            tag, job = p.accepted('ends:heed', flags=8, delay_usec=delay)
            p.next('END', p.send('CANCEL', id=job))
            assert p.next('JOB', p.send('STATUS', id=job)).message.state == CANCELLED
            p.end(tag)
        tags = [p.accepted('ends:heed', flags=9, delay_usec=3600 * 10**6) for _ in range(3)]
        assert p.next('COUNT', p.send('CANCEL_WHERE', states=1 << DELAYED, plugin='ends')).message.n == 3
        for tag, job in tags:
            assert p.next('JOB', p.send('STATUS', id=job)).message.state == CANCELLED


@case('P46')
def cancels_where(wsd):
    with Peer(wsd.socket) as p:
        tags = [p.accepted('ends:heed', delay_usec=3600 * 10**6, tags='x')[0] for _ in range(3)]
        p.is_refused(64, p.send('CANCEL_WHERE'))
        assert p.next('COUNT', p.send('CANCEL_WHERE', states=1 << DELAYED, plugin='ends', function='heed')).message.n == 3
        for tag in tags:
            assert p.end(tag)[0][-1].message.state == CANCELLED


@case('P47')
def forgets(wsd):
    with Peer(wsd.socket) as p:
        tag, job = p.accepted('sleep:sleep', '50', flags=1)
        p.send('FORGET', tag)
        assert p.end(tag)[0][-1].kind == 'END'
        assert p.end(p.send('AWAIT', id=job))[1] == b'slept\n'
        tag, job = p.accepted('ends:heed')  # not detached: cancelled
        p.send('FORGET', tag)
        while p.end(tag)[0][-1].kind != 'END':
            pass
        tag = p.send('STATUS', id=job)
        assert p.next('JOB|ERROR', tag)


# Arrays and batches


def all_ends(p, tag):
    frames, found = [], []
    while not frames or not (frames[-1].kind == 'ERROR' or (frames[-1].kind == 'ENDS' and frames[-1].message.last)):
        frames.append(p.next(None, tag))
        if frames[-1].kind == 'ENDS':
            found += records(frames[-1])
    return frames, found


def plus(job, n):
    return job[:8] + struct.pack('<Q', struct.unpack('<Q', job[8:])[0] + n)


def units(p):
    return {c.name: c.value for c in p.next('COUNTERS', p.send('STATS')).message.counters}[b'request_units']


@case('P48', 'P49')
def arrays(wsd):
    with Peer(wsd.socket, features=ALL & ~1024) as p:
        body = b''.join(item([str(i)], b'') for i in range(50))
        tag = p.send('ARRAY', plugin='ends', items=50, body=body, flags=1)
        frames, found = all_ends(p, tag)
        assert frames[0].kind == 'ACCEPTED' and frames[0].message.items == 50
        ended = [r for r in found if r['state'] >= SUCCEEDED]
        assert sorted(r['index'] for r in ended) == list(range(50)) and all(r['n'] == 1 for r in ended)
        for r in ended:
            assert r['exit'] == r['index'] and r['state'] == (FAILED if r['index'] else SUCCEEDED)
        assert p.status(plus(frames[0].message.id, 7)).exit == 7
        tag = p.send('ARRAY', plugin='echo', items=2, body=item([], b'a') + item([], b'b'), flags=16)
        frames, found = all_ends(p, tag)
        assert all(f.kind == 'ENDS' for f in frames) and {r['index']: r['output'] for r in found} == {0: b'a', 1: b'b'}
        p.is_refused(64, p.send('ARRAY', plugin='echo', items=1, body=item(), key='k'))
        one, ended = p.accepted('echo', 'x', flags=1)
        p.end(one)
        for items in (63, 64, 65):
            tag = p.send('ARRAY', plugin='echo', items=items, after=ended * 1024, body=item([], b'a') * items)
            if items > 64:
                p.is_refused(64, tag)
            else:
                found = all_ends(p, tag)[1]
                assert len({r['index'] for r in found if r['state'] == SUCCEEDED}) == items, found[:3]
        # each item costs its user what a SUBMIT of it does, beside the frame
        before = units(p)
        p.send('ARRAY', plugin='echo', items=200, delay_usec=3600 * 10**6, body=item([], b'a') * 200)
        assert units(p) - before > 200 * 3000
        # to leave a detached one costs little, to cancel one that is not costs much
        for flags, least, most in ((1, 0, 1000), (0, 3000, 6000)):
            tag = p.send('ARRAY', plugin='echo', items=200, flags=flags, delay_usec=3600 * 10**6, body=item([], b'a') * 200)
            p.next('ACCEPTED', tag)
            before = units(p)
            p.send('FORGET', tag=tag)
            p.next('END', tag)
            assert least * 200 < units(p) - before < most * 200
    for items, body in ((2, item()), (1, item() + item()), (1, item() + b'x'), (0, b''), (4097, item() * 4097)):
        with Peer(wsd.socket) as p:
            p.breaks(p.frame(23, 1, encode('Submit', {'plugin': 'echo', 'items': items}), body))


@case('P50', config='[limits]\nmax-jobs-per-user = 6\n')
def refused_items(wsd):
    with Peer(wsd.socket) as p:
        for plugin, items, accepted, code in (('nowhere', 5, 0, 66), ('echo:nothing', 5, 0, 66), ('sleep', 20, 6, 75), ('echo:echo', 3, 3, 0)):
            plugin, _, function = plugin.partition(':')
            tag = p.send('ARRAY', plugin=plugin, function=function, items=items, body=item(['20']) * items)
            frames, found = all_ends(p, tag)
            kinds = [f.kind for f in frames]
            assert kinds.count('ACCEPTED') == (accepted > 0), kinds
            if accepted:
                assert kinds[0] == 'ACCEPTED' and frames[0].message.items == accepted, frames
            refused = [r for r in found if not r['state']]
            assert len(refused) == (1 if code else 0), refused  # alike, one behind the other: one record
            if code:
                assert (refused[0]['index'], refused[0]['n'], refused[0]['exit']) == (accepted, items - accepted, code), refused
                assert refused[0]['error']


@case('P51')
def progress_of_items(wsd):
    with Peer(wsd.socket) as p:
        tag = p.send('ARRAY', plugin='ends', function='steps', items=3, body=item(['1']) + item(['2']) + item(['3', '4']))
        frames, _ = all_ends(p, tag)
        assert {f.message.item: (f.message.done, f.message.total) for f in frames if f.kind == 'PROGRESS'} == {0: (1, 2), 1: (2, 3), 2: (3, 4)}
        for _ in range(20):  # brief ones, that wsd may hand over together
            tag = p.send('ARRAY', plugin='ends', function='steps', items=40, body=item(['0']) * 39 + item(['1']))
            frames, _ = all_ends(p, tag)
            assert [(f.message.item, f.message.done) for f in frames if f.kind == 'PROGRESS'] == [(39, 1)]
    with Peer(wsd.socket, features=OLD) as p:
        tag = p.send('ARRAY', plugin='ends', function='steps', items=1, body=item(['1']))
        assert not [f for f in all_ends(p, tag)[0] if f.kind == 'PROGRESS']


@case('P52', 'P53')
def batches(wsd):
    with Peer(wsd.socket) as p:
        batch = p.send('BATCH', action=1)
        jobs = [p.submit('echo', 'x', batch=batch), p.submit('ends', '5', batch=batch), p.submit('ends:heed', batch=batch)]
        first = p.next('BATCH_STATE', batch).message
        assert len(first.id) == 16 and not first.flags & 3
        assert p.end(jobs[0])[1] == b'x\n' and p.end(jobs[1])[0][-1].message.exit == 5
        m = p.end(jobs[2])[0][-1].message  # behind the failure: cancelled, or not even accepted
        assert 130 in (getattr(m, 'exit', 0), getattr(m, 'code', 0))
        p.is_refused(130, p.submit('echo', batch=batch))
        p.send('BATCH', batch, action=2)
        last = p.next('BATCH_STATE', batch).message
        assert last.flags & 3 == 3 and last.exit == 5 and last.id == first.id and last.done == last.total
        p.is_refused(64, p.submit('echo', batch=batch))
        batch = p.send('BATCH', action=1, flags=4)
        jobs = [p.submit('ends', '5', batch=batch), p.submit('echo', 'x', batch=batch)]
        assert p.end(jobs[0])[0][-1].message.exit == 5 and p.end(jobs[1])[1] == b'x\n'
        p.is_refused(64, p.submit('echo', batch=batch, key='k'))
        p.is_refused(64, p.submit('echo', batch=batch, flags=8))


@case('P54')
def a_cancel_closes_a_batch(wsd):
    with Peer(wsd.socket) as p, Peer(wsd.socket, features=OLD) as old:
        for by_id in (False, True):
            batch = p.send('BATCH', action=1)
            state = p.next('BATCH_STATE', batch).message
            job = p.submit('ends:heed', batch=batch)
            p.next('ACCEPTED', job)
            if by_id:
                p.next('END', p.send('BATCH', action=5, id=state.id))
            else:
                p.send('CANCEL', batch)
            assert p.end(job)[0][-1].message.exit == 130
            last = p.next('BATCH_STATE', batch).message  # without action 2
            assert last.flags & 3 == 3 and last.exit == 130
            p.is_refused(130, p.submit('echo', batch=batch))  # as if it had crossed that
            p.send('BATCH', batch, action=2)
        batch = old.send('BATCH', action=1)
        old.next('BATCH_STATE', batch)
        old.send('CANCEL', batch)
        assert old.quiet(batch)
        old.send('BATCH', batch, action=2)
        assert old.next('BATCH_STATE', batch).message.flags & 2


@case('P55')
def detached_batches(wsd):
    with Peer(wsd.socket) as p, Peer(wsd.socket, features=OLD) as old:
        batch = p.send('BATCH', action=1, flags=1)
        state = p.next('BATCH_STATE', batch).message
        p.is_refused(64, p.submit('echo', batch=batch))
        p.is_refused(64, p.send('ARRAY', plugin='echo', batch=batch, items=1, body=item()))
        p.submit('sleep:sleep', '20', batch=batch, flags=1)
        batch = old.send('BATCH', action=1, flags=1)
        old.next('BATCH_STATE', batch)
        assert old.run('echo', 'x', batch=batch)[1] == b'x\n'
    with Peer(wsd.socket) as p:  # its connection has closed it
        tag = p.send('BATCH', action=4, id=state.id)
        while not (m := p.next('BATCH_STATE', tag).message).flags & 2:
            pass
        assert (m.done, m.failed) == (1, 0)
        assert p.next('BATCH_STATE', p.send('BATCH', action=3, id=state.id)).message.flags & 2
        p.is_refused(66, p.send('BATCH', action=5, id=state.id))  # it has ended
        for action in (3, 4, 5):
            p.is_refused(66, p.send('BATCH', action=action, id=bytes(16)))


# Asking


@case('P56')
def asking_for_jobs(wsd):
    with Peer(wsd.socket) as p:
        _, one = p.accepted('echo', 'x', flags=1)
        p.wait_state(one, SUCCEEDED)
        _, two = p.accepted('ends:heed', flags=1)
        found = p.list('LIST', p.send('LIST'))
        assert found[-1].kind == 'END' and [f.message.id for f in found if f.message.__dict__.get('id') in (one, two)] == [one, two]
        found = p.list('LIST_WHERE', p.send('LIST_WHERE', plugin='ends', states=1 << RUNNING | 1 << QUEUED))
        assert [f.message.id for f in found[:-1]] == [two]
        assert [f.message.id for f in p.list('LIST_WHERE', p.send('LIST_WHERE', limit=1))[:-1]] == [two]
        p.next('END', p.send('CANCEL', id=two))
        p.is_refused(66, p.send('STATUS', id=bytes(16)))


@case('P57')
def asking_for_the_rest(wsd):
    with Peer(wsd.socket) as p:
        said = p.list('PLUGINS', p.send('PLUGINS', name='echo'))
        assert said[0].message.name == b'echo' and b'stream' in [f.name for f in said[0].message.functions] and said[1].kind == 'END'
        p.is_refused(66, p.send('PLUGINS', name='nowhere'))
        assert {c.name for c in p.next('COUNTERS', p.send('STATS')).message.counters} >= {b'jobs_submitted', b'jobs_open'}
        kinds = [f.kind for f in p.list('WORKERS', p.send('WORKERS'))]
        assert kinds[-1] == 'END' and kinds.count('EXECUTOR') >= 1 and 'WORKER' in kinds
        assert [f.kind for f in p.list('GATE', p.send('GATE', action=5))][0] == 'GATE_STATE'
        said = p.list('LIMIT', p.send('LIMIT'))
        assert {f.message.key for f in said[:-1]} >= {b'max-jobs'} and said[-1].kind == 'END'
        said = p.list('RELOAD', p.send('RELOAD', name='echo'))
        assert said[0].kind == 'RELOADED' and said[-1].kind == 'END'


# Errors, ends


@case('P58', config='[limits]\nmax-jobs-per-user = 2\n')
def refused_for_now(wsd):
    with Peer(wsd.socket) as p:
        tags = [p.accepted('ends:heed')[0] for _ in range(2)]
        before = [f.message.id for f in p.list('LIST', p.send('LIST'))[:-1]]
        m = p.is_refused(75, p.submit('echo', flags=1))
        assert not m.accepted
        assert [f.message.id for f in p.list('LIST', p.send('LIST'))[:-1]] == before  # nothing was done
        for tag in tags:
            p.send('CANCEL', tag)
            p.end(tag)
        assert p.run('echo', 'x')[1] == b'x\n'


@case('P59')
def one_connection_only(wsd):
    with Peer(wsd.socket) as other, Peer(wsd.socket) as p:
        tag = other.submit('ends:heed')
        p.breaks(b'nonsense' * 4)
        other.send('CANCEL', tag)
        assert other.end(tag)[0][-1].message.exit == 130


@case('P60')
def the_end_of_a_connection(wsd):
    with Peer(wsd.socket) as q:
        with Peer(wsd.socket) as p:
            _, goes = p.accepted('ends:heed')
            _, stays = p.accepted('sleep:sleep', '30', flags=1)
            _, keyed = p.accepted('sleep:sleep', '30', key='stays')
        assert q.end(q.send('AWAIT', id=stays))[1] == b'slept\n'
        assert q.end(q.send('AWAIT', id=keyed))[1] == b'slept\n'
        until = time.monotonic() + LIMIT
        while q.next('JOB|ERROR', q.send('STATUS', id=goes)).kind == 'JOB':
            assert time.monotonic() < until
            time.sleep(0.01)


@case('P61', config='[daemon]\ndrain-timeout = 10s\n')
def goodbye(wsd):
    with Peer(wsd.socket) as p:
        gate = os.path.join(wsd.dir, 'gate')
        tag, job = p.accepted('ledger:gate', gate, 'x')
        p.wait_state(job, RUNNING)
        wsd.signal(signal.SIGTERM)
        assert p.next('GOODBYE', 0).message.code == 75
        p.is_refused(75, p.submit('echo'))
        with open(gate, 'w', encoding='ascii'):
            pass
        assert p.end(tag)[0][-1].kind == 'FINISHED'
        try:
            p.next()
            raise AssertionError('it goes on')
        except Closed:
            pass


@case('P62')
def limits(wsd):
    good = {'plugin': 'echo'}
    for values in ({'plugin': 'x' * 4096}, {**good, 'function': 'x' * 64}, {**good, 'args': ['x'] * 4097}, {**good, 'args': ['x' * 49152]},
                   {**good, 'args': ['a\0b']}, {**good, 'priority': 101}, {**good, 'key': 'x' * 256}, {**good, 'retries': 1001},
                   {**good, 'retry_usec': 86400000001}, {**good, 'retry_on': 1 << 5}, {**good, 'delay_usec': 315576000000001},
                   {**good, 'after': bytes(15)}, {**good, 'after': bytes(16 * 1025)}, {**good, 'flags': 128}, {**good, 'input_from': 3}):
        with Peer(wsd.socket) as p:
            p.breaks(p.frame(2, 1, encode('Submit', values)))
    with Peer(wsd.socket) as p:  # at the limit
        assert p.run('echo', *['x'] * 4096)[1]
        assert len(p.run('echo', 'x' * 49151)[1]) >= 49151
        p.is_refused(66, p.submit('x' * 4095))
        p.is_refused(66, p.submit('echo:' + 'x' * 63))


def open_arena(p, size=1 << 16):
    """Its tag, and the descriptor."""
    memory = os.memfd_create('arena', os.MFD_ALLOW_SEALING)
    os.ftruncate(memory, size)
    fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    arena = p.send('ARENA_OPEN', fd=memory)
    p.next('ARENA', arena)
    return arena, memory


@case('P63')
def arenas(wsd):
    with Peer(wsd.socket, features=ALL | 4) as p:
        p.is_refused(64, p.send('ARENA_OPEN', fd=os.memfd_create('arena', os.MFD_ALLOW_SEALING)))  # not sealed
        arena, memory = open_arena(p)
        os.pwrite(memory, b'hello', 100)
        m, output = p.run('echo', arena=arena, input_from=2, input_offset=100, input_size=5, output_offset=4096, output_size=100)
        assert m.placed == 5 and output == b'' and os.pread(memory, 5, 4096) == b'hello'
        p.is_refused(64, p.submit('echo', arena=arena, input_from=2, input_offset=1 << 16, input_size=1))
        assert p.run('echo', body=b'hello', arena=arena, output_offset=0, output_size=4)[0].state == FAILED
        p.send('ARENA_CLOSE', arena)
        p.next('END', arena)
        p.is_refused(64, p.submit('echo', arena=arena, input_from=2, input_size=1))


@case('P64')
def text_of_executors(wsd):
    steers = b'h\x1b]0;x\x07\x7f\xc2\x9b1m\x9b2J\xe2\x80\xae\xe2\x80\xa8'
    shown = b'h\\x1b]0;x\\x07\\x7f\\u{9b}1m\\x9b2J\\u{202e}\\u{2028}'
    with Peer(wsd.socket) as p:
        for text, wanted in ((steers, shown), ('ä\t€'.encode(), 'ä €'.encode())):
            m = p.run('echo:status', b'7', text)[0]
            assert (m.state, m.exit, m.error, m.status) == (FAILED, 7, wanted, b'asked for 7'), m.error
        m = p.run('echo:status', b'7', b'\x1b' * 255)[0]  # cut, and no escape in two
        assert m.error == b'\\x1b' * 63, m.error


# Runners


class Taker(Peer):
    """A runner that does nothing by itself."""

    def __init__(self, path, name, credit=4, flags=0, features=ALL):
        super().__init__(path, features=features)
        self.runner = self.send('RUNNER_OPEN', name=name, credit=credit, functions=[{'name': 'f', 'flags': flags}])
        self.next('RUNNER', self.runner)

    def say(self, kind, body=b'', **values):
        self.send(kind, self.runner, body=body, **values)

    def job(self):
        return self.next('RUN', self.runner)

    def is_ended(self, code=76):
        error = self.next('ERROR', 0).message
        assert error.code == code, error
        try:
            self.read()
        except (Closed, ConnectionError):
            return
        raise AssertionError('the connection goes on')


@case('P65')
def a_runner_needs_its_feature(wsd):
    with Peer(wsd.socket, features=OLD) as p:
        p.send('RUNNER_OPEN', name='taker', credit=1, functions=[{'name': 'f'}])
        assert p.next('ERROR', 0).message.code == 76


@case('P66')
def a_run_that_the_runner_does_not_have(wsd):
    with Peer(wsd.socket) as p:
        for kind, values in (('RUN_END', {'run': 99 << 32}), ('RUN_OUTPUT', {'run': 5, 'body': b'x'}), ('RUN_MESSAGE', {'run': 5}),
                             ('RUN_PROGRESS', {'run': 5}), ('RUN_OPEN', {'run': 5, 'path': 'x'})):
            with Taker(wsd.socket, 'taker') as r:
                tag = p.submit('taker:f')
                r.job()
                r.say(kind, **values)
                r.is_ended()
                assert p.end(tag)[0][-1].message.state == INTERRUPTED


@case('P67')
def names_of_runners(wsd):
    with Peer(wsd.socket) as p:
        for name in ('fib', 'a/b', 'x.so', '-x', '.x', 'a b', 'x' * 63 + '.'):
            if len(name) > 63:
                continue
            p.is_refused(64, p.send('RUNNER_OPEN', name=name, credit=1, functions=[{'name': 'f'}]))
    with Taker(wsd.socket, 'x' * 63):
        pass
    for names, most in ((64, 64), (1, 256)):  # once all of these have gone, they count no more
        with Peer(wsd.socket) as p:
            offer = lambda name: p.send('RUNNER_OPEN', name=name, credit=1, functions=[{'name': 'f'}])
            for i in range(most):
                p.next('RUNNER', offer('n%d-%d' % (names, i % names)))
            p.is_refused(75, offer('one-more' if names > 1 else 'n1-0'))
            p.next('PONG', p.send('PING'))


@case('P68')
def credit(wsd):
    for n in (0, 1025):
        with Peer(wsd.socket) as p:
            p.send('RUNNER_OPEN', name='taker', credit=n, functions=[{'name': 'f'}])
            assert p.next('ERROR', 0).message.code == 76
    with Peer(wsd.socket) as p, Taker(wsd.socket, 'taker', credit=1) as r:
        tags = [p.submit('taker:f', b'%d' % i) for i in range(3)]
        for i in range(3):
            m = r.job().message
            assert m.args == [b'%d' % i] and r.quiet(r.runner, 0.1)
            r.say('RUN_END', run=m.run)
        for tag in tags:
            assert p.end(tag)[0][-1].kind == 'FINISHED'


@case('P93')
def credit_of_many(wsd):
    with Peer(wsd.socket) as p, Peer(wsd.socket, features=ALL & ~131072) as old:
        credits = lambda peer: [x.credit for f in peer.list('PLUGINS', peer.send('PLUGINS', name='many', runners=True))[:-1] for x in f.message.runners]
        for n, seen in ((256, 256), (257, 256), (1024, 256)):
            with Taker(wsd.socket, 'many', credit=n) as r:
                assert (credits(p), credits(old)) == ([n], [seen])
                tags = [p.submit('many:f') for _ in range(n + 1)]
                runs = [r.job().message.run for _ in range(n)]
                assert r.quiet(r.runner, 0.1)
                r.say('RUN_END', run=runs[0])
                for run in runs[1:] + [r.job().message.run]:
                    r.say('RUN_END', run=run)
                for tag in tags:
                    p.end(tag)


@case('P69')
def input_of_a_run(wsd):
    data = os.urandom(200000)
    with Peer(wsd.socket) as p, Taker(wsd.socket, 'taker') as r:
        tag = p.submit('taker:f', body=data[:1000])
        run = r.job()
        assert run.body == data[:1000] and run.message.flags & 2 == 0
        r.say('RUN_END', run=run.message.run)
        p.end(tag)
        tag = p.submit('taker:f', flags=4, body=data[:60000])
        for at in range(60000, len(data), 60000):
            p.send('INPUT', tag, body=data[at:at + 60000], offset=at, last=at + 60000 >= len(data))
        run = r.job()
        got = run.body
        assert run.message.flags & 2 and run.message.input_size == len(data)
        while len(got) < len(data):
            more = r.next('RUN_INPUT', r.runner)
            assert more.message.offset == len(got)
            got += more.body
            assert more.message.last == (len(got) == len(data))
        assert got == data
        r.say('RUN_END', run=run.message.run)
        p.end(tag)
        memory = os.memfd_create('input')
        os.write(memory, data)
        tag = p.submit('taker:f', fd=memory, input_from=1, input_offset=10, input_size=500)
        run = r.job().message
        assert run.input_from == 1 and os.pread(r.fds.pop(0), run.input_size, run.input_offset) == data[10:510]
        r.say('RUN_END', run=run.run)
        p.end(tag)


@case('P82')
def output_of_a_run_in_an_arena(wsd):
    with Peer(wsd.socket) as p, Taker(wsd.socket, 'taker') as r:
        arena, memory = open_arena(p)
        body = os.urandom(40000)
        tag = p.submit('taker:f', body=body, arena=arena, output_offset=100, output_size=5)
        m = r.job().message
        place = r.fds.pop(0)
        assert (m.output_offset, m.output_size, m.input_from, m.flags & 2, m.input_size) == (100, 5, 0, 2, len(body)), m
        assert b''.join(r.next('RUN_INPUT', r.runner).body for _ in range(0, len(body), 60 << 10)) == body
        os.pwrite(place, b'right', m.output_offset)
        r.say('RUN_END', run=m.run, placed=5)
        frames, output = p.end(tag)
        assert (frames[-1].message.placed, output, os.pread(memory, 7, 99)) == (5, b'', b'\0right\0'), frames
        # without input; it has failed, and says how far it came
        tag = p.submit('taker:f', arena=arena, output_offset=0, output_size=5)
        m = r.job().message
        r.fds.pop(0)
        assert (m.flags & 2, m.input_size) == (0, 0)
        r.say('RUN_END', run=m.run, placed=3, status=63, error='more')
        m = p.end(tag)[0][-1].message
        assert (m.exit, m.placed, m.error) == (63, 3, b'more'), m
        # one descriptor for both
        os.pwrite(memory, b'given', 300)
        tag = p.submit('taker:f', arena=arena, input_from=2, input_offset=300, input_size=5, output_offset=200, output_size=5)
        m = r.job().message
        assert len(r.fds) == 1 and (m.input_from, m.input_offset, m.output_offset) == (1, 300, 200)
        os.pwrite(r.fds.pop(0), os.pread(memory, 5, m.input_offset), m.output_offset)
        r.say('RUN_END', run=m.run)
        assert p.end(tag)[0][-1].message.placed == 0 and os.pread(memory, 5, 200) == b'given'
    for kind, values in (('RUN_OUTPUT', {'body': b'x'}), ('RUN_END', {'body': b'x'}), ('RUN_END', {'placed': 6})):
        with Peer(wsd.socket) as p, Taker(wsd.socket, 'taker') as r:
            arena, memory = open_arena(p)
            tag = p.submit('taker:f', arena=arena, output_size=5)
            r.say(kind, run=r.job().message.run, **values)
            r.is_ended(75 if 'placed' in values else 76)
            assert p.end(tag)[0][-1].message.state == INTERRUPTED
            p.is_refused(75, p.submit('fib', b'1', arena=arena, output_size=5))  # it may still write
            assert p.run('echo', arena=arena, input_from=2, input_size=2)[1] == b'\0\0'


@case('P83')
def a_runner_that_knows_no_arena(wsd):
    with Peer(wsd.socket) as p, Taker(wsd.socket, 'taker', features=ALL & ~16384) as r:
        arena, _ = open_arena(p)
        p.is_refused(64, p.submit('taker:f', arena=arena, output_size=5))
        tag = p.submit('taker:f', arena=arena, input_from=2, input_size=5)
        m = r.job().message
        r.fds.pop(0)
        r.say('RUN_END', run=m.run)
        p.end(tag)
    with Peer(wsd.socket) as p:  # it comes when the job is there
        arena, _ = open_arena(p)
        tag = p.submit('taker:f', flags=64, arena=arena, output_size=5)
        with Taker(wsd.socket, 'taker', features=ALL & ~16384) as r:
            m = p.end(tag)[0][-1].message
            assert m.exit == 63 and b'cannot write into an arena' in m.error, m
            tag = p.submit('taker:f')
            r.say('RUN_END', run=r.job().message.run)
            p.end(tag)


@case('P70')
def output_of_a_run(wsd):
    with Peer(wsd.socket) as p, Taker(wsd.socket, 'taker') as r:
        tag = p.submit('taker:f')
        run = r.job().message.run
        for at in range(0, 120000, 60000):
            r.say('RUN_OUTPUT', body=b'x' * 60000, run=run, offset=at)
        allowed = 0
        while allowed < 120000:
            allowed += r.next('RUN_CREDIT', r.runner).message.bytes
        r.say('RUN_END', run=run, body=b'y' * 4096)
        assert p.end(tag)[1] == b'x' * 120000 + b'y' * 4096
        tag = p.submit('taker:f')
        run = r.job().message.run
        r.say('RUN_OUTPUT', run=run, offset=1, body=b'x')
        r.is_ended()


@case('P71')
def what_a_run_says(wsd):
    with Peer(wsd.socket) as p, Taker(wsd.socket, 'taker') as r:
        tag = p.submit('taker:f', flags=2)
        run = r.job().message.run
        r.say('RUN_MESSAGE', run=run, level=4, text='words')
        r.say('RUN_PROGRESS', run=run, done=2, total=5)
        m = p.next('ACCEPTED', tag) and p.next('MESSAGE', tag).message
        assert (m.level, m.text) == (4, b'words')
        r.say('RUN_END', run=run, status=7, error='why', text='said', body=b'out')
        frames, output = p.end(tag)
        m = frames[-1].message
        assert (m.state, m.exit, m.error, m.status, m.done, m.total, output) == (FAILED, 7, b'why', b'said', 2, 5, b'out'), m


@case('P72', config='[limits]\ncancel-grace = 300ms\n')
def a_run_is_stopped(wsd):
    with Peer(wsd.socket) as p, Taker(wsd.socket, 'taker') as r:
        tag = p.submit('taker:f')
        run = r.job().message.run
        p.send('CANCEL', tag)
        m = r.next('RUN_STOP', r.runner).message
        assert (m.run, m.why) == (run, 1)
        r.say('RUN_END', run=run)
        assert p.end(tag)[0][-1].message.state == CANCELLED
        tag = p.submit('taker:f', timeout_usec=50000)
        r.job()
        assert r.next('RUN_STOP', r.runner).message.why == 2
        r.is_ended(75)
        assert p.end(tag)[0][-1].message.state == TIMED_OUT


@case('P73', config='[limits]\nexecutor-answer = 1s\n')
def a_runner_answers(wsd):
    with Peer(wsd.socket) as p, Taker(wsd.socket, 'taker') as r:
        tag = p.submit('taker:f')
        r.job()
        m = r.next('RUN_PING', r.runner).message
        r.say('RUN_PONG', run=m.run)
        m = r.next('RUN_PING', r.runner).message  # not answered
        r.is_ended(75)
        assert p.end(tag)[0][-1].message.state == INTERRUPTED


@case('P74')
def the_end_of_a_runner(wsd):
    with Peer(wsd.socket) as p, Taker(wsd.socket, 'again', flags=1) as a, Taker(wsd.socket, 'taker') as b:
        tag = p.submit('again:f')
        assert a.job().message.attempt == 1
        a.socket.close()
        with Taker(wsd.socket, 'again', flags=1) as other:
            m = other.job().message
            assert m.attempt == 2
            other.say('RUN_END', run=m.run)
            assert p.end(tag)[0][-1].kind == 'FINISHED'
        tag = p.submit('taker:f')
        b.job()
        b.socket.close()
        assert p.end(tag)[0][-1].message.state == INTERRUPTED


@case('P88')
def a_run_that_did_not_end_by_itself(wsd):
    with Peer(wsd.socket) as p, Taker(wsd.socket, 'taker') as r:
        for state, exit in ((8, 124), (9, 70), (10, 125)):
            tag = p.submit('taker:f')
            r.say('RUN_END', run=r.job().message.run, state=state, error='there', status=5)
            m = p.end(tag)[0][-1].message
            assert (m.state, m.exit, m.error) == (state, exit, b'there'), m
        tag = p.submit('taker:f', flags=16, retries=1, retry_usec=1000, retry_on=1 << 9)
        r.say('RUN_END', run=r.job().message.run, state=9, status=5)
        r.say('RUN_END', run=r.job().message.run)
        assert p.end(tag)[0][-1].message.state == SUCCEEDED
        for state in (1, 7, 11):
            with Taker(wsd.socket, 'wrong') as other:
                tag = p.submit('wrong:f')
                other.say('RUN_END', run=other.job().message.run, state=state)
                other.is_ended()
            p.end(tag)


@case('P89')
def a_run_has_the_key_of_its_job(wsd):
    with Peer(wsd.socket) as p, Taker(wsd.socket, 'taker') as r:
        for key in (b'', b'k', b'k' * 200):
            tag = p.submit('taker:f', key=key)
            m = r.job().message
            assert m.key == key, m
            r.say('RUN_END', run=m.run)
            p.end(tag)


@case('P75')
def a_runner_leaves(wsd):
    with Peer(wsd.socket) as p, Taker(wsd.socket, 'taker') as r:
        first, second = p.submit('taker:f'), None
        run = r.job().message.run
        r.say('RUNNER_CLOSE')
        r.next('PONG', r.send('PING'))
        second = p.submit('taker:f')
        assert r.quiet(r.runner, 0.2)
        r.say('RUN_END', run=run)
        r.next('END', r.runner)
        assert p.end(first)[0][-1].kind == 'FINISHED'
        with Taker(wsd.socket, 'taker') as other:
            m = other.job().message
            other.say('RUN_END', run=m.run)
            assert p.end(second)[0][-1].kind == 'FINISHED'


@case('P76')
def a_job_waits_for_its_runner(wsd):
    with Peer(wsd.socket) as p:
        p.is_refused(66, p.submit('later:f'))
        p.is_refused(64, p.submit('later', flags=64))
        tags = [p.submit('later:f', b'%d' % i, flags=64) for i in range(2)]
        for tag in tags:
            p.next('ACCEPTED', tag)
        overdue = p.submit('later:f', flags=64, queue_usec=1000)
        assert p.end(overdue)[0][-1].message.state == TIMED_OUT
        none = p.submit('later:g', flags=64)
        p.next('ACCEPTED', none)
        p.send('CANCEL', tags[1])
        assert p.end(tags[1])[0][-1].message.state == CANCELLED
        with Taker(wsd.socket, 'later') as r:
            m = r.job().message
            assert (m.function, m.args) == (b'f', [b'0'])
            r.say('RUN_END', run=m.run)
            assert p.end(tags[0])[0][-1].kind == 'FINISHED'
            m = p.end(none)[0][-1].message
            assert (m.state, m.exit) == (FAILED, 66), m
        assert p.run('echo', b'a plugin', flags=64)[1] == b'a plugin\n'


@case('P77', config='')
def a_durable_job_waits_for_its_runner_in_the_next_wsd(wsd):
    with Peer(wsd.socket) as p:
        with Taker(wsd.socket, 'taker', credit=1) as r:
            _, running = p.accepted('taker:f', flags=8)
            r.job()
            _, waiting = p.accepted('taker:f', b'waits', flags=8)
            wsd.signal(signal.SIGKILL)
            wsd.wait()
    wsd.start()
    with Peer(wsd.socket) as p:
        assert p.status(running).state == INTERRUPTED and p.status(waiting).state == QUEUED
        with Taker(wsd.socket, 'taker') as r:
            m = r.job().message
            assert m.args == [b'waits']
            r.say('RUN_END', run=m.run)
            p.wait_state(waiting, SUCCEEDED)


@case('P79')
def runners_are_shown(wsd):
    with Peer(wsd.socket) as p, Taker(wsd.socket, 'seen', credit=1, flags=1) as r, Taker(wsd.socket, 'seen', credit=7, flags=1):
        ours = lambda name='': [f.message for f in p.list('PLUGINS', p.send('PLUGINS', name=name, runners=True))[:-1]]
        m, = [m for m in ours() if m.name == b'seen']
        assert all(m.runs for m in ours()) and not [f for f in p.list('PLUGINS', p.send('PLUGINS', name='echo'))[:-1] if f.message.runs]
        assert [(x.uid, x.pid, x.credit, x.running, x.leaving) for x in m.runners] == [
            (os.getuid(), os.getpid(), 1, 0, False), (os.getuid(), os.getpid(), 7, 0, False)], m
        assert abs(m.runners[0].since_usec / 1e6 - time.time()) < 600 and [(f.name, f.flags) for f in m.functions][0] == (b'f', 1)
        r.say('RUNNER_CLOSE')
        r.next('END', r.runner)
        assert [x.credit for x in ours('seen')[0].runners] == [7]
        waits, _ = p.accepted('unseen:f', flags=64)
        m, = ours('unseen')
        assert (m.waiting, len(m.runners)) == (1, 0)
        p.send('CANCEL', waits)
        p.end(waits)
        p.is_refused(66, p.send('PLUGINS', name='echo', runners=True))
        p.is_refused(66, p.send('PLUGINS', name='no-such', runners=True))


class As:
    """Connections are another user's: the kernel tells wsd the user at connect()."""

    def __init__(self, uid):
        self.uid = uid

    def __enter__(self):
        os.seteuid(self.uid)

    def __exit__(self, *unused):
        os.seteuid(0)


@case('P78', config='[daemon]\nsystem = yes\n[access]\nsubmit = 1001 1002\n[runner shared]\noffer = 1001\nmax = 1\n')
def a_runner_for_all_users(wsd):
    if os.geteuid():
        raise Skip('only root can act as two users')
    os.chmod(wsd.socket, 0o666)
    with As(1002):
        p = Peer(wsd.socket)
    p.is_refused(77, p.send('RUNNER_OPEN', name='shared', credit=1, functions=[{'name': 'f'}]))
    with As(1001):
        r, own = Taker(wsd.socket, 'shared', credit=2), Taker(wsd.socket, 'own')
    r.is_refused(75, r.send('RUNNER_OPEN', name='shared', credit=1, functions=[{'name': 'f'}]))
    p.is_refused(66, p.submit('own:f'))
    waits, _ = p.accepted('own:f', flags=64)
    path = os.path.join(wsd.dir, 'file')
    with open(path, 'w', encoding='ascii') as f:
        f.write('content')
    tag, _ = p.accepted('shared:f', path)
    m = r.job().message
    assert m.uid == 1002 and m.flags & 1
    r.say('RUN_OPEN', run=m.run, serial=1, path=path)
    asked = p.next('OPEN', tag).message
    with open(path, 'rb') as f:
        p.send('OPENED', tag, serial=asked.serial, fd=f.fileno())
    assert r.next('RUN_OPENED', r.runner).message.error == 0
    with os.fdopen(r.fds.pop(0), 'rb') as f:
        r.say('RUN_END', run=m.run, body=f.read())
    assert p.end(tag)[1] == b'content'
    assert own.quiet(own.runner, 0.2)
    p.send('CANCEL', waits)
    assert p.end(waits)[0][-1].message.state == CANCELLED
    for peer in (p, r, own):
        peer.socket.close()


@case('P80')
def a_place_offers_one_function_for_all(wsd):
    with Peer(wsd.socket) as p:
        offer = lambda name, *functions: p.send('RUNNER_OPEN', name=name, credit=1, functions=[{'name': f} for f in functions])
        for name in ('@', '@a/b', '@-a', '@a.so', '@' + 'x' * 63):
            p.is_refused(64, offer(name, '*') if len(name) < 64 else p.send('RUNNER_OPEN', name='@@', credit=1, functions=[{'name': '*'}]))
        for functions in (('f',), ('*', 'f'), ('f', '*')):
            p.is_refused(64, offer('@place', *functions))
        p.next('RUNNER', offer('@' + 'x' * 62, '*'))


@case('P81')
def a_place_gets_jobs_for_whatever_plugin(wsd):
    with Peer(wsd.socket) as p:
        p.is_refused(66, p.submit('@place/any:f'))
        for plugin in ('@place', '@place/', '@place/a/b', '@place/.a', '@place/' + 'x' * 64, '@/a'):
            p.is_refused(64, p.send('SUBMIT', plugin=plugin, function='f'))
        with Peer(wsd.socket) as r:
            r.runner = r.send('RUNNER_OPEN', name='@place', credit=4, functions=[{'name': '*', 'flags': 1}])
            r.next('RUNNER', r.runner)
            long = 'x' * 63
            for plugin, function, told in (('any', 'f', 'any:f'), ('any', '', 'any'), ('any', 'any', 'any'), (long, long + 'y'[:0], long),
                                           (long, 'y' * 63, long + ':' + 'y' * 63)):
                tag = p.send('SUBMIT', plugin='@place/' + plugin, function=function, args=[b'x'])
                p.next('ACCEPTED', tag)
                m = r.next('RUN', r.runner).message
                assert (m.function, m.args) == (told.encode(), [b'x']), m
                r.send('RUN_END', r.runner, run=m.run, status=1, error='not here')
                m = p.end(tag)[0][-1].message
                assert (m.state, m.error) == (FAILED, b'not here'), m
            tag, _ = p.accepted('@place/any:f')  # which may run twice, as `*` says
            r.next('RUN', r.runner)
        with Peer(wsd.socket) as r:
            r.runner = r.send('RUNNER_OPEN', name='@place', credit=4, functions=[{'name': '*'}])
            r.next('RUNNER', r.runner)
            m = r.next('RUN', r.runner).message
            assert m.attempt == 2, m
            r.send('RUN_END', r.runner, run=m.run)
            assert p.end(tag)[0][-1].kind == 'FINISHED'


# Acting for another user


def hello(p, user, **values):
    p.send('HELLO', 0, version_min=1, version_max=1, features=ALL | 1, window=1 << 20, user=user, **values)


def is_rejected(p, code, words=b''):
    m = p.is_refused(code, 0)
    assert words in m.text, m
    try:
        p.next()
    except Closed:
        return
    raise AssertionError('the connection goes on')


def as_uid(uid, function):
    """In a child of that user."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            function()
            status = 0
        except Exception:  # pylint: disable=broad-except
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


ACTING = '[daemon]\nsystem = yes\n[access]\nsubmit-as = games\nadminister = games\nsee = games\ncancel = games\n[fleet]\nuser = daemon\n'


@case('P84', 'P85', config=ACTING)
def another_user(wsd):
    if os.getuid() != 0:
        raise Skip('only root can act as several users')
    games = pwd.getpwnam('games').pw_uid
    with Peer(wsd.socket) as own:
        _, job = own.accepted('sleep:sleep', '60000', flags=1)
        with Peer(wsd.socket, greet=False) as p:
            hello(p, 'games', directory='/')
            first = p.submit('echo', 'x', flags=1)  # without waiting
            m = p.next('WELCOME', 0).message
            assert m.features & 32768 and not m.features & (1 | 4 | 4096), m
            m = p.end(first)[0][-1].message
            assert m.uid == games, m
            p.is_refused(66, p.send('STATUS', id=job))
            p.is_refused(66, p.send('CANCEL', id=job))
            p.is_refused(77, p.send('GATE', action=1))
            p.is_refused(77, p.submit('/usr/lib/x.so'))
            p.is_refused(77, p.send('RUNNER_OPEN', name='mine', credit=1, functions=[{'name': 'f'}]))
            m, _ = p.run('echo:cat', '/etc/hostname')  # no file of the client's
            assert m.state == FAILED and b'Permission denied' in m.error, m
            p.breaks(p.frame(1, 0, encode('Hello', {'version_min': 1, 'version_max': 1})))
        assert own.status(job).state in (QUEUED, RUNNING)
        own.send('CANCEL', id=job)


@case('P86', config=ACTING)
def who_acts_for_whom(wsd):
    if os.getuid() != 0:
        raise Skip('only root can act as several users')
    os.chmod(wsd.socket, 0o666)
    os.chmod(wsd.dir, 0o755)
    for user, words in (('backup', b'submit-as in wsd.conf does not name this user'), ('root', b'nobody acts for root'), ('no-such-user', b'there is no user')):
        with Peer(wsd.socket, greet=False) as p:
            hello(p, user)
            is_rejected(p, 77, words)

    def ordinary():
        with Peer(wsd.socket, greet=False) as p:
            hello(p, 'games')
            is_rejected(p, 77, b'[fleet] user in wsd.conf')

    def agent():
        with Peer(wsd.socket, greet=False) as p:
            hello(p, 'games')
            p.next('WELCOME', 0)
            assert p.run('echo', 'x')[0].uid == pwd.getpwnam('games').pw_uid
        with Peer(wsd.socket, greet=False) as p:
            hello(p, 'backup')
            is_rejected(p, 77, b'may not act for backup: [access] submit-as')
    as_uid(pwd.getpwnam('backup').pw_uid, ordinary)
    as_uid(pwd.getpwnam('games').pw_uid, ordinary)
    as_uid(pwd.getpwnam('daemon').pw_uid, agent)
    with Peer(wsd.socket, greet=False) as p:  # without the feature
        p.breaks(p.frame(1, 0, encode('Hello', {'version_min': 1, 'version_max': 1, 'user': 'games'})))
    for user in ('ga\nmes', 'x' * 256):
        with Peer(wsd.socket, greet=False) as p:
            p.breaks(p.frame(1, 0, encode('Hello', {'version_min': 1, 'version_max': 1, 'features': ALL, 'user': user})))


@case('P87', config=ACTING)
def a_right_that_is_taken_away(wsd):
    if os.getuid() != 0:
        raise Skip('only root can act as several users')
    with Peer(wsd.socket, greet=False) as p, Peer(wsd.socket, greet=False) as other:
        hello(p, 'games')
        p.next('WELCOME', 0)
        tag, job = p.accepted('sleep:sleep', '60000')
        other.send('HELLO', 0, version_min=1, version_max=1, features=ALL)
        other.next('WELCOME', 0)
        wsd.write(ACTING.replace('submit-as = games', 'submit-as = backup'))
        wsd.signal(signal.SIGHUP)
        m = p.next('ERROR', 0).message
        assert m.code == 77 and b'submit-as' in m.text, m
        until = time.monotonic() + LIMIT
        while 'code' not in vars(other.status(job)):  # it is cancelled, and nobody's to ask for
            assert time.monotonic() < until
            time.sleep(0.01)
        with Peer(wsd.socket, greet=False) as late:
            hello(late, 'games')
            is_rejected(late, 77, b'submit-as')


# --- running them ---------------------------------------------------------------------------------------------------------

# --- functions --------------------------------------------------------------------------------------------------------


def bucket_low(i):
    s = max(0, i // 32 - 1)
    return (i - 32 * s) * 2 ** s


def histograms(frame):
    """kind -> the Histogram and its buckets, (index, how many)."""
    out, body = {}, frame.body
    for h in frame.message.histograms:
        own, body = body[:10 * h.buckets], body[10 * h.buckets:]
        out[h.kind] = h, list(struct.iter_unpack('<HQ', own))
        assert len(own) == 10 * h.buckets and h.kind not in range(5, 99)
    assert not body
    return out


def functions(p, **values):
    return {(f.message.plugin, f.message.function): f for f in p.list('FUNCTIONS', p.send('FUNCTIONS', **values))[:-1]}


@case('P97', config='')
def functions_are_told(wsd):
    with Peer(wsd.socket) as p:
        assert functions(p) == {}
        assert p.run('echo', b'x')[1] == b'x\n' and p.run('upper', body=b'y')[1] == b'Y'
        assert set(functions(p)) == {(b'echo', b'echo'), (b'upper', b'upper')}
        assert all(f.message.uid == os.getuid() for f in functions(p).values())
        assert set(functions(p, plugin='echo')) == set(functions(p, plugin='echo', function='echo')) == {(b'echo', b'echo')}
        assert set(functions(p, by_uid=True, uid=os.getuid())) == set(functions(p))
        assert functions(p, plugin='echo', function='other') == functions(p, plugin='none') == {}
        assert functions(p, by_uid=True, uid=os.getuid() + 1) == {}
    with Peer(wsd.socket, features=ALL & ~262144) as p:
        p.breaks(p.frame(50, 1))
    with Peer(wsd.socket) as p:
        p.breaks(p.frame(50, 1, encode('Functions', {'function': 'f'})))


@case('P98', config='')
def outcomes_are_counted(wsd):
    with Peer(wsd.socket) as p:
        assert p.run('echo', b'x')[1] == b'x\n'
        tag = p.submit('echo', b'later', delay_usec=3600 * 10 ** 6)
        job = p.next('ACCEPTED', tag).message.id
        p.next('END', p.send('CANCEL', id=job))
        assert p.end(tag)[0][-1].message.state == CANCELLED
        p.next('END', p.send('GATE', action=3))
        p.is_refused(75, p.submit('echo', b'x'))
        p.next('END', p.send('GATE', action=2))
        f = functions(p)[b'echo', b'echo']
        m = f.message
        assert (m.succeeded, m.failed, m.cancelled, m.timed_out, m.crashed, m.interrupted, m.refused, m.direct) == (
            1, 0, 1, 0, 0, 0, 1, 0), m


@case('P99', 'P100', config='')
def histograms_are_those_of_the_jobs(wsd):
    with Peer(wsd.socket) as p:
        jobs = [p.run('echo', b'x' * n) for n in (1, 62, 63, 64, 100, 1000)]
        f = functions(p)[b'echo', b'echo']
        told = histograms(f)
        assert sorted(told) == [1, 2, 3, 4]
        wanted = {1: [m.queued_usec for m, _ in jobs], 2: [m.run_usec for m, _ in jobs], 3: [m.cpu_usec for m, _ in jobs],
                  4: [len(output) for _, output in jobs]}
        for kind, (h, buckets) in told.items():
            values = sorted(wanted[kind])
            assert (h.sum, h.max) == (sum(values), values[-1]), (kind, h, values)
            assert all(a < b for (a, _), (b, _) in zip(buckets, buckets[1:])) and all(n > 0 for _, n in buckets)
            shown = [i for i, n in buckets for _ in range(n)]
            assert len(shown) == len(values)
            assert all(bucket_low(i) <= v < bucket_low(i + 1) for i, v in zip(shown, values)), (kind, shown, values)


@case('P101', config='')
def a_user_has_so_many_functions(wsd):
    with Peer(wsd.socket) as p:
        for n in range(5):
            with Peer(wsd.socket) as r:
                runner = r.send('RUNNER_OPEN', name=f'r{n}', credit=64, functions=[{'name': f'f{i}'} for i in range(64)])
                r.next('RUNNER', runner)
                tags = [p.submit(f'r{n}:f{i}') for i in range(64)]
                for _ in tags:
                    r.send('RUN_END', runner, run=r.next('RUN', runner).message.run)
                assert all(p.end(tag)[0][-1].kind == 'FINISHED' for tag in tags)
            told = functions(p)
            others = told.pop((b'', b''), None)
            assert len(told) == min(64 * (n + 1), 256) and all(f.message.succeeded == 1 for f in told.values()), len(told)
            assert (others is not None) == (n == 4)
        assert others.message.uid == 0xffffffff and others.message.succeeded == 64, others
        assert sum(n for _, n in histograms(others)[2][1]) == 64
        assert {plugin for plugin, _ in told} == {b'r1', b'r2', b'r3', b'r4'}


@case('P111', config='')
def a_person_is_in_the_log(wsd):
    with Peer(wsd.socket) as p:
        for name in ('Anna\n\x1b[31m', ''):
            p.send('PERSON', name=name)
            _, job = p.accepted('echo', b'later', delay_usec=3600 * 10 ** 6)
            p.next('END', p.send('CANCEL', id=job))
        log = wsd.log()
        assert log.count('asked for by user') == 1 and 'who says for Anna' in log and '\x1b' not in log, log[-500:]
        assert 'Anna' not in log.split('who says for Anna', 1)[1]
        p.send('PERSON', name='x' * 255)
        p.next('PONG', p.send('PING'))
        p.breaks(p.frame(51, 9, encode('Person', {'name': 'x' * 256})))
    with Peer(wsd.socket, features=ALL & ~2097152) as p:
        p.breaks(p.frame(51, 1))


@case('P112', config='')
def the_jobs_around_one_are_told(wsd):
    with Peer(wsd.socket) as p:
        first = [p.accepted('echo', b'x', delay_usec=3600 * 10 ** 6)[1] for _ in range(17)]
        middle = p.accepted('echo', b'x', after=b''.join(first))[1]
        last = [p.accepted('echo', b'x', after=middle)[1] for _ in range(17)]
        assert p.status(middle).waits_on == b''.join(first[:16]) and p.status(middle).awaited_by == b''.join(last[:16])
        assert p.status(first[0]).waits_on == b'' and p.status(first[0]).awaited_by == middle
        assert p.status(last[16]).waits_on == middle and p.status(last[16]).awaited_by == b''
        assert all(f.message.waits_on == f.message.awaited_by == b'' for f in p.list('LIST', p.send('LIST'))[:-1])


@case('P113', config='[limits]\nquarantine-after = 2\n')
def quarantine_is_told_with_the_numbers(wsd):
    with Peer(wsd.socket) as p:
        for _ in range(2):
            p.end(p.submit('crash'))
        m = functions(p)[b'crash', b'segv'].message
        assert m.crashes == 2 and m.quarantine == 1 and m.quarantine_usec > 0 and m.why, m
        p.next('END', p.send('RELEASE', name='crash'))
        m = functions(p)[b'crash', b'segv'].message
        assert m.crashes == m.quarantine == m.quarantine_usec == 0 and not m.why, m


@case('P127', config='')
def cancel_ends_the_wait_for_executors(wsd):
    with Peer(wsd.socket) as p, Peer(wsd.socket) as other:
        assert p.run('echo', b'x')[1] == b'x\n'
        pid = [f.message for f in p.list('WORKERS', p.send('WORKERS')) if f.kind == 'EXECUTOR'][0].pid
        os.kill(pid, signal.SIGSTOP)
        try:
            waits = other.send('WORKERS')
            tag = p.send('WORKERS')
            p.send('CANCEL', tag)
            e = [f.message for f in p.list('WORKERS', tag) if f.kind == 'EXECUTOR']
            assert [x.error for x in e] == [110], e
        finally:
            os.kill(pid, signal.SIGCONT)
        e = [f.message for f in other.list('WORKERS', waits) if f.kind == 'EXECUTOR']
        assert [x.error for x in e] == [0], e  # that one goes on


@case('P114', config='')
def executors_tell_of_their_process(wsd):
    with Peer(wsd.socket) as p:
        assert p.run('echo', b'x')[1] == b'x\n'
        until = time.monotonic() + LIMIT
        while True:
            e = [f.message for f in p.list('WORKERS', p.send('WORKERS')) if f.kind == 'EXECUTOR'][0]
            try:
                n = len(os.listdir(f'/proc/{e.pid}/fd'))
            except PermissionError:
                n = max(e.descriptors, 4)
            if e.descriptors == n:  # else one was closed meanwhile, of the job that has ended
                break
            assert time.monotonic() < until, (e, n)
        with open(f'/proc/{e.pid}/cmdline', encoding='utf8', errors='replace') as f:
            assert 'wsd-executor' in f.read()
        assert e.age_usec > 0 and e.memory >= 4096


def told_of(p, tag):
    """What comes for a TRACE: EXECUTORs, each with its text; and the last frame."""
    told, end = [], p.next(None, tag)
    while end.kind in ('EXECUTOR', 'PIECE'):
        if end.kind == 'EXECUTOR':
            told.append([end.message, b''])
        else:
            told[-1][1] += end.body
        end = p.next(None, tag)
    return told, end


@case('P105')
def a_profile_or_a_stack_needs_its_feature(wsd):
    for fields in ({'action': 1, 'kind': 1, 'rate': 99}, {'action': 4, 'id': bytes(16)}, {'action': 3, 'kind': 1}):
        with Peer(wsd.socket, features=OLD) as p:
            p.breaks(p.frame(14, 9, encode('Trace', fields)))


@case('P106', config='')
def a_profile_is_a_trace_of_another_kind(wsd):
    for fields in ({'action': 1, 'rate': 99}, {'action': 1, 'kind': 1}, {'action': 3, 'kind': 1, 'rate': 99},
                   {'action': 1, 'kind': 2, 'rate': 99}, {'action': 1, 'kind': 1, 'rate': 1000}, {'action': 4, 'rate': 1}):
        with Peer(wsd.socket) as p:
            p.breaks(p.frame(14, 9, encode('Trace', fields)))
    with Peer(wsd.socket) as p, Peer(wsd.socket) as other:
        p.run('echo', b'x')
        for rate in (1, 999):
            assert told_of(p, p.send('TRACE', action=1, kind=1, rate=rate))[1].kind == 'END'
            other.is_refused(75, other.send('TRACE', action=1))
            other.is_refused(75, other.send('TRACE', action=1, kind=1, rate=99))
            other.is_refused(66, other.send('TRACE', action=3))
            told, end = told_of(other, other.send('TRACE', action=3, kind=1))
            assert end.kind == 'END' and len(told) == 1 and told[0][0].error == 0, told
            assert all(re.fullmatch(rb'[ -~]+ [0-9]+', line) for line in told[0][1].splitlines()), told
        assert told_of(p, p.send('TRACE', action=1))[1].kind == 'END'
        p.is_refused(66, p.send('TRACE', action=3, kind=1))
        assert told_of(p, p.send('TRACE', action=3))[1].kind == 'END'


@case('P107', config='')
def a_running_job_tells_where_it_stands(wsd):
    with Peer(wsd.socket) as p:
        p.is_refused(66, p.send('TRACE', action=4, id=bytes(16)))
        p.is_refused(66, p.send('TRACE', action=4))
        tag = p.submit('spin')
        job = p.next('ACCEPTED', tag).message.id
        p.wait_state(job, RUNNING)
        told, end = told_of(p, p.send('TRACE', action=4, id=job))
        assert end.kind == 'END' and len(told) == 1 and told[0][0].error == 0, (told, end)
        assert re.match(rb'worker [0-9]+, .*:\n#0 ', told[0][1]) and b' in spin' in told[0][1], told
        p.send('CANCEL', tag)
        p.end(tag)
        p.is_refused(66, p.send('TRACE', action=4, id=job))


def trace(p):
    """What a trace of two jobs has: its EXECUTORs, and the events of wsd's own part."""
    assert p.list('EXECUTOR', p.send('TRACE', action=1))[-1].kind == 'END'
    for text in (b'x', b'y'):
        assert p.run('echo', text)[1] == text + b'\n'
    tag, executors, own = p.send('TRACE', action=3), [], b''
    while True:
        f = p.next(None, tag)
        if f.kind == 'END':
            return executors, [json.loads(line) for line in own.splitlines()]
        if f.kind == 'EXECUTOR':
            executors.append(f.message)
        elif executors[-1].executor == 0:
            own += f.body


@case('P108', config='')
def a_trace_has_the_part_of_wsd(wsd):
    with Peer(wsd.socket) as p:
        assert p.run('echo', b'warm')[1] == b'warm\n'
        executors, own = trace(p)
        assert [e.executor == 0 for e in executors] == [True, False] and not executors[0].error, executors
        jobs = [e for e in own if e.get('cat') == 'job']
        assert [e['args']['state'] for e in jobs] == ['succeeded', 'succeeded'] and {e['name'] for e in jobs} == {'echo:echo'}, own
        for job in jobs:
            spans = [e for e in own if e.get('cat') == 'wsd' and e['args']['job'] == job['args']['job']]
            assert [e['name'] for e in spans] == ['arrived', 'queued', 'handed over', 'answer'], spans
    with Peer(wsd.socket, features=ALL & ~1048576) as p:
        executors, own = trace(p)
        assert [e.executor != 0 for e in executors] == [True] and not own, executors


TRACEPARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
NO_TRACEPARENT = (TRACEPARENT[:-1], '01' + TRACEPARENT[2:], TRACEPARENT.upper(), TRACEPARENT.replace('-', '_'),
                  '00-' + 32 * '0' + TRACEPARENT[35:], TRACEPARENT[:36] + 16 * '0' + '-01')


@case('P109')
def a_traceparent_is_strict(wsd):
    with Peer(wsd.socket) as p:
        for wrong in NO_TRACEPARENT:
            p.is_refused(64, p.submit('echo', b'x', traceparent=wrong))
            p.is_refused(64, p.send('ARRAY', plugin='echo', items=1, traceparent=wrong, body=item(['x'])))
        tag = p.submit('echo', b'x', traceparent=TRACEPARENT)
        assert p.end(tag)[1] == b'x\n'
    with Peer(wsd.socket, features=ALL & ~1048576) as p:
        tag = p.submit('echo', b'x', traceparent=TRACEPARENT)
        assert p.end(tag)[1] == b'x\n'


@case('P110')
def a_runner_is_told_the_traceparent(wsd):
    with Peer(wsd.socket) as r, Peer(wsd.socket) as p:
        runner = r.send('RUNNER_OPEN', name='traced', credit=4, functions=[{'name': 'f'}])
        r.next('RUNNER', runner)
        for given in (TRACEPARENT, ''):
            tag = p.submit('traced:f', b'x', **({'traceparent': given} if given else {}))
            run = r.next('RUN', runner).message
            assert run.traceparent == given.encode(), run
            r.send('RUN_END', runner, run=run.run)
            p.end(tag)


@case('P118')
def each_run_of_a_schedule_has_its_traceparent(wsd):
    with Peer(wsd.socket) as r, Peer(wsd.socket) as p:
        for wrong in NO_TRACEPARENT:
            p.is_refused(64, p.send('SCHEDULE', action=1, name='traced', calendar='yearly', plugin='traced:f', traceparent=wrong))
        runner = r.send('RUNNER_OPEN', name='traced', credit=4, functions=[{'name': 'f'}])
        r.next('RUNNER', runner)
        for name, given in (('with', {'traceparent': TRACEPARENT}), ('without', {})):
            p.next('END', p.send('SCHEDULE', action=1, name=name, calendar='yearly', plugin='traced', function='f', **given))
            for _ in range(2):
                tag = p.send('SCHEDULE', action=4, name=name)
                job = p.next('SCHEDULED', tag).message.id
                p.next('END', tag)
                run = r.next('RUN', runner).message
                assert run.traceparent == given.get('traceparent', '').encode(), run
                r.send('RUN_END', runner, run=run.run)
                p.end(p.send('AWAIT', id=job))


OUTPUT_FD, OUTPUT_EITHER = 1, 2
INPUT_PIPE = 3


def output_of(p, fd, *args, **values):
    """The end of a job whose output goes there, and what came by the connection."""
    return p.run('echo', *args, fd=fd, **{'output_to': OUTPUT_FD, **values})


@case('P115')
def output_goes_to_a_descriptor(wsd):
    path = os.path.join(wsd.dir, 'output')
    with Peer(wsd.socket) as p, open(path, 'w+b') as f:
        m, output = output_of(p, f.fileno(), 'one')
        assert output == b'' and m.placed == 4 and os.pread(f.fileno(), 100, 0) == b'one\n', m
        assert os.lseek(f.fileno(), 0, os.SEEK_CUR) == 4
        with open(os.path.join(wsd.dir, 'given'), 'w+b') as given:  # the input's descriptor is the first one
            given.write(b'from the file')
            given.flush()
            m, output = output_of(p, (given.fileno(), f.fileno()), input_from=1, input_size=13)
            assert output == b'' and os.pread(f.fileno(), 100, 4) == b'from the file', m
        read, write = os.pipe()
        m, output = output_of(p, write, 'piped')
        os.close(write)
        assert output == b'' and os.read(read, 100) == b'piped\n' and m.placed == 6
        os.close(read)


@case('P116')
def output_goes_to_a_descriptor_for_attached_jobs_only(wsd):
    with Peer(wsd.socket) as p, open(os.path.join(wsd.dir, 'output'), 'w+b') as f, open('/dev/null', 'rb') as null:
        for values in ({'flags': 1}, {'flags': 8}, {'key': 'k'}, {'retries': 1}):
            p.is_refused(64, p.submit('echo', 'x', fd=f.fileno(), output_to=OUTPUT_FD, **values))
        p.is_refused(64, p.submit('echo', 'x', fd=null.fileno(), output_to=OUTPUT_FD))
        assert os.fstat(f.fileno()).st_size == 0
        m, _ = output_of(p, p.socket.fileno(), 'x')
        assert m.state == FAILED and m.exit == 63 and b'neither a regular file nor a pipe' in m.error, m
        submit = {'plugin': 'echo', 'output_to': OUTPUT_FD}
        p.breaks(p.frame(2, 99, encode('Submit', submit)))  # without it
    for number, values in ((2, {'output_to': 3}), (2, {'output_to': OUTPUT_FD, 'arena': 1, 'output_size': 1}),
                           (REQUESTS['ARRAY'][0], {'output_to': OUTPUT_FD, 'items': 1})):
        with Peer(wsd.socket) as p:
            p.breaks(p.frame(number, 99, encode('Submit', {'plugin': 'echo', **values}), item(['x'])))


@case('P117')
def output_goes_by_the_connection_where_it_cannot_go_to_a_descriptor(wsd):
    with Peer(wsd.socket) as r, Peer(wsd.socket) as p, open(os.path.join(wsd.dir, 'output'), 'w+b') as f:
        runner = r.send('RUNNER_OPEN', name='written', credit=4, functions=[{'name': 'f'}])
        r.next('RUNNER', runner)
        p.is_refused(64, p.submit('written:f', fd=f.fileno(), output_to=OUTPUT_FD))
        tag = p.submit('written:f', fd=f.fileno(), output_to=OUTPUT_EITHER)
        run = r.next('RUN', runner).message
        r.send('RUN_END', runner, run=run.run, body=b'by the runner')
        frames, output = p.end(tag)
        assert output == b'by the runner' and frames[-1].message.placed == 0, frames[-1]
        assert os.fstat(f.fileno()).st_size == 0
        m, output = output_of(p, f.fileno(), 'x', output_to=OUTPUT_EITHER)
        assert output == b'' and m.placed == 2, m


def piped(p, plugin, content, **values):
    """A job with that in a pipe: its tag."""
    read, write = os.pipe()
    os.write(write, content)
    os.close(write)
    tag = p.submit(plugin, fd=read, **{'input_from': INPUT_PIPE, 'flags': 4, **values})
    return tag, read


@case('P128')
def input_is_read_from_a_pipe(wsd):
    with Peer(wsd.socket) as p:
        tag, read = piped(p, 'echo:stream', b'from the pipe')
        frames, output = p.end(tag)
        assert output == b'from the pipe' and 'CREDIT' not in [f.kind for f in frames], frames
        assert os.get_blocking(read) and os.read(read, 1) == b''
        os.close(read)
        read, write = os.pipe()
        tag = p.submit('echo:stream', fd=read, input_from=INPUT_PIPE, flags=4)
        p.next('ACCEPTED', tag)
        p.breaks(p.frame(3, tag, encode('Chunk', {'last': 1})))
        os.close(read)
        os.close(write)
    with Peer(wsd.socket) as p:
        p.breaks(p.frame(2, 99, encode('Submit', {'plugin': 'echo:stream', 'input_from': INPUT_PIPE, 'flags': 4})))  # without it
    for values in ({'input_size': 1}, {'input_offset': 1}, {'arena': 1, 'output_size': 1}):
        with Peer(wsd.socket) as p:
            p.breaks(p.frame(2, 99, encode('Submit', {'plugin': 'echo', 'input_from': INPUT_PIPE, 'flags': 4, **values})))


@case('P129')
def input_of_a_pipe_comes_by_frames_where_the_job_does_not_read_it(wsd):
    with Peer(wsd.socket) as p:
        _, before = p.accepted('ends:heed')
        for plugin, values in (('echo', {}), ('echo:stream', {'after': before})):
            tag, read = piped(p, plugin, b'from the client', **values)
            p.next('ACCEPTED', tag)
            credit = p.next('CREDIT', tag).message.bytes
            assert credit == p.welcome.window, (credit, p.welcome.window)
            p.send('INPUT', tag, last=1, body=os.read(read, 100))
            os.close(read)
            if values:
                p.send('CANCEL', id=before)
                assert p.end(tag)[0][-1].message.state == CANCELLED
            else:
                assert p.end(tag)[1] == b'from the client'


@case('P130')
def a_pipe_is_input_of_attached_jobs_only(wsd):
    with Peer(wsd.socket) as p, open('/dev/null', 'rb') as null:
        for values in ({'flags': 5}, {'flags': 12}, {'key': 'k'}, {'retries': 1}, {'flags': 0}):
            tag, read = piped(p, 'echo:stream', b'x', **values)
            p.is_refused(64, tag)
            assert os.read(read, 1) == b'x'
            os.close(read)
        read, write = os.pipe()
        for fd in (null.fileno(), write):
            p.is_refused(64, p.submit('echo:stream', fd=fd, input_from=INPUT_PIPE, flags=4))
        os.close(read)
        os.close(write)


# --- actions ----------------------------------------------------------------------------------------------------------


def actions(p, **values):
    return [f.message for f in p.list('ACTIONS', p.send('ACTIONS', **values))[:-1]]


def told(p, **values):
    return [(m.verb, m.object, m.code) for m in actions(p, **values)]


@case('P119', 'P120', config='')
def actions_are_told(wsd):
    with Peer(wsd.socket) as p:
        assert actions(p) == []
        begun = time.time()
        job = bytes(16)
        requests = [
            ('END', 'GATE', {'action': 1, 'plugin': 'echo', 'function': 'echo'}, b'pause', b'echo:echo'),
            ('END', 'GATE', {'action': 2, 'plugin': 'echo', 'function': 'echo'}, b'resume', b'echo:echo'),
            ('ERROR', 'GATE', {'action': 2, 'plugin': 'none'}, b'resume', b'none'),
            ('END', 'GATE', {'action': 4, 'tag': 'big', 'limit': 3}, b'limit', b'tag big = 3'),
            ('END', 'GATE', {'action': 3}, b'drain', b''),
            ('END', 'GATE', {'action': 2}, b'resume', b''),
            ('END', 'LIMIT', {'flags': 2, 'key': 'max-run', 'value': '1h'}, b'limit', b'max-run = 1h'),
            ('ERROR', 'LIMIT', {'flags': 3, 'uid': 7, 'key': 'none', 'value': '1'}, b'limit', b'none of user 7 = 1'),
            ('END', 'WORKERS', {'set': 2}, b'set workers', b'2'),
            ('ERROR', 'DEAD', {'action': 2, 'id': job}, b'requeue', b'job ' + b'0' * 32),
            ('ERROR', 'DEAD', {'action': 3, 'id': job}, b'drop', b'job ' + b'0' * 32),
            ('ERROR', 'CANCEL', {'id': job}, b'cancel', b'job ' + b'0' * 32),
            ('ERROR', 'BATCH', {'action': 5, 'id': job}, b'cancel', b'batch ' + b'0' * 32),
            ('COUNT', 'CANCEL_WHERE', {'plugin': 'echo', 'by_uid': True, 'uid': 7}, b'cancel many', b'jobs of user 7 of echo'),
            ('ERROR', 'CANCEL_WHERE', {}, b'cancel many', b'jobs'),
            ('END', 'SCHEDULE', {'action': 1, 'name': 'n', 'calendar': 'yearly', 'plugin': 'echo'}, b'schedule add', b'n'),
            ('END', 'SCHEDULE', {'action': 4, 'name': 'n'}, b'schedule run', b'n'),
            ('END', 'SCHEDULE', {'action': 3, 'name': 'n'}, b'schedule remove', b'n'),
            ('ERROR', 'SCHEDULE', {'action': 3, 'name': 'n'}, b'schedule remove', b'n'),
            ('ERROR', 'RELEASE', {'name': 'echo', 'function': 'f'}, b'release', b'echo:f'),
            ('END', 'RELOAD', {'name': 'echo'}, b'reload', b'echo'),
            ('ERROR', 'RELOAD', {'name': 'none'}, b'reload', b'none'),
        ]
        expected = []
        for last, kind, values, verb, about in requests:
            p.tag += 1
            p.raw(p.frame(REQUESTS[kind][0], p.tag, encode(REQUESTS[kind][1], values)))  # one has a field `tag`
            frame = p.list(kind, p.tag)[-1]
            assert frame.kind == last, (kind, values, frame)
            expected.append((verb, about, frame.message.code if last == 'ERROR' else 0))
        for kind, values in (('GATE', {'action': 5}), ('LIMIT', {}), ('WORKERS', {}), ('DEAD', {'action': 1}), ('SCHEDULE', {'action': 2})):
            p.list(kind, p.send(kind, **values))  # change nothing
        assert told(p) == expected, told(p)
        assert told(p, limit=2) == expected[-2:] and told(p, limit=len(expected)) == told(p, limit=2 ** 32 - 1) == expected
        found = actions(p)
        assert all(m.uid == os.getuid() and not m.person and begun - 1 < m.time_usec / 1e6 < time.time() + 1 for m in found)
        assert [m.time_usec for m in found] == sorted(m.time_usec for m in found)
    with Peer(wsd.socket, features=ALL & ~4194304) as p:
        p.breaks(p.frame(52, 1))


@case('P121', config='[daemon]\nsystem = yes\n[access]\nsubmit = 1001\n')
def actions_of_own_jobs_are_nobodys_business(wsd):
    if os.geteuid():
        raise Skip('only root can act as two users')
    os.chmod(wsd.socket, 0o666)
    with As(1001):
        other = Peer(wsd.socket)
    with other, Peer(wsd.socket) as p:
        for peer in (p, other):
            job = peer.accepted('echo', b'later', delay_usec=3600 * 10 ** 6)[1]
            peer.next('END', peer.send('CANCEL', id=job))
            batch = peer.send('BATCH', action=1)
            peer.next('END', peer.send('BATCH', action=5, id=peer.next('BATCH_STATE', batch).message.id))
            peer.next('COUNT', peer.send('CANCEL_WHERE', by_uid=True, uid=0 if peer is p else 1001))
        assert actions(p) == actions(other) == []
        job = other.accepted('echo', b'later', delay_usec=3600 * 10 ** 6)[1]
        p.next('END', p.send('CANCEL', id=job))
        other.is_refused(66, other.send('CANCEL', id=bytes(16)))
        assert told(p) == [(b'cancel', b'job ' + job.hex().encode(), 0)] and actions(other) == []


@case('P122', config='')
def actions_have_the_person(wsd):
    with Peer(wsd.socket) as p:
        for name in ('anna', '', 'otto'):
            p.send('PERSON', name=name)
            job = p.accepted('echo', b'later', delay_usec=3600 * 10 ** 6)[1]
            p.next('END', p.send('CANCEL', id=job))
        assert [(m.verb, m.person) for m in actions(p)] == [(b'cancel', b'anna'), (b'cancel', b'otto')]


@case('P123', 'P124', config='[daemon]\nsystem = yes\n[access]\nsubmit = 1001 1002\nadminister = 1001\nwatch = 1003\nsee = 1004\n')
def actions_are_of_those_who_may_see_them(wsd):
    if os.geteuid():
        raise Skip('only root can act as several users')
    os.chmod(wsd.socket, 0o666)
    peers = {0: Peer(wsd.socket)}
    for uid in (1001, 1002, 1003, 1004):
        with As(uid):
            peers[uid] = Peer(wsd.socket)
    admin, user = peers[1001], peers[1002]
    for name in ('', 'eve'):
        user.send('PERSON', name=name)
        user.is_refused(77, user.send('GATE', action=1, plugin='echo'))
    admin.next('END', admin.send('GATE', action=1, plugin='fib'))
    of_user = [(b'pause', b'echo', b'', 77), (b'pause', b'echo', b'eve', 77)]
    of_admin = [(b'pause', b'fib', b'', 0)]
    hidden = [(b'pause', b'', b'', 77)] * 2

    def seen(uid, **values):
        return [(m.verb, m.object, m.person, m.code) for m in actions(peers[uid], **values)]
    for uid, expected in ((0, of_user + of_admin), (1001, of_user + of_admin), (1004, of_user + of_admin), (1002, of_user),
                          (1003, hidden + of_admin)):
        assert seen(uid) == expected, (uid, seen(uid))
    assert seen(1002, limit=1) == of_user[1:]
    for n in range(256):
        user.is_refused(77, user.send('GATE', action=1, plugin=f'p{n}'))
        assert len(actions(peers[0])) == min(2 + n + 1, 256) + 1
    assert seen(1002) == [(b'pause', b'p%d' % n, b'eve', 77) for n in range(256)]
    for n in range(256):
        admin.next('END', admin.send('LIMIT', flags=2, key='max-jobs', value=str(1000 + n)))
        assert len(actions(peers[0])) == 256 + min(1 + n + 1, 256)
    assert [a[1] for a in seen(0)[256:]] == [b'max-jobs = %d' % (1000 + n) for n in range(256)] and len(seen(0)) == 512
    assert seen(0, limit=300)[44:] == seen(0)[256:] and seen(0)[0][1] == b'p0'
    for p in peers.values():
        p.socket.close()


@case('P125', config='')
def actions_are_lines(wsd):
    with Peer(wsd.socket) as p:
        p.send('PERSON', name='\x1b[31m\n' * 30 + 'Zo\u00eb')
        for plugin in (b'\xffa\n', b'x' * 4000, 'e\u202e'.encode(), b'\x1b' * 300):
            p.next('END|ERROR', p.send('GATE', action=1, plugin=plugin))
        found = actions(p)
        assert len(found) == 4 and [m.object for m in found[:3]] == [b'\\xffa\\x0a', b'x' * 252 + '\u2026'.encode(), b'e\\u{202e}'], found
        assert found[3].object == b'\\x1b' * 63 + '\u2026'.encode(), found[3]
        assert all(m.person.startswith(b'\\x1b[31m\\x0a') and len(m.person) <= 255 for m in found)
        assert all(line.decode().isprintable() for m in found for line in (m.person, m.object))


def run_case(shared, numbers, config, function):
    name = ''.join(f'[{n}]' for n in numbers) + ' ' + function.__name__.replace('_', ' ')
    try:
        if config is None:
            function(shared)
        else:
            with Wsd(config) as own:
                function(own)
    except Skip as why:
        print(f'skip {name}: {why}')
    except Exception as error:  # pylint: disable=broad-except
        print(f'FAIL {name}: {type(error).__name__}: {str(error)[:300]}')
        for line in traceback.format_exc().splitlines()[-7:]:
            print(f'    | {line}')
        return 1
    else:
        print(f'ok {name}')
    sys.stdout.flush()
    return 0


def main():
    if sys.argv[1:] == ['numbers']:
        print('\n'.join(sorted({n for numbers, _, _ in CASES for n in numbers}, key=lambda n: int(n[1:]))))
        return 0
    wanted = set(sys.argv[2:])
    with Wsd('[limits]\nquarantine-after = 1000\n') as shared:
        failed = sum(run_case(shared, *c) for c in CASES if not wanted or wanted & set(c[0]))
        shared.signal(signal.SIGTERM)
        if shared.wait() != 0:
            print('FAIL stop wsd: it did not end well')
            failed += 1
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
