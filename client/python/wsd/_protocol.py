# SPDX-License-Identifier: Apache-2.0
"""One connection's side of the protocol, without any input or output: bytes in, bytes out.

Owns the open calls of a connection, their windows, and what waits to be sent. Both transports use it: the blocking one
(_client.py) and that of asyncio (aio.py). It never blocks, and takes no lock: a transport that has threads holds one.
Keeps: a call has one end. Each number, size and offset that wsd sends is checked; what breaks a rule raises
ProtocolError, after which the connection is over.
Does not open files, or know time.
"""
from __future__ import annotations

from collections import deque
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple, Union

from . import _wire
from ._errors import (BadRequest, Cancelled, ConnectionLost, Crashed, Error, Failed, Interrupted, JobError, NotFound, NotPermitted,
                      ProtocolError, Refused, TimedOut)
from ._types import DETACH, JobInfo, Message, MORE, NO_ACCEPTED, Progress, State, finished_info, job_info, shown

WINDOW = 1 << 20  # bytes of output of one call that wsd may send before it gets CREDIT
# FORGET, files, FINISHED, durable jobs, delays, after and tags, ARRAY, LIST_WHERE, shared records, exact ends, runners,
# output to a descriptor, FUNCTIONS, profiles, ACTIONS
FEATURES = 2 | 4 | 8 | 16 | 32 | 64 | 128 | 256 | 1024 | 2048 | 8192 | 65536 | 262144 | 524288 | 4194304
FEATURE_FILES, FEATURE_ARRAY, FEATURE_RUNNERS, FEATURE_PLACED, FEATURE_FUNCTIONS = 4, 128, 8192, 16384, 262144
FEATURE_ACTIONS = 4194304
FEATURE_OUTPUT, FEATURE_PROFILE = 65536, 524288
OUTPUT_TO = _wire.encode('Submit', {'output_to': 1})
OPENED_MAX = 256  # descriptors that wait to be sent
FIRST_MAX = 48 << 10  # input that goes with the SUBMIT
JOINED_MAX = 4096  # a body up to this is copied behind its header; a larger one is sent from where it lies

ACCEPTED, OUTPUT, OTHER = 1, 2, 4  # what may wake the one that waits for a call, beside its end

Buffer = Union[bytes, memoryview]


class WithDescriptors:
    """A frame with whose first byte descriptors go, which are closed then."""

    __slots__ = ('data', 'descriptors')

    def __init__(self, data: bytes, *descriptors: int) -> None:
        self.data, self.descriptors = data, descriptors


Outgoing = Union[Buffer, WithDescriptors]


class Call:
    """A request that is open, or has had its end. Attributes that a call does not set are those of the class."""

    _tag = 0
    _ended = False
    _failure: Optional[Error] = None
    _args = b''  # encoded; what they name wsd may ask for
    _wants = 0
    _wake: Optional[Callable[[Any], None]] = None  # called with the call
    _gates: Optional[List[Any]] = None  # of a transport: who waits

    def _frame(self, core: Core, kind: int, header: bytes, body: bytes) -> None:
        raise NotImplementedError

    def _end(self, core: Core) -> None:
        """This was the last frame."""
        core.calls.pop(self._tag, None)
        self._ended = True
        if self._wake is not None:
            self._wake(self)


class Question(Call):
    """A request whose answer is frames: one, or all up to END."""

    def __init__(self, kinds: Tuple[int, ...], single: bool) -> None:
        self.kinds, self.single = kinds, single
        self.answers: List[Tuple[bytes, bytes]] = []

    def _frame(self, core: Core, kind: int, header: bytes, body: bytes) -> None:
        if kind == _wire.ERROR:
            self._failure = error_of(_wire.decode('Error', header))
        elif kind in self.kinds:
            self.answers.append((header, body))
            if not self.single:
                return
        elif kind != _wire.END or self.single:
            raise unexpected(kind)
        self._end(core)


def wants(core: Core, feature: int, words: str) -> None:
    """Raises ProtocolError where wsd has not got the feature."""
    if not core.features & feature:
        raise ProtocolError(f'this wsd ({core.server}) {words}; it needs a newer one', code=76)


def wants_functions(core: Core) -> None:
    """Raises ProtocolError where wsd does not know FUNCTIONS."""
    wants(core, FEATURE_FUNCTIONS, 'does not count by function')


def wants_actions(core: Core) -> None:
    """Raises ProtocolError where wsd does not know ACTIONS."""
    wants(core, FEATURE_ACTIONS, 'keeps no actions')


def wants_output(core: Core) -> None:
    """Raises ProtocolError where a job cannot write to a descriptor of this process."""
    if not core.features & FEATURE_OUTPUT:
        raise ProtocolError(f'output: this wsd ({core.server}) is too old to write there, or on another machine; '
                            'leave it out and write what Job.output() gives', code=76)


class JobCall(Call):
    """A SUBMIT or an AWAIT."""

    _id: Optional[bytes] = None
    _name = ''  # as it was submitted
    _accepted = False
    _collect = False  # output is for result(): it may come without bound
    _chunks: Optional[List[bytes]] = None
    _received = 0
    _allowed = WINDOW
    _owed = 0  # taken since the last CREDIT
    _kind = 0  # of the last frame, DONE or FINISHED
    _header = b''
    _info: Optional[JobInfo] = None
    _now = Progress(0, 0)
    _messages: Optional[List[Message]] = None
    _input: Optional[memoryview] = None  # what is left to send
    _input_open = False  # more input may be sent
    _input_sent = 0
    _input_allowed = 0
    _output_to = -1  # where the output is to go: a descriptor, until it is in `outgoing`

    def _frame(self, core: Core, kind: int, header: bytes, body: bytes) -> None:
        if kind == _wire.FINISHED:
            if body:
                self._take(body)
            self._kind, self._header = kind, header
            self._end(core)
        elif kind == _wire.ACCEPTED:
            if len(header) == 18 and header[:2] == b'\x0a\x10':  # the id and nothing else
                self._id = header[2:]
            else:
                self._id = id_of(_wire.decode('Accepted', header)['id'])
            self._accepted = True
            if self._wants & ACCEPTED and self._wake is not None:
                self._wake(self)
        elif kind == _wire.OUTPUT:
            if _wire.decode('Chunk', header)['offset'] != self._received:
                raise ProtocolError('output at a wrong offset', code=76)
            if body:
                self._take(body)
                if self._collect:
                    core.took(self, len(body))
                elif self._wants & OUTPUT and self._wake is not None:
                    self._wake(self)
        elif kind == _wire.DONE:
            m = _wire.decode('Job', header)
            id_of(m['id'])
            if m['state'] < State.SUCCEEDED:
                raise ProtocolError('the end of a job that has not ended', code=76)
            self._kind, self._header = kind, header
            self._now = Progress(m['done'], m['total'])
            self._end(core)
        elif kind == _wire.PROGRESS:
            m = _wire.decode('Progress', header)
            self._now = Progress(m['done'], m['total'])
            if self._wants & OTHER and self._wake is not None:
                self._wake(self)
        elif kind == _wire.MESSAGE:
            m = _wire.decode('Message', header)
            if self._messages is None:
                self._messages = []
            self._messages.append(Message(m['level'], shown(m['text'])))
            if self._wants & OTHER and self._wake is not None:
                self._wake(self)
        elif kind == _wire.ERROR:
            self._failure = error_of(_wire.decode('Error', header), self)
            self._end(core)
        elif kind == _wire.CREDIT:
            self._input_allowed += _wire.decode('Credit', header)['bytes']
            if self._input is not None:
                core.feed_rest(self)
            elif self._input_open and self._wake is not None:
                self._wake(self)
        elif kind == _wire.OPEN:
            core.on_open(self, _wire.decode('Open', header))
        elif kind == _wire.END:
            self._failure = Error('the job is not followed any more', code=125, job=self._known(), accepted=self._accepted)
            self._end(core)
        else:
            raise unexpected(kind)

    def _take(self, body: bytes) -> None:
        self._received += len(body)
        if self._received > self._allowed:
            raise ProtocolError('output beyond the window', code=76)
        if self._chunks is None:
            self._chunks = [body]
        else:
            self._chunks.append(body)

    def _end(self, core: Core) -> None:
        self._input, self._input_open = None, False
        Call._end(self, core)

    def _known(self) -> Optional[JobInfo]:
        """What is known of the job: all that the last frame said, or its id."""
        if self._info is None:
            if self._kind == _wire.FINISHED:
                m = _wire.decode('Finished', self._header)
                self._info = finished_info(m)
            elif self._kind == _wire.DONE:
                self._info = job_info(_wire.decode('Job', self._header))
            elif self._id is not None:
                name, _, function = self._name.partition(':')
                return JobInfo(id=self._id.hex(), plugin=name, function=function, done=self._now.done, total=self._now.total)
        return self._info

    def _outcome(self) -> Optional[Error]:
        """Why there is no result; None if there is one. For a call that has ended."""
        if self._failure is not None:
            return self._failure
        if self._kind == _wire.FINISHED:
            return None
        info = self._known()
        assert info is not None
        return end_of(info)

    def _take_output(self, core: Core) -> bytes:
        """What has come since the last time."""
        chunks = self._chunks
        if not chunks:
            return b''
        self._chunks = None
        data = chunks[0] if len(chunks) == 1 else b''.join(chunks)
        if not self._collect:
            core.took(self, len(data))
        return data

    def _gather(self, core: Core) -> None:
        """From now on output comes without bound."""
        if not self._collect:
            self._collect = True
            waiting = sum(map(len, self._chunks)) if self._chunks else 0
            if waiting:
                core.took(self, waiting)


def id_of(data: bytes) -> bytes:
    """An id of wsd's."""
    if len(data) != 16:
        raise ProtocolError('an id of a wrong size', code=76)
    return data


def unexpected(kind: int) -> ProtocolError:
    """A frame that does not belong where it came."""
    return ProtocolError(f'a frame of type {kind} where none can be', code=76)


def error_of(m: Dict[str, Any], call: Optional[JobCall] = None) -> Error:
    """The exception for an Error of wsd's."""
    code = m['code']
    text = shown(m['text']) or f'refused ({code})'
    job = call._known() if call is not None else None
    if code in (64, 66, 75, 77):
        kind = {64: BadRequest, 66: NotFound, 77: NotPermitted}.get(code, Refused)
        return kind(text, code=code, retry_after=m['retry_usec'] / 1e6 or None, job=job, accepted=m['accepted'])
    if code in (124, 125, 130):
        return {124: TimedOut, 125: Interrupted, 130: Cancelled}[code](text, code=code, job=job, accepted=m['accepted'])
    return Error(text, code=code, job=job, accepted=m['accepted'])


ENDS = {State.FAILED: Failed, State.CANCELLED: Cancelled, State.TIMED_OUT: TimedOut, State.CRASHED: Crashed,
        State.INTERRUPTED: Interrupted}


def end_of(info: JobInfo) -> Optional[Error]:
    """The exception for a job that has ended, or None if it succeeded."""
    if info.state == State.SUCCEEDED:
        return None
    kind = ENDS.get(info.state, JobError) if info.state is not None else JobError
    words = info.error or info.status
    label = info.state.label if info.state is not None else 'ended'
    text = f'{info.plugin}{":" if info.function else ""}{info.function}: {label}' + (f': {words}' if words else '')
    return kind(text, code=info.exit, job=info, accepted=True)


Opener = Callable[[bytes, bytes], int]
"""Opens a path for wsd if one of the encoded arguments names it. Returns a descriptor or a negative errno."""


class Core:
    """The state of a connection."""

    def __init__(self, directory: bytes, program: bytes, opener: Opener) -> None:
        self.calls: Dict[int, Call] = {}
        self.outgoing: Deque[Outgoing] = deque()
        self.features = 0
        self.window = 0  # of input
        self.server = ''
        self.greeted = False
        self.draining = False
        self.failure: Optional[Error] = None  # the connection is over
        self._opener = opener
        self._opened = 0  # descriptors in outgoing
        self._tag = 0
        self.outgoing.append(_wire.frame(_wire.HELLO, 0, _wire.encode('Hello', {
            'version_min': 1, 'version_max': 1, 'features': FEATURES, 'directory': directory, 'program': program, 'window': WINDOW})))

    # --- to wsd ------------------------------------------------------------------------------------------------------

    def begin(self, call: Call) -> int:
        """Gives the call a tag."""
        tag = self._tag
        while True:
            tag = tag + 1 if tag < 0xffffffff else 1
            if tag not in self.calls:
                break
        self._tag = call._tag = tag
        self.calls[tag] = call
        return tag

    def ask(self, call: Call, kind: int, header: bytes = b'', body: bytes = b'') -> None:
        """A request without a stream."""
        self.outgoing.append(_wire.frame(kind, self.begin(call), header, body))

    def submit(self, call: JobCall, prefix: bytes, flags: int, args: bytes, data: Buffer) -> None:
        """A job with this input. prefix: the Submit without args and flags, encoded."""
        size = len(data)
        call._args = args
        if size > FIRST_MAX - len(args) or size > self.window:
            first = max(0, min(FIRST_MAX - len(args), self.window))
            self.submit_open(call, prefix, flags, args, data[:first])
            call._input = memoryview(data)[first:]
            self.feed_rest(call)
            return
        header = prefix + args + b'\x30' + bytes((flags,)) if flags else prefix + args
        if call._output_to >= 0:
            self._submit_frame(call, header, data)
            return
        tag = self.begin(call)
        if size <= JOINED_MAX:
            self.outgoing.append(_wire.FRAME.pack(0x0157, 2, tag, len(header), size) + header + data)
        else:
            self.outgoing.extend((_wire.FRAME.pack(0x0157, 2, tag, len(header), size) + header, data))

    def submit_open(self, call: JobCall, prefix: bytes, flags: int, args: bytes, first: Buffer = b'') -> None:
        """A job whose input comes in pieces, by feed()."""
        call._args = args
        call._input_open = True
        call._input_allowed = self.window
        call._input_sent = len(first)
        self._submit_frame(call, prefix + args + b'\x30' + bytes((flags | MORE,)), first)

    def submit_file(self, call: JobCall, prefix: bytes, flags: int, args: bytes, descriptor: int, offset: int, size: int) -> None:
        """A job whose input is in a file. The descriptor is closed when it was sent."""
        call._args = args
        header = prefix + args + _wire.encode('Submit', {'flags': flags, 'input_from': 1, 'input_offset': offset, 'input_size': size})
        self._submit_frame(call, header, b'', descriptor)

    def _submit_frame(self, call: JobCall, header: bytes, body: Buffer, *descriptors: int) -> None:
        """A SUBMIT, with descriptors, and that for the output behind them."""
        if call._output_to >= 0:
            header += OUTPUT_TO
            descriptors += call._output_to,
            call._output_to = -1
        frame = _wire.FRAME.pack(0x0157, _wire.SUBMIT, self.begin(call), len(header), len(body)) + header
        self.outgoing.append(WithDescriptors(frame, *descriptors) if descriptors else frame)
        if body:
            self.outgoing.append(body)

    def feed(self, call: JobCall, data: Buffer) -> int:
        """Sends as much of data as the window has room for. Returns that many bytes."""
        n = min(len(data), call._input_allowed - call._input_sent, _wire.CHUNK_MAX)
        if n > 0 and call._input_open:
            header = _wire.encode('Chunk', {'offset': call._input_sent})
            self.outgoing.append(_wire.FRAME.pack(0x0157, _wire.INPUT, call._tag, len(header), n) + header)
            self.outgoing.append(data[:n])
            call._input_sent += n
            return n
        return 0

    def feed_end(self, call: JobCall) -> None:
        """There is no more input."""
        if call._input_open:
            call._input, call._input_open = None, False
            self.outgoing.append(_wire.frame(_wire.INPUT, call._tag, _wire.encode('Chunk', {'offset': call._input_sent, 'last': True})))

    def feed_rest(self, call: JobCall) -> None:
        """Sends what the window has room for of the input that is all there."""
        left = call._input
        if left is None:
            return
        while len(left) and (n := self.feed(call, left)):
            left = left[n:]
        if len(left):
            call._input = left
        else:
            self.feed_end(call)
            if call._wants & OTHER and call._wake is not None:
                call._wake(call)

    def took(self, call: JobCall, n: int) -> None:
        """So many bytes of output were taken."""
        call._owed += n
        if call._owed >= WINDOW // 2 and not call._ended and self.failure is None:
            self.outgoing.append(_wire.frame(_wire.CREDIT, call._tag, _wire.encode('Credit', {'bytes': call._owed})))
            call._allowed += call._owed
            call._owed = 0

    def credit_item(self, call: Call, item: int, n: int) -> None:
        """The same for an item of an ARRAY."""
        if not call._ended:
            self.outgoing.append(_wire.frame(_wire.CREDIT, call._tag, _wire.encode('Credit', {'bytes': n, 'item': item})))

    def tell(self, call: Call, kind: int) -> None:
        """CANCEL or FORGET of an open call."""
        if not call._ended and self.failure is None:
            self.outgoing.append(_wire.frame(kind, call._tag))

    # --- from wsd ----------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> int:
        """Handles all whole frames. Returns the number of bytes that they had; the rest is to come again, with more."""
        at, end = 0, len(data)
        calls, unpack = self.calls, _wire.FRAME.unpack_from
        while end - at >= 16:
            magic, kind, tag, header_size, body_size = unpack(data, at)
            start = at + 16
            body = start + header_size
            stop = body + body_size
            if magic != 0x0157 or stop - at > 65536:
                raise ProtocolError('what came is no frame', code=76)
            if stop > end:
                break
            at = stop
            if tag:
                call = calls.get(tag)
                if call is not None:
                    if not self.greeted:
                        raise ProtocolError('an answer before WELCOME', code=76)
                    call._frame(self, kind, data[start:body], data[body:stop])
            else:
                self._own_frame(kind, data[start:body])
        return at

    def _own_frame(self, kind: int, header: bytes) -> None:
        """One of the connection itself."""
        if kind == _wire.WELCOME and not self.greeted:
            m = _wire.decode('Welcome', header)
            if m['version'] != 1:
                raise ProtocolError(f'wsd speaks version {m["version"]}', code=76)
            self.features = m['features'] & FEATURES
            self.window, self.server = m['window'], shown(m['program'])
            self.greeted = True
        elif kind == _wire.GOODBYE:
            self.draining = True
        elif kind == _wire.ERROR:
            m = _wire.decode('Error', header)
            self.fail(ProtocolError(shown(m['text']), code=76) if m['code'] == 76 else error_of(m))
        else:
            raise unexpected(kind)

    def on_open(self, call: Call, m: Dict[str, Any]) -> None:
        """wsd asks for a file."""
        if self._opened >= OPENED_MAX:
            found = -23  # ENFILE
        else:
            found = self._opener(m['path'], call._args)
        header = {'serial': m['serial'], 'item': m['item']}
        if found < 0:
            self.outgoing.append(_wire.frame(_wire.OPENED, call._tag, _wire.encode('Opened', {**header, 'error': -found})))
        else:
            self._opened += 1
            self.outgoing.append(WithDescriptors(_wire.frame(_wire.OPENED, call._tag, _wire.encode('Opened', header)), found))

    def descriptor_left(self) -> None:
        """One was sent."""
        self._opened = max(0, self._opened - 1)

    def fail(self, error: Error) -> None:
        """The connection is over: each open call ends with this error, or with one of the same class that has its job.

        What waits to be sent is left to the transport, which closes the descriptors in there.
        """
        if self.failure is not None:
            return
        self.failure = error
        calls = list(self.calls.values())
        self.calls.clear()
        for call in calls:
            if isinstance(call, JobCall) and (job := call._known()) is not None:
                call._failure = type(error)(error.text, code=error.code, job=job, accepted=call._accepted)
            else:
                call._failure = error
            call._end(self)

    def lost(self) -> None:
        """End of file, or a reset."""
        self.fail(ConnectionLost('wsd has ended the connection', code=69))


__all__ = ['ACCEPTED', 'Buffer', 'Call', 'Core', 'DETACH', 'FEATURE_PROFILE', 'JobCall', 'NO_ACCEPTED', 'OTHER', 'OUTPUT',
           'Question', 'wants', 'wants_actions', 'wants_functions', 'wants_output']
