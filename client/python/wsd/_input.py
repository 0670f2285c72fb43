# SPDX-License-Identifier: Apache-2.0
"""What may be the input of a job and where its output may go, and how that goes to wsd."""
from __future__ import annotations

import io
import os
import stat
from typing import Any, BinaryIO, Iterable, Iterator, Optional, Union

from ._memory import Memory

BytesLike = Any  # an object with the buffer protocol; Python 3.11 has no type for it
Input = Union[BytesLike, Memory, 'os.PathLike[str]', BinaryIO, Iterable[BytesLike]]
"""Bytes or any other object with the buffer protocol; a Memory; a path; a binary file; an iterable of bytes. Since 0.1."""

Output = Union[int, BinaryIO]
"""A descriptor, or a binary file: a regular file or a pipe, open for writing. Since 0.1."""

PIECE = 60 << 10


class FilePart:
    """A part of a regular file: wsd gets the descriptor and not the bytes. Owns the descriptor."""

    def __init__(self, descriptor: int, offset: int, size: int) -> None:
        self.descriptor, self.offset, self.size = descriptor, offset, size


def view(data: BytesLike) -> memoryview:
    """The bytes of an object, where they lie. TypeError: it has none. BufferError: they are not in one row."""
    found = memoryview(data)
    if not found.c_contiguous:
        raise BufferError('input: the bytes are not in one row; make a copy')
    return found.cast('B') if found.nbytes else memoryview(b'')


def _file_part(descriptor: int, offset: int) -> Union[FilePart, None]:
    """Of an open file, from an offset to its end. None if it is not regular, or empty there. Copies the descriptor."""
    status = os.fstat(descriptor)
    size = status.st_size - offset
    if not stat.S_ISREG(status.st_mode) or size <= 0:
        return None
    return FilePart(os.dup(descriptor), offset, size)


def resolve(given: Input, files: bool) -> Union[bytes, memoryview, FilePart, Iterator[BytesLike]]:
    """What to send. files: descriptors may be sent."""
    if type(given) is bytes:
        return given
    if isinstance(given, Memory):
        if given.descriptor < 0:
            raise ValueError('input: the Memory is closed')
        return FilePart(os.dup(given.descriptor), 0, len(given)) if files else given.view
    if isinstance(given, str):
        raise TypeError('input: bytes are wanted, not str; a path is a pathlib.Path')
    try:
        data = view(given)
    except TypeError:
        pass
    else:
        return data
    if isinstance(given, os.PathLike):
        with open(given, 'rb') as file:
            part = _file_part(file.fileno(), 0) if files else None
            return part if part is not None else file.read()
    if isinstance(given, io.BytesIO):
        return given.getbuffer()[given.tell():]
    if hasattr(given, 'read'):
        file_like: Any = given
        try:
            part = _file_part(file_like.fileno(), file_like.tell()) if files else None
        except (OSError, ValueError, AttributeError):
            part = None
        return part if part is not None else _read(file_like)
    if hasattr(given, '__iter__'):
        return iter(given)
    raise TypeError(f'input: not bytes, a path, a binary file or an iterable: {type(given).__name__}')


def copy_of(output: Output) -> int:
    """A descriptor for the same open file. What the file object has not written yet is written first."""
    if isinstance(output, int):
        return os.dup(output)
    output.flush()
    return os.dup(output.fileno())


def _read(file: Any) -> Iterator[bytes]:
    read = getattr(file, 'read1', file.read)
    while data := read(PIECE):
        yield data


def at_hand(given: Input, most: int) -> Optional[bytes]:
    """A copy of an input that is in memory, and of at most so many bytes; None for any other."""
    try:
        found = view(given.view if isinstance(given, Memory) else given)
    except TypeError:
        return None
    return bytes(found) if found.nbytes <= most else None


def repeatable(given: Input) -> bool:
    """Whether an input can be sent a second time."""
    found = resolve(given, True)
    if isinstance(found, FilePart):
        os.close(found.descriptor)
    return isinstance(found, (bytes, memoryview, FilePart))
