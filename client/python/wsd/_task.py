# SPDX-License-Identifier: Apache-2.0
"""Tasks in Python: functions that a runner offers, and the job that each call of one is given.

    @wsd.task(idempotent=True)
    def shout(job: wsd.TaskJob) -> str:
        return job.input.decode().upper()

Owns the input of a running job: its descriptor, and what was read of it. _runner.py has the connection.
"""
from __future__ import annotations

import errno
import mmap
import io
import os
import re
import select
import stat
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Callable, Dict, Iterable, List, Mapping, Optional, TypeVar, Union, overload

from ._memory import is_sealed, map_part
from ._types import shown

if TYPE_CHECKING:
    from ._runner import Runner

TEXT_MAX = 255  # bytes of a line that a job says
FUNCTIONS_MAX = 64
NAME = re.compile(r'[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}')
PLACE = re.compile(r'@[A-Za-z0-9_][A-Za-z0-9_.-]{0,61}')
ALL = '*'  # the task of a place
MARK = '__wsd_task__'
LOOK = 100  # milliseconds; between two looks whether the job is to stop, while nothing comes

F = TypeVar('F', bound=Callable[..., Any])


class TaskFailed(Exception):
    """Raised in a task, it ends the job as failed. `status` is its status, 1 to 63. Since 0.1."""

    def __init__(self, text: str = '', *, status: int = 1) -> None:
        if not 1 <= status <= 63:
            raise ValueError(f'status: not a number from 1 to 63: {status!r}')
        super().__init__(text)
        self.text, self.status = text, status


class TaskCancelled(Exception):
    """Raised in a task whose job was cancelled, or whose time is over: by check(), and where the job waits. Since 0.1."""


@dataclass(frozen=True)
class Task:
    """What is known of a function that is a task. Since 0.1."""

    name: str
    function: Callable[..., Any]
    idempotent: bool = False
    streaming: bool = False
    help: str = ''

    @property
    def flags(self) -> int:
        """As in an offer: 1 idempotent, 2 streaming. Since 0.1."""
        return self.idempotent | self.streaming << 1


@overload
def task(function: F, /) -> F: ...


@overload
def task(*, idempotent: bool = False, streaming: bool = False, name: Optional[str] = None,
         help: Optional[str] = None) -> Callable[[F], F]: ...


def task(function: Optional[Callable[..., Any]] = None, /, *, idempotent: bool = False, streaming: bool = False,
         name: Optional[str] = None, help: Optional[str] = None) -> Any:
    """Marks a function as a task, which `python3 -m wsd run MODULE` offers. The function stays as it is.

    It is called with a TaskJob, and returns the output: bytes, a str, another object with the buffer protocol, or None.
    A generator yields pieces of it. An exception fails the job: with status 1, or as TaskFailed says.

    `idempotent`: it may run twice, so wsd runs it again when its process dies. `streaming`: it reads `stream` while the
    input still comes. `name` is that of the function, and `help` the first line of its docstring, unless given. The one task of a place
    has the name `*`.

    Raises ValueError for a name that wsd does not take. Since 0.1.
    """
    def mark(found: F) -> F:
        words = (found.__doc__ or '').strip().split('\n', 1)[0]
        known = Task(found.__name__ if name is None else name, found, idempotent, streaming, words if help is None else help)
        if not NAME.fullmatch(known.name) and known.name != ALL:
            raise ValueError(f'{known.name!r} is no name of a task: 1 to 63 letters, digits, dots, underscores and hyphens; give name=')
        setattr(found, MARK, known)
        return found
    return mark if function is None else mark(function)


def tasks_of(holder: Any) -> List[Task]:
    """The tasks of a module, of an object with attributes, or the one task that it is. ValueError: two have one name."""
    own = getattr(holder, MARK, None)
    if isinstance(own, Task):
        return [own]
    values: Iterable[Any] = holder.values() if isinstance(holder, Mapping) else (getattr(holder, name) for name in dir(holder))
    found: Dict[str, Task] = {}
    for value in values:
        known = getattr(value, MARK, None)
        if isinstance(known, Task):
            bound = Task(known.name, value, known.idempotent, known.streaming, known.help)
            if found.setdefault(known.name, bound).function is not value:
                raise ValueError(f'two tasks have the name {known.name}; give one of them another by name=')
    return list(found.values())


def cut(text: str) -> bytes:
    """As much of a text as wsd takes, without NULs."""
    data = text.encode('utf-8', 'surrogateescape').replace(b'\0', b'\\0')
    return data if len(data) <= TEXT_MAX else data[:TEXT_MAX].decode('utf-8', 'ignore').encode()


class _Pipe(io.RawIOBase):
    """The input of a task that reads it as it comes."""

    def __init__(self, job: TaskJob, descriptor: int) -> None:
        self._job, self._descriptor = job, descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def readinto(self, buffer: Any) -> int:
        while not self._poll.poll(LOOK):
            self._job.check()
        return os.readv(self._descriptor, [buffer])


class TaskJob:
    """A job, as its task sees it. Use it in the thread that the task was called in. Since 0.1."""

    __slots__ = ('_runner', '_m', '_run', '_body', '_pieces', '_descriptor', '_stream', '_args', '_sent', '_allowed', '_stopped',
                 '_opened', '_text', '_deadline', '_place', '_overflow')

    def __init__(self, runner: Runner, m: Dict[str, Any], body: bytes, descriptor: int, window: int) -> None:
        self._runner, self._m, self._body = runner, m, body
        self._descriptor = descriptor if m['input_from'] else -1
        # of the arena that the output goes to
        self._place = -1 if not m['output_size'] else os.dup(descriptor) if m['input_from'] else descriptor
        self._overflow = False
        self._run: int = m['run']
        self._pieces: Optional[List[bytes]] = None  # of an input that still comes
        self._stream: Optional[BinaryIO] = None
        self._args: Optional[List[str]] = None
        self._sent, self._allowed = 0, window
        self._stopped = 0
        self._opened: Dict[int, int] = {}  # serial -> a descriptor, or a negative errno
        self._text = b''
        limit = m['timeout_usec']
        self._deadline: Optional[float] = time.monotonic() + limit / 1e6 if limit else None

    def __repr__(self) -> str:
        return f'<wsd.TaskJob {self.function} {self.id}>'

    # --- what it is ------------------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """32 hexadecimal digits. Since 0.1."""
        found: str = self._m['id'].hex()
        return found

    @property
    def function(self) -> str:
        """The name of the task; at a place PLUGIN or PLUGIN:FUNCTION, as the job was submitted. Since 0.1."""
        return shown(self._m['function'])

    @property
    def args(self) -> List[str]:
        """The arguments. What is not UTF-8 is as os.fsdecode() has it. Since 0.1."""
        if self._args is None:
            self._args = [shown(arg) for arg in self._m['args']]
        return self._args

    @property
    def attempt(self) -> int:
        """Which try of the job this is, from 1. Since 0.1."""
        found: int = self._m['attempt']
        return found

    @property
    def user(self) -> int:
        """The uid of the user who submitted it. Since 0.1."""
        found: int = self._m['uid']
        return found

    @property
    def priority(self) -> int:
        """-100 to 100, higher first. Since 0.1."""
        found: int = self._m['priority']
        return found

    @property
    def traceparent(self) -> str:
        """The trace that it belongs to, as W3C Trace Context writes it, or the empty string. Since 0.1."""
        return shown(self._m['traceparent'])

    @property
    def deadline(self) -> Optional[float]:
        """When its time is over, in seconds of time.monotonic(). None: it has no limit. Since 0.1."""
        return self._deadline

    @property
    def directory(self) -> str:
        """The working directory of the submitter, or the empty string. Since 0.1."""
        return shown(self._m['directory'])

    # --- input -----------------------------------------------------------------------------------------------------------

    @property
    def input(self) -> bytes:
        """All of the input. Read when it is first asked for. Raises TaskCancelled while it waits. Since 0.1."""
        if self._descriptor >= 0:
            if self._m['input_from'] == 2:
                self._body = self.stream.read()
            else:
                self._body = bytes(self.buffer)
            self._close_input()
        return self._body

    @property
    def buffer(self) -> memoryview:
        """All of the input, where it lies: a large one is mapped and not copied. It is read-only. Since 0.1.

        That of a wsd.Memory stays mapped for a second when jobs have used it twice, so the next one finds it there.
        """
        if self._descriptor < 0 or self._m['input_from'] == 2:
            return memoryview(self.input)
        offset, size = self._m['input_offset'], self._m['input_size']
        if not size:
            return memoryview(b'')
        skip = offset % mmap.ALLOCATIONGRANULARITY
        if is_sealed(self._descriptor):
            found = self._runner._mappings.map(self.user, self._descriptor, offset - skip, skip + size)
        elif self.user == os.getuid():
            found = map_part(self._descriptor, offset - skip, skip + size)
        else:
            return memoryview(self._read_part(offset, size))  # who can cut a file that is mapped can end this process
        return memoryview(found)[skip:]

    def _read_part(self, offset: int, size: int) -> bytes:
        data = bytearray(size)
        rest = memoryview(data)
        while rest:
            n = os.preadv(self._descriptor, [rest], offset + size - len(rest))
            if n == 0:
                raise TaskFailed('its input was cut')
            rest = rest[n:]
        return bytes(data)

    @property
    def stream(self) -> BinaryIO:
        """The input as a binary file. That of a task with `streaming` comes while it is read. Since 0.1."""
        if self._stream is None:
            if self._descriptor >= 0 and self._m['input_from'] == 2:
                self._stream = io.BufferedReader(_Pipe(self, self._descriptor))
            else:
                self._stream = io.BytesIO(self.buffer)
        return self._stream

    def open(self, path: Union[str, bytes, 'os.PathLike[str]']) -> BinaryIO:
        """Opens a file that an argument names, for reading. A relative path begins at the submitter's directory.

        Raises OSError. Since 0.1.
        """
        name = os.fsencode(path)
        if self._m['flags'] & 1:
            descriptor = self._runner._open(self, name)
        else:
            descriptor = os.open(os.path.join(self._m['directory'], name), os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # it could block
            os.close(descriptor)
            raise OSError(errno.ENXIO, os.strerror(errno.ENXIO), path)
        if stat.S_ISDIR(mode):
            os.close(descriptor)
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return os.fdopen(descriptor, 'rb')

    # --- output ----------------------------------------------------------------------------------------------------------

    def write(self, data: Any) -> None:
        """Sends the next piece of the output: bytes, a str, or another object with the buffer protocol.

        Waits while the submitter does not read. Then it raises TaskCancelled when the job is to stop. Since 0.1.
        """
        self._runner._write(self, output_view(data))

    def progress(self, done: int, total: int = 0) -> None:
        """How far the job is, in a unit of its own. `total` 0: it is not known. Since 0.1."""
        self._runner._progress(self, done, total)

    def log(self, text: str, level: int = 6) -> None:
        """Says something, each line of it. `level` is that of syslog: 0 is worst, 7 is for debugging. Since 0.1."""
        for line in text.split('\n'):
            self._runner._say(self, level, line)

    def status(self, text: str) -> None:
        """Sets what the job says of its result: `said` of Failed, and `status` of what is known of it. Since 0.1."""
        self._text = cut(text)

    # --- to stop ---------------------------------------------------------------------------------------------------------

    @property
    def cancelled(self) -> bool:
        """Whether the job is to stop: it was cancelled, or its time is over. Since 0.1."""
        return self._stopped != 0

    def check(self) -> None:
        """Raises TaskCancelled if the job is to stop. Since 0.1."""
        if self._stopped:
            raise TaskCancelled('its time is over' if self._stopped == 2 else 'it was cancelled')

    def _put(self, data: memoryview) -> None:
        """The next piece of the output, into its part of the arena. What is too much is left out. Raises TaskFailed."""
        self.check()
        start, room = self._m['output_offset'], self._m['output_size'] - self._sent
        self._overflow = self._overflow or len(data) > room
        rest = data[:room]
        while rest:
            n = os.pwrite(self._place, rest, start + self._sent)
            self._sent += n
            rest = rest[n:]
        if self._overflow:
            raise TaskFailed('its output is larger than its part of the arena')

    def _close_input(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _close(self) -> None:
        self._close_input()
        if self._place >= 0:
            os.close(self._place)
            self._place = -1
        for descriptor in self._opened.values():
            if descriptor >= 0:
                os.close(descriptor)
        self._opened.clear()


def output_view(data: Any) -> memoryview:
    """The bytes of a piece of output."""
    if isinstance(data, str):
        return memoryview(data.encode())
    try:
        found = memoryview(data)
    except TypeError:
        raise TypeError(f'the output of a task is bytes, a str, a buffer or None, not {type(data).__name__}') from None
    if not found.c_contiguous:
        return memoryview(found.tobytes())
    return found.cast('B') if found.nbytes else memoryview(b'')
