# SPDX-License-Identifier: Apache-2.0
"""The messages of proto/wsd.proto, and the 16 bytes before them, as far as a client needs them.

Owns the tables of fields and of frame types. Knows nothing of connections. tests/python holds the tables against
wsd.proto. Reading raises ProtocolError for bytes that are no message. It never reads beyond what it was given.
"""
from __future__ import annotations

import struct
from typing import Any, Dict, Mapping, Tuple

from ._errors import ProtocolError

MAGIC = 0x0157  # bytes 0 and 1 of a frame, 'W' and version 1, as one number
FRAME = struct.Struct('<HHIII')  # magic, type, tag, size of the header, size of the body
FRAME_SIZE = 16
FRAME_MAX = 65536
CHUNK_MAX = 60 << 10  # body of one frame of a stream

# Types of frames: to wsd.
HELLO, SUBMIT, INPUT, CREDIT, CANCEL, AWAIT, STATUS, LIST, PLUGINS, STATS, PING, OPENED = range(1, 13)
TRACE, RELEASE, FORGET, ARRAY, LIST_WHERE, CANCEL_WHERE = 14, 15, 18, 23, 25, 26
FUNCTIONS, ACTIONS = 50, 52
RUNNER_OPEN, RUNNER_CLOSE, RUN_OUTPUT, RUN_MESSAGE, RUN_PROGRESS, RUN_OPEN, RUN_END, RUN_PONG = range(40, 48)
# From wsd.
WELCOME, ACCEPTED, OUTPUT, PROGRESS, MESSAGE, DONE, ERROR, JOB, PLUGIN, COUNTERS, PONG, END, OPEN, GOODBYE = range(65, 79)
EXECUTOR, PIECE, ENDS, COUNT, FINISHED = 79, 81, 87, 88, 105
RUNNER, RUN, RUN_INPUT, RUN_STOP, RUN_OPENED, RUN_CREDIT, RUN_PING = range(110, 117)
FUNCTION_STATS, ACTION = 120, 121

# message -> field -> (number, kind, repeated). Kind: u varint, s zigzag, b bytes, t bool, or the name of a message.
Fields = Dict[str, Tuple[int, str, bool]]


def _fields(text: str) -> Fields:
    """`name:number:kind`, with a `*` behind the kind of a repeated one."""
    fields: Fields = {}
    for word in text.split():
        name, number, kind = word.split(':')
        fields[name] = (int(number), kind.rstrip('*'), kind.endswith('*'))
    return fields


MESSAGES: Dict[str, Fields] = {name: _fields(text) for name, text in {
    'Hello': 'version_min:1:u version_max:2:u features:3:u directory:4:b program:5:b window:6:u user:7:b',
    'Welcome': 'version:1:u features:2:u program:3:b window:4:u',
    'Submit': 'plugin:1:b function:2:b args:3:b* timeout_usec:4:u priority:5:s flags:6:u key:30:b retries:31:u '
              'retry_usec:32:u retry_on:33:u input_from:34:u input_offset:35:u input_size:36:u arena:37:u '
              'output_offset:38:u output_size:39:u delay_usec:40:u at_usec:41:u queue_usec:42:u after:45:b '
              'after_any:46:b tags:47:b traceparent:48:b output_to:49:u batch:50:u items:51:u',
    'Ends': 'id:1:b plugin:2:b function:3:b uid:4:u submitted_usec:5:u records:6:u last:7:t',
    'Accepted': 'id:1:b items:50:u',
    'Chunk': 'offset:1:u last:2:t',
    'Credit': 'bytes:1:u item:50:u',
    'Progress': 'done:1:u total:2:u item:60:u',
    'Message': 'level:1:u text:2:b item:50:u',
    'Job': 'id:1:b plugin:2:b function:3:b state:4:u exit:5:u error:6:b status:7:b worker:8:b attempts:9:u uid:10:u '
           'queued_usec:11:u run_usec:12:u cpu_usec:13:u submitted_usec:14:u done:15:u total:16:u backtrace:17:b '
           'durable:30:t dead:31:t key:32:b retries:33:u due_usec:34:u waits_for:45:u placed:35:u tags:46:b batch:50:b '
           'waits_on:52:b awaited_by:53:b',
    'Finished': 'id:1:b plugin:2:b function:3:b worker:4:b attempts:5:u uid:6:u queued_usec:7:u run_usec:8:u '
                'cpu_usec:9:u submitted_usec:10:u placed:35:u',
    'Error': 'code:1:u text:2:b retry_usec:55:u accepted:60:t',
    'Id': 'id:1:b item:50:u flags:55:u',
    'Filter': 'states:1:u by_uid:2:t uid:3:u plugin:4:b function:5:b newer_usec:6:u older_usec:7:u limit:8:u batch:50:b',
    'Count': 'n:1:u',
    'Plugins': 'name:1:b runners:2:t',
    'Function': 'name:1:b help:2:b flags:3:u crashes:4:u why:5:b quarantine:6:u quarantine_usec:7:u',
    'Plugin': 'name:1:b version:2:b help:3:b path:4:b error:5:b functions:6:Function* apart:7:u runs:8:t waiting:9:u '
              'runners:10:Runner* build:11:b',
    'Runner': 'uid:1:u pid:2:u credit:3:u running:4:u since_usec:5:u leaving:6:t',
    'Counter': 'name:1:b value:2:u',
    'Stats': 'counters:1:Counter*',
    'Functions': 'plugin:1:b function:2:b by_uid:3:t uid:4:u',
    'Histogram': 'kind:1:u sum:2:u max:3:u buckets:4:u',
    'FunctionStats': 'plugin:1:b function:2:b uid:3:u succeeded:4:u failed:5:u cancelled:6:u timed_out:7:u crashed:8:u '
                     'interrupted:9:u refused:10:u direct:11:u histograms:12:Histogram* crashes:13:u why:14:b quarantine:15:u '
                     'quarantine_usec:16:u',
    'Actions': 'limit:1:u',
    'Action': 'time_usec:1:u uid:2:u person:3:b verb:4:b object:5:b code:6:u',
    'Executor': 'executor:1:u uid:2:u workers:3:u error:4:u lost:5:u pid:6:u age_usec:7:u memory:8:u descriptors:9:u',
    'Trace': 'action:1:u kind:2:u rate:3:u id:4:b',
    'Open': 'serial:1:u path:2:b item:50:u',
    'Opened': 'serial:1:u error:2:u item:50:u',
    'Release': 'name:1:b function:2:b',
    'Offer': 'name:1:b version:2:b help:3:b functions:4:Function* credit:5:u',
    'Run': 'run:1:u id:2:b function:3:b args:4:b* timeout_usec:5:u priority:6:s flags:7:u uid:8:u attempt:9:u directory:10:b '
           'input_from:11:u input_offset:12:u input_size:13:u output_offset:14:u output_size:15:u user:16:b '
           'key:17:b traceparent:18:b',
    'RunChunk': 'run:1:u offset:2:u last:3:t',
    'RunRef': 'run:1:u why:2:u',
    'RunCredit': 'run:1:u bytes:2:u',
    'RunMessage': 'run:1:u level:2:u text:3:b',
    'RunProgress': 'run:1:u done:2:u total:3:u',
    'RunOpen': 'run:1:u serial:2:u path:3:b',
    'RunOpened': 'run:1:u serial:2:u error:3:u',
    'RunEnd': 'run:1:u status:2:u error:3:b text:4:b cpu_usec:5:u placed:6:u state:7:u',
    'Empty': '',
}.items()}
_ZEROS: Dict[str, Any] = {'u': 0, 's': 0, 'b': b'', 't': False}
_EMPTY: Dict[str, Dict[str, Any]] = {
    message: {name: [] if repeated else _ZEROS.get(kind) for name, (_, kind, repeated) in fields.items()}
    for message, fields in MESSAGES.items()}
_LISTS = {message: [name for name, (_, _, repeated) in fields.items() if repeated] for message, fields in MESSAGES.items()}
_BY_NUMBER: Dict[str, Dict[int, Tuple[str, str, bool]]] = {
    message: {number: (name, kind, repeated) for name, (number, kind, repeated) in fields.items()}
    for message, fields in MESSAGES.items()}


def varint(n: int) -> bytes:
    """A number from 0 to 2**64 - 1 as protobuf writes it."""
    if n < 0x80:
        return bytes((n,))
    out = bytearray()
    while n > 0x7f:
        out.append(n & 0x7f | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def text_field(number: int, value: bytes) -> bytes:
    """A field of bytes."""
    return varint(number << 3 | 2) + varint(len(value)) + value


def encode(message: str, values: Mapping[str, Any]) -> bytes:
    """A message. Values that are 0 or empty are left out, except those of repeated fields."""
    out = []
    fields = MESSAGES[message]
    for name, value in values.items():
        number, kind, repeated = fields[name]
        for one in value if repeated else (value,):
            if kind == 'b':
                if one or repeated:
                    out.append(text_field(number, one))
            elif kind in MESSAGES:
                out.append(text_field(number, encode(kind, one)))
            elif one:
                out.append(varint(number << 3))
                out.append(varint((one << 1 ^ one >> 31) & 0xffffffff if kind == 's' else int(one)))
    return b''.join(out)


def decode(message: str, data: bytes) -> Dict[str, Any]:
    """The fields of a message. Those that did not come are 0 or empty. Unknown ones are passed over."""
    values = _EMPTY[message].copy()
    for name in _LISTS[message]:
        values[name] = []
    known = _BY_NUMBER[message]
    at, end = 0, len(data)
    try:
        while at < end:
            key = data[at]
            at += 1
            if key > 0x7f:
                key, at = _more(data, at, key)
            wire = key & 7
            value: Any
            if wire == 0:
                value = data[at]
                at += 1
                if value > 0x7f:
                    value, at = _more(data, at, value)
            elif wire == 2:
                size = data[at]
                at += 1
                if size > 0x7f:
                    size, at = _more(data, at, size)
                if size > end - at:
                    raise IndexError
                value = data[at:at + size]
                at += size
            elif wire == 5 or wire == 1:
                at += 4 if wire == 5 else 8
                if at > end:
                    raise IndexError
                continue
            else:
                raise ProtocolError(f'a field of a {message} has no known form', code=76)
            field = known.get(key >> 3)
            if key < 8:
                raise ProtocolError(f'a {message} has a field 0', code=76)
            if field is None:
                continue
            name, kind, repeated = field
            if (wire == 2) != (kind not in 'ust'):
                continue
            if wire == 0:
                if kind == 's':
                    value = value >> 1 ^ -(value & 1)
                elif kind == 't':
                    value = value != 0
            elif kind != 'b':
                value = decode(kind, value)
            if repeated:
                values[name].append(value)
            else:
                values[name] = value
    except IndexError:
        raise ProtocolError(f'a {message} ends too early', code=76) from None
    return values


def _more(data: bytes, at: int, first: int) -> Tuple[int, int]:
    """The rest of a number of several bytes: it, and the place behind it."""
    n = first & 0x7f
    for shift in range(7, 70, 7):
        byte = data[at]
        at += 1
        n |= (byte & 0x7f) << shift
        if byte < 0x80:
            return n & 0xffffffffffffffff, at
    raise ProtocolError('a number has more than ten bytes', code=76)


def frame(kind: int, tag: int, header: bytes = b'', body: bytes = b'') -> bytes:
    """A whole frame, for those with a small body or none."""
    return FRAME.pack(MAGIC, kind, tag, len(header), len(body)) + header + body
