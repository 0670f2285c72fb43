# SPDX-License-Identifier: Apache-2.0
"""Memory that jobs are given without a copy."""
from __future__ import annotations

import fcntl
import mmap
import os
from types import TracebackType
from typing import Optional, Type


def is_sealed(descriptor: int) -> bool:
    """Whether nobody can cut the file, so that a mapping of it cannot fail later."""
    try:
        return bool(fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK)
    except OSError:  # no memory file
        return False


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
