# SPDX-License-Identifier: Apache-2.0
"""call() through libwsclient, where that is installed: the direct lane, a ring in shared memory.

Owns handles of the library: one for each thread that calls at the same time. They are opened by the first calls.
By ctypes and not by cffi: ctypes is in the standard library, so one wheel fits everywhere, and is as fast here (README).
Keeps: Ctrl-C is seen at once. A handle whose call was left in any way but its end is not used again.
"""
from __future__ import annotations

import ctypes
import os
from typing import Any, Callable, Generator, List, Optional, Sequence

from ._errors import (BadRequest, Cancelled, ConnectionLost, Error, Interrupted, NotFound, NotPermitted, ProtocolError, Refused,
                      TimedOut)
from ._protocol import end_of
from ._types import Argument, JobInfo, file_bytes, shown, split_name, state

LIBRARY = 'libwsclient.so.0'
ROOM = 2048  # bytes of output; more goes by the socket
EMSGSIZE = 90


class Request(ctypes.Structure):
    """struct wsd_call_request"""

    _fields_ = [('size', ctypes.c_size_t), ('plugin', ctypes.c_char_p), ('function', ctypes.c_char_p),
                ('args', ctypes.POINTER(ctypes.c_char_p)), ('n_args', ctypes.c_size_t), ('input', ctypes.c_char_p),
                ('input_size', ctypes.c_size_t), ('output', ctypes.c_void_p), ('output_room', ctypes.c_size_t),
                ('timeout_usec', ctypes.c_uint64), ('flags', ctypes.c_uint32), ('deadline_usec', ctypes.c_uint64)]


class Result(ctypes.Structure):
    """struct wsd_call_result"""

    _fields_ = [('size', ctypes.c_size_t), ('state', ctypes.c_int), ('exit', ctypes.c_int), ('output_size', ctypes.c_size_t),
                ('error', ctypes.c_char_p), ('status', ctypes.c_char_p), ('run_usec', ctypes.c_uint64), ('cpu_usec', ctypes.c_uint64),
                ('direct', ctypes.c_bool), ('code', ctypes.c_int), ('output', ctypes.c_void_p)]


INTERRUPTED = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


class Open(ctypes.Structure):
    """struct wsd_open"""

    _fields_ = [('size', ctypes.c_size_t), ('socket', ctypes.c_char_p), ('tls', ctypes.c_void_p), ('timeout_usec', ctypes.c_uint64),
                ('deadline_usec', ctypes.c_uint64), ('interrupted', INTERRUPTED), ('userdata', ctypes.c_void_p),
                ('flags', ctypes.c_uint32), ('state', ctypes.c_void_p), ('state_userdata', ctypes.c_void_p), ('user', ctypes.c_char_p)]


def load() -> Optional[ctypes.CDLL]:
    """The library, or None. WSD_LIBWSCLIENT names another file; empty: none."""
    name = os.environ.get('WSD_LIBWSCLIENT', LIBRARY)
    if not name:
        return None
    try:
        library = ctypes.CDLL(name)
        library.wsd_call.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        library.wsd_client_open_with.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        library.wsd_client_free.argtypes = [ctypes.c_void_p]
        library.wsd_client_free.restype = ctypes.c_void_p
        library.wsd_client_error.argtypes = [ctypes.c_void_p]
        library.wsd_client_error.restype = ctypes.c_char_p
        library.wsd_client_exit.argtypes = [ctypes.c_void_p]
        library.wsd_client_retry_usec.argtypes = [ctypes.c_void_p]
        library.wsd_client_retry_usec.restype = ctypes.c_uint64
    except (OSError, AttributeError):
        return None
    return library


def _watch(raised: List[BaseException]) -> Generator[int, object, None]:
    """What the library asks whether to go on waiting: 0, or 1 after a signal handler has raised.

    Python runs the handlers where this is entered: inside of the try, so that what they raise is kept and not lost in C.
    """
    while True:
        try:
            yield 1 if raised else 0
        except GeneratorExit:
            return
        except BaseException as error:  # pylint: disable=broad-except
            raised.append(error)


class Handle:
    """One connection of the library. One thread at a time."""

    def __init__(self, library: ctypes.CDLL, path: bytes) -> None:
        self.library = library
        self.raised: List[BaseException] = []
        self._watch = _watch(self.raised)
        next(self._watch)
        self._interrupted = INTERRUPTED(self._watch.send)
        self.pointer = ctypes.c_void_p()
        how = Open(size=ctypes.sizeof(Open), socket=path, interrupted=self._interrupted)
        code = library.wsd_client_open_with(ctypes.byref(self.pointer), ctypes.byref(how))
        if code != 0:
            error = self.error(code)
            self.free()
            raise error
        self.room = ctypes.create_string_buffer(ROOM)
        self.request = Request(size=ctypes.sizeof(Request), output=ctypes.addressof(self.room), output_room=ROOM)
        self.result = Result(size=ctypes.sizeof(Result))
        self.name = ''  # that the request has
        # what a call needs, at hand
        self.invoke: Callable[[Any, Any, Any], int] = library.wsd_call
        self.of_request, self.of_result = ctypes.addressof(self.request), ctypes.addressof(self.result)
        self.output = ctypes.addressof(self.room)
        self.handle = self.pointer.value

    def error(self, code: int, result: Optional[Result] = None) -> Error:
        """The exception for a call of the library that failed."""
        if self.raised:
            raise self.raised.pop()
        text = shown(self.library.wsd_client_error(self.pointer) or b'') if self.pointer else 'out of memory'
        number = self.library.wsd_client_exit(self.pointer) if self.pointer else 70
        if code in (-104, -2, -111) and number in (69, 125):  # ECONNRESET, ENOENT, ECONNREFUSED
            return ConnectionLost(text, code=number)
        kind = {64: BadRequest, 66: NotFound, 75: Refused, 77: NotPermitted}.get(number)
        if kind is not None:
            return kind(text, code=number, retry_after=self.library.wsd_client_retry_usec(self.pointer) / 1e6 or None)
        return {124: TimedOut, 125: Interrupted, 130: Cancelled, 76: ProtocolError}.get(number, Error)(text, code=number)

    def free(self) -> None:
        """Ends the connection."""
        pointer, self.pointer = self.pointer, ctypes.c_void_p()
        self.library.wsd_client_free(pointer)
        self._watch.close()


class Native:
    """The handles of a client."""

    def __init__(self, path: str) -> None:
        self._path = os.fsencode(path)
        self._library = load()
        self._idle: List[Handle] = []
        self._closed = False

    @property
    def available(self) -> bool:
        """The library is there."""
        return self._library is not None

    def call(self, function: str, args: Sequence[Argument], data: bytes, timeout_usec: int) -> Optional[bytes]:
        """One call. None: the output is too large for a lane."""
        library = self._library
        assert library is not None
        try:
            handle = self._idle.pop()
        except IndexError:
            handle = Handle(library, self._path)
        request = handle.request
        if handle.name != function:
            request.plugin, name = split_name(function)
            request.function = name or None
            handle.name = function
        if args:
            values = [file_bytes(arg) for arg in args]
            if any(b'\0' in value for value in values):
                self._idle.append(handle)
                raise ValueError('an argument has a NUL')
            request.args = (ctypes.c_char_p * len(values))(*values)
            request.n_args = len(values)
        request.input = data
        request.input_size = len(data)
        request.timeout_usec = timeout_usec
        try:
            code = handle.invoke(handle.handle, handle.of_request, handle.of_result)
        except BaseException:
            handle.free()
            raise
        if args:
            request.args = None
            request.n_args = 0
        result = handle.result
        if handle.raised:
            self._keep(handle)
            raise handle.raised.pop()
        if code == 0:
            if result.exit == 0:
                size = result.output_size
                output = ctypes.string_at(handle.output, size) if size else b''
                self._idle.append(handle)
                if self._closed:
                    self.close()
                return output
            names = split_name(function)
            failure = end_of(JobInfo(id='', plugin=shown(names[0]), function=shown(names[1]), state=state(result.state), exit=result.exit,
                                     error=shown(result.error or b''), status=shown(result.status or b''), run=result.run_usec / 1e6,
                                     cpu=result.cpu_usec / 1e6, attempts=1))
            self._keep(handle)
            assert failure is not None
            raise failure
        if code == -EMSGSIZE:
            self._keep(handle)
            return None
        failure = handle.error(code)
        if code == -104:
            handle.free()
        else:
            self._keep(handle)
        raise failure

    def _keep(self, handle: Handle) -> None:
        """For the next call."""
        self._idle.append(handle)
        if self._closed:
            self.close()

    def close(self) -> None:
        """Frees the handles that no thread uses."""
        self._closed = True
        while self._idle:
            self._idle.pop().free()
