#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""runner.py: a runner that was written from proto/PROTOCOL.md alone, by the client of protocol.py.

    runner.py [--name NAME] [--credit N] [--ledger FILE] [--only FUNCTION,...] [--leave FILE] [--words TEXT]

Prints `ready` when it gets jobs. With --ledger it appends a line for each job that it begins: the arguments. With --leave
it leaves in order when FILE is there. TEXT is its help. The functions: echo (input), args, line, fail STATUS, say TEXT, progress,
sleep SECONDS [FILE] (ends early when it is told to stop, or FILE is there), deaf SECONDS (does not), stream BYTES, slow and once (each takes two milliseconds, then is as
line; once is not idempotent), read (a stream), cat FILE, die, mute (ends
nothing), lie KIND (says what is impossible), who (its function and arguments). As a place (--name @NAME) it has them for
whatever plugin."""
import argparse
import os
import select
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from protocol import Closed, Peer  # noqa: E402  pylint: disable=wrong-import-position

IDEMPOTENT, STREAMING = 1, 2
WINDOW = 128 * 1024


class Job:
    def __init__(self, runner, frame, fd):
        self.runner, self.m, self.fd = runner, frame.message, fd
        self.input, self.sent, self.allowed = frame.body, 0, WINDOW
        self.stopped, self.until, self.gate, self.deaf, self.to_send = 0, None, None, False, 0
        self.whole = not self.m.flags & 2
        self.placed = 0

    def send(self, kind, body=b'', fd=None, **values):
        self.runner.peer.send(kind, self.runner.tag, body=body, fd=fd, run=self.m.run, **values)

    def place(self, data):
        """Into the arena, as far as there is room. Returns whether all of it was."""
        part = data[:self.m.output_size - self.placed]
        self.placed += os.pwrite(self.fd, part, self.m.output_offset + self.placed)
        return len(part) == len(data)

    def output(self, data):
        while data:
            piece, data = data[:60000], data[60000:]
            self.send('RUN_OUTPUT', body=piece, offset=self.sent)
            self.sent += len(piece)

    def end(self, status=0, body=b'', **values):
        if self.m.output_size:
            if not self.place(body):
                status, values['error'] = 63, 'its output is larger than its part of the arena'
            body, values['placed'] = b'', self.placed
        self.send('RUN_END', body=body, status=status, **values)
        del self.runner.jobs[self.m.run]
        if self.fd is not None:
            os.close(self.fd)

    def all_input(self):
        if not self.m.input_from:
            return self.input
        if self.m.input_from == 2:
            with os.fdopen(os.dup(self.fd), 'rb') as f:
                return f.read()
        return os.pread(self.fd, self.m.input_size, self.m.input_offset)

    def more(self):
        """Goes on with `stream`."""
        while self.to_send and self.sent < self.allowed:
            n = min(self.to_send, self.allowed - self.sent, 60000)
            self.output(bytes([self.sent >> 10 & 0xff]) * n)
            self.to_send -= n
        if not self.to_send:
            self.end(text='%d bytes' % self.sent)


class Runner:
    def __init__(self, path, options):
        self.peer, self.jobs, self.options = Peer(path), {}, options
        offered = [f for f in dir(self) if f.startswith('do_') and (not options.only or f[3:] in options.only.split(','))]
        words = os.fsencode(options.words)
        if options.name.startswith('@') and not options.only:
            offered = ['do_*']
        flags = {'do_*': IDEMPOTENT, 'do_echo': IDEMPOTENT, 'do_sleep': IDEMPOTENT, 'do_args': IDEMPOTENT, 'do_line': IDEMPOTENT, 'do_slow': IDEMPOTENT, 'do_read': STREAMING}
        self.tag = self.peer.send('RUNNER_OPEN', name=options.name, version='1', help=words or 'for tests', credit=options.credit,
                                  functions=[{'name': f[3:], 'help': words or f[3:] + ' of runner.py', 'flags': flags.get(f, 0)}
                                             for f in offered])
        answer = self.peer.next('RUNNER|ERROR', self.tag)
        if answer.kind == 'ERROR':
            raise Closed('refused %d: %s' % (answer.message.code, answer.message.text.decode()))
        self.left = False

    def do_who(self, job):
        job.end(body=b'|'.join([job.m.function, *job.m.args]))

    def do_echo(self, job):
        data = job.all_input()
        while len(data) > 4096 and not job.m.output_size:
            job.output(data[:60000])
            data = data[60000:]
            while job.sent + min(len(data), 60000) > job.allowed:
                self.step(None)
        job.end(body=data)

    def do_args(self, job):
        job.end(body=b'|'.join(job.m.args), text='attempt %d' % job.m.attempt)

    def do_line(self, job):
        job.end(body=b' '.join(job.m.args) + b'\n')

    def is_held(self, number):
        """Whether the file LEDGER.hold is there, with a number that is less than this."""
        try:
            with open(self.options.ledger + '.hold', encoding='ascii') as f:
                return number > int(f.read() or number)
        except FileNotFoundError:
            return False

    def do_slow(self, job):
        number = int(job.m.args[0])
        if self.is_held(number):
            with open(self.options.ledger + '.held', 'ab', buffering=0) as f:
                f.write(b'%d %d\n' % (os.getpid(), number))
            while self.is_held(number):
                time.sleep(0.002)
        time.sleep(0.002)
        self.do_line(job)

    do_once = do_slow

    def do_fail(self, job):
        job.end(int(job.m.args[0]), error=b'as asked', text='attempt %d' % job.m.attempt, body=b'so far')

    def do_say(self, job):
        for text in job.m.args:
            job.send('RUN_MESSAGE', level=5, text=text)
        job.end()

    def do_progress(self, job):
        job.send('RUN_PROGRESS', done=3, total=7)
        job.end(cpu_usec=5)

    def do_sleep(self, job):
        job.until = time.monotonic() + float(job.m.args[0])
        job.gate = job.m.args[1] if len(job.m.args) > 1 else None

    def do_deaf(self, job):
        job.deaf = True
        job.until = time.monotonic() + float(job.m.args[0])

    def do_stream(self, job):
        job.to_send = int(job.m.args[0])
        job.more()

    def do_read(self, job):
        job.end(body=b'%d' % len(job.all_input()))

    def do_cat(self, job):
        if not job.m.flags & 1:
            path = os.path.join(job.m.directory, job.m.args[0])
            with open(path, 'rb') as f:
                job.end(body=f.read())
            return
        job.send('RUN_OPEN', serial=7, path=job.m.args[0])

    def do_die(self, _):
        os._exit(1)

    def do_mute(self, job):
        pass

    def do_lie(self, job):
        kind, run = job.m.args[0], job.m.run
        send = lambda kind, body=b'', **v: self.peer.send(kind, self.tag, body=body, **v)
        if kind == b'run':
            send('RUN_END', run=run + 1)
        elif kind == b'old':
            send('RUN_END', run=run - (1 << 32))
        elif kind == b'twice':
            send('RUN_END', run=run)
            send('RUN_END', run=run)
        elif kind == b'offset':
            send('RUN_OUTPUT', body=b'x', run=run, offset=5)
        elif kind == b'flood':
            for at in range(0, 12000000, 60000):
                send('RUN_OUTPUT', body=b'x' * 60000, run=run, offset=at)
        elif kind == b'tag':
            self.peer.send('RUN_END', self.tag + 1, run=run)
        elif kind == b'status':
            send('RUN_END', run=run, status=64)
        elif kind == b'noise':
            self.peer.raw(os.urandom(64))

    def begin(self, job):
        if self.options.ledger:
            with open(self.options.ledger, 'ab', buffering=0) as f:
                f.write(b' '.join(job.m.args) + b'\n')
        function = job.m.function.decode()
        do = getattr(self, 'do_' + function[function.find(':') + 1:], None)
        if do is None:
            job.end(1, error='this place has no ' + function)
        else:
            do(job)

    def step(self, seconds):
        """Takes one frame, if there is one in that time. None: waits as long as it takes."""
        if not self.peer.waiting and seconds is not None:
            ready, _, _ = select.select([self.peer.socket], [], [], seconds) if not self.peer_has_frame() else ([1], 0, 0)
            if not ready:
                return
        frame = self.peer.next(None, self.tag)
        m = frame.message
        if frame.kind == 'RUN':
            job = self.jobs[m.run] = Job(self, frame, self.peer.fds.pop(0) if m.input_from or m.output_size else None)
            if job.whole:
                self.begin(job)
        elif frame.kind == 'RUN_INPUT':
            job = self.jobs[m.run]
            assert m.offset == len(job.input)
            job.input += frame.body
            if m.last:
                self.begin(job)
        elif frame.kind == 'RUN_STOP':
            if m.run in self.jobs:
                self.jobs[m.run].stopped = m.why
        elif frame.kind == 'RUN_CREDIT':
            if m.run in self.jobs:
                self.jobs[m.run].allowed += m.bytes
                if self.jobs[m.run].to_send:
                    self.jobs[m.run].more()
        elif frame.kind == 'RUN_OPENED':
            fd = self.peer.fds.pop(0) if not m.error else None
            job = self.jobs[m.run]
            if fd is None:
                job.end(1, error=os.strerror(m.error))
            else:
                with os.fdopen(fd, 'rb') as f:
                    job.end(body=f.read())
        elif frame.kind == 'RUN_PING':
            self.peer.send('RUN_PONG', self.tag, run=m.run)
        elif frame.kind == 'END':
            self.left = True
        elif frame.kind == 'ERROR':
            raise Closed(m.text)

    def peer_has_frame(self):
        data = self.peer.data
        return len(data) >= 16 and len(data) >= 16 + int.from_bytes(data[8:12], 'little') + int.from_bytes(data[12:16], 'little')

    def serve(self):
        closing = False
        while not self.left:
            now = time.monotonic()
            for job in [j for j in self.jobs.values() if j.until is not None and
                        (j.until <= now or (j.stopped and not j.deaf) or (j.gate and os.path.exists(j.gate)))]:
                job.end(body=b'stopped %d' % job.stopped)
            if self.options.leave and not closing and os.path.exists(self.options.leave):
                closing = True
                self.peer.send('RUNNER_CLOSE', self.tag)
            waits = [0.05 if j.gate else j.until - now for j in self.jobs.values() if j.until is not None]
            self.step(max(0, min(waits + [0.05 if self.options.leave else 3600])))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--name', default='pyrunner')
    parser.add_argument('--credit', type=int, default=4)
    parser.add_argument('--ledger')
    parser.add_argument('--leave')
    parser.add_argument('--only')
    parser.add_argument('--words', default='')
    options = parser.parse_args()
    path = os.environ['WSD_SOCKET']
    try:
        runner = Runner(path, options)
        print('ready', flush=True)
        runner.serve()
    except (Closed, ConnectionError) as why:
        print('closed', *why.args, flush=True)
        return 1
    print('left', flush=True)
    return 0


if __name__ == '__main__':
    sys.exit(main())
