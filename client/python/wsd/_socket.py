# SPDX-License-Identifier: Apache-2.0
"""What both transports do with the socket: find it, connect, write what waits, open files for wsd.

Owns nothing: sockets and descriptors are the caller's, but for descriptors that wait to be sent.
"""
from __future__ import annotations

import array
import errno
import fcntl
import os
import socket
import stat
from collections import deque
from typing import Deque, List, Optional, Union

from . import _wire
from ._errors import Error, NoDaemon, NotPermitted
from ._protocol import Buffer, Core, Opener, Outgoing, WithDescriptors

SMALL = 16 << 10  # bytes; what is smaller is copied together
GATHERED = 512 << 10  # bytes of one sendmsg
IOVECS = 64
NOW = int(socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)  # a number: an enum takes a microsecond each time
RECEIVE_LEAST, RECEIVE_MOST = 1 << 16, 1 << 18  # a large buffer costs microseconds

Path = Union[str, 'os.PathLike[str]']


def find(given: Optional[Path]) -> str:
    """Where wsd's socket is: given, WSD_SOCKET, the user's own, the system's."""
    if given is not None:
        return os.fspath(given)
    named = os.environ.get('WSD_SOCKET')
    if named:
        return named
    runtime = os.environ.get('XDG_RUNTIME_DIR')
    if runtime and os.path.exists(own := os.path.join(runtime, 'wsd/wsd.sock')):
        return own
    return '/run/wsd/wsd.sock'


def connect_error(path: str, error: OSError) -> Error:
    """Why there is no connection."""
    if isinstance(error, PermissionError):
        return NotPermitted(f'{path}: {os.strerror(error.errno or errno.EACCES)}', code=77)
    return NoDaemon(f'{path}: {error.strerror or error}', code=69)


def write_some(sock: socket.socket, core: Core) -> bool:
    """Writes what can be written without blocking. Returns whether all is written.

    A connection that takes no more is noticed by who reads: wsd may have said why.
    """
    queue = core.outgoing
    try:
        while queue:
            first = queue[0]
            if type(first) is bytes and len(queue) == 1:
                n = sock.send(first, NOW)
                queue[0] = memoryview(first)[n:]
                if n == len(first):
                    queue.popleft()
            elif type(first) is WithDescriptors:
                n = sock.sendmsg([first.data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', first.descriptors))], NOW)
                close_all(first)
                core.descriptor_left()
                queue[0] = memoryview(first.data)[n:]
                if n == len(first.data):
                    queue.popleft()
            else:
                _write_many(sock, queue)
    except BlockingIOError:
        return False
    except (BrokenPipeError, ConnectionResetError):
        drop(queue)
    return True


def _write_many(sock: socket.socket, queue: Deque[Outgoing]) -> None:
    """The next buffers up to one with a descriptor, in one call. What was not written stays in the queue."""
    parts: List[Buffer] = []
    small: List[Buffer] = []
    size = taken = 0
    for one in queue:
        if type(one) is WithDescriptors or size >= GATHERED or len(parts) >= IOVECS:
            break
        if len(one) < SMALL:  # type: ignore[arg-type]
            small.append(one)  # type: ignore[arg-type]
        else:
            if small:
                parts.append(b''.join(small))
                small = []
            parts.append(one)  # type: ignore[arg-type]
        size += len(one)  # type: ignore[arg-type]
        taken += 1
    if small:
        parts.append(b''.join(small))
    n = sock.sendmsg(parts, [], NOW)
    if taken == len(queue):
        queue.clear()
    else:
        for _ in range(taken):
            queue.popleft()
    if n < size:
        rest: List[Buffer] = []
        for part in parts:
            if n < len(part):
                rest.append(memoryview(part)[n:])
            n = max(0, n - len(part))
        queue.extendleft(reversed(rest))


def close_all(frame: WithDescriptors) -> None:
    """Those of the frame."""
    for descriptor in frame.descriptors:
        os.close(descriptor)


def drop(queue: Deque[Outgoing]) -> None:
    """Forgets what waits, and closes its descriptors."""
    for one in queue:
        if isinstance(one, WithDescriptors):
            close_all(one)
    queue.clear()


def unsent(core: Core) -> int:
    """Roughly the bytes that wait."""
    return sum(len(one.data) if isinstance(one, WithDescriptors) else len(one) for one in core.outgoing)


class Directory:
    """The directory that relative paths in arguments begin at: the one at connect, wherever the process moves."""

    def __init__(self, given: Optional[Path]) -> None:
        self.descriptor = -1
        self.path = b''
        where = os.fsencode(given) if given is not None else b'.'
        try:
            self.descriptor = os.open(where, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            self.path = os.path.abspath(where)
        except OSError:
            if given is not None:
                raise
        if len(self.path) > 4095:
            self.path = b''

    def close(self) -> None:
        """May be called again."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def opener(self) -> Opener:
        """What the core asks when wsd wants a file."""
        return self._open

    def _open(self, path: bytes, args: bytes) -> int:
        if not path or b'\0' in path or not any(self._names(arg, path) for arg in _wire.decode('Submit', args)['args']):
            return -errno.EPERM
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK,
                                 dir_fd=self.descriptor if self.descriptor >= 0 else None)
        except OSError as error:
            return -(error.errno or errno.EIO)
        try:
            mode = os.fstat(descriptor).st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                os.close(descriptor)
                return -errno.ENXIO
            fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) & ~os.O_NONBLOCK)
        except OSError as error:
            os.close(descriptor)
            return -(error.errno or errno.EIO)
        return descriptor

    def _names(self, arg: bytes, path: bytes) -> bool:
        """Whether an argument names a path, or what is left of it below our directory."""
        if argument_names(arg, path):
            return True
        below = self.path + b'/'
        return bool(self.path) and path.startswith(below) and len(path) > len(below) and argument_names(arg, path[len(below):])


def argument_names(arg: bytes, path: bytes) -> bool:
    """Whether an argument is the path, ends in it as the value of an option, or is a directory above it."""
    if len(arg) >= len(path):
        at = len(arg) - len(path)
        return arg.endswith(path) and (at == 0 or arg[at - 1:at] in (b'=', b':', b',', b'@') or (at == 2 and arg[:1] == b'-'))
    if not arg or not path.startswith(arg) or not (arg.endswith(b'/') or path[len(arg):len(arg) + 1] == b'/'):
        return False
    return b'..' not in path[len(arg):].split(b'/')


__all__ = ['Directory', 'argument_names', 'connect_error', 'drop', 'find', 'unsent', 'write_some', 'deque']
