# SPDX-License-Identifier: Apache-2.0
"""Memory that jobs are given without a copy, and the mappings of it that a runner keeps."""
from __future__ import annotations

import fcntl
import mmap
import os
import threading
import time
from types import TracebackType
from typing import Dict, Optional, Tuple, Type

KEPT_MAX = 8  # mappings that a runner keeps
KEPT_BYTES = 1 << 30  # of all of them together
KEPT_FOR = 1.0  # seconds since the last job that used it


def is_sealed(descriptor: int) -> bool:
    """Whether nobody can cut the file, so that a mapping of it cannot fail later."""
    try:
        return bool(fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK)
    except OSError:  # no memory file
        return False


def map_part(descriptor: int, start: int, size: int) -> mmap.mmap:
    """A part of a file, to be read. `start` is a multiple of mmap.ALLOCATIONGRANULARITY."""
    return mmap.mmap(descriptor, size, mmap.MAP_SHARED | mmap.MAP_POPULATE, mmap.PROT_READ, offset=start)


Key = Tuple[int, int, int, int, int]  # user, device and inode of the file, start, size


class Mappings:
    """Mapped parts of sealed files. A part that is asked for again is kept mapped, since mapping costs about half as
    much as reading it once. Any thread may use it.

    Keeps: a kept mapping holds its inode, so no other file can have that number meanwhile. Users share nothing.
    Letting go of a mapping does not unmap it where a task still has a view.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # When it was used, and None if that was once. Least recently used first.
        self._known: Dict[Key, Tuple[float, Optional[mmap.mmap]]] = {}

    def map(self, user: int, descriptor: int, start: int, size: int) -> mmap.mmap:
        """A part of the file of a descriptor, as map_part(). Requires that is_sealed() holds."""
        file = os.fstat(descriptor)
        key = user, file.st_dev, file.st_ino, start, size
        known = self._known.get(key)
        found = known[1] if known is not None else None
        if found is None:
            found = map_part(descriptor, start, size)
        with self._lock:
            self._known.pop(key, None)
            self._known[key] = time.monotonic(), found if known is not None and size <= KEPT_BYTES else None
            while len(self._known) > KEPT_MAX or self.kept_bytes() > KEPT_BYTES:
                del self._known[next(iter(self._known))]
        return found

    def kept_bytes(self) -> int:
        """[lock] Of all mappings."""
        return sum(len(one) for _, one in self._known.values() if one is not None)

    def let_go(self) -> Optional[float]:
        """Lets go of what was not used for KEPT_FOR. Returns the seconds until there is more; None: nothing is kept."""
        if not self._known:
            return None
        until = time.monotonic() - KEPT_FOR
        with self._lock:
            while self._known:
                key, (used, _) = next(iter(self._known.items()))
                if used > until:
                    return used - until
                del self._known[key]
        return None


class Memory:
    """Memory of a given size, in bytes, all zeros at first. As the input of a job it goes to wsd as a descriptor: neither
    this process nor wsd copies it, however large it is. A task in Python reads it in place, by `buffer`.

    Put data there by `view`, a writable memoryview, or let numpy work there:

        memory = wsd.Memory(8 * 1_000_000)
        numbers = numpy.frombuffer(memory.view)

    A job sees what is there while it runs, so leave it as it is until the job has ended. It is freed when it is not used
    any more; close() and `with` give it back at once, as far as no view is left. Since 0.1.
    """

    def __init__(self, size: int) -> None:
        if size <= 0:
            raise ValueError('Memory: the size must be at least 1')
        self.descriptor = os.memfd_create('wsd-memory', os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.descriptor, size)
            fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
            self.view = memoryview(mmap.mmap(self.descriptor, size))
        except BaseException:
            os.close(self.descriptor)
            self.descriptor = -1
            raise

    def __len__(self) -> int:
        return self.view.nbytes

    def close(self) -> None:
        """Gives the memory back. Jobs that have it keep it. Idempotent. Since 0.1."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
            self.view.release()

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def __del__(self) -> None:
        descriptor = getattr(self, 'descriptor', -1)
        if descriptor >= 0:
            os.close(descriptor)
            self.descriptor = -1

    def __repr__(self) -> str:
        return f'<wsd.Memory of {len(self)} bytes>' if self.descriptor >= 0 else '<wsd.Memory, closed>'
