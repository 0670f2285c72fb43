# SPDX-License-Identifier: Apache-2.0
"""A supervisor: some processes that are alike, each started again when it dies.

Owns its children. The process that it runs in stays small, and imports nothing of theirs: they are forked.
Keeps: a child dies with its supervisor. SIGTERM or SIGINT tells the children to leave in order; a second one kills them.
"""
from __future__ import annotations

import ctypes
import mmap
import os
import signal
import sys
import time
from typing import Callable, Dict, List, Optional, Tuple

EXIT_AGAIN = 72  # of a child that is to be started again at once
FATAL = (64, 66, 76, 77)  # exits of a child that will not go better: before one was ready, the supervisor ends with it
PAUSES = 0.1, 30.0  # seconds before a child is started again: at first, and at most
LONG = 10.0  # seconds after which a child that dies is no reason to wait longer
PR_SET_PDEATHSIG = 1
CHILDREN_MAX = 256
SLOTS = 2 * CHILDREN_MAX
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR1)


class Child:
    """A place for a process, and the process."""

    def __init__(self, number: int, pause: float) -> None:
        self.number, self.pid, self.slot = number, 0, -1
        self.started, self.due, self.pause = 0.0, 0.0, pause


class Supervisor:
    """`work` is called in each child, and returns its exit status. `again`: no exit of a child is fatal.

    It is called with a number below SLOTS, which no other child has, nor had the child that died last.
    `look` is called in the supervisor every `period` seconds, when a child is ready, and on SIGUSR1.
    """

    def __init__(self, n: int, work: Callable[[int], int], *, again: bool = False, look: Optional[Callable[[], None]] = None,
                 period: Optional[float] = None, pauses: Tuple[float, float] = PAUSES) -> None:
        self._work, self._again, self._pauses = work, again, pauses
        self._look, self._period = look, period
        self._ready = mmap.mmap(-1, SLOTS + 1)  # shared: 1 for each slot whose child is ready; behind them, if one ever was
        self._children: List[Child] = []
        self._pid = 0  # of the supervisor
        self._slot = -1  # the last that was given; in a child, its own
        self._leaving = 0  # signals that said so
        self._status = 0
        self.grow(n)

    def ready(self) -> None:
        """[a child] It works."""
        self._ready[SLOTS] = 1
        if not self._ready[self._slot]:
            self._ready[self._slot] = 1
            os.kill(self._pid, signal.SIGUSR1)

    def grow(self, n: int) -> None:
        """From now on there are so many children, or as many as there were."""
        self._children += [Child(number, self._pauses[0]) for number in range(len(self._children), n)]

    @property
    def size(self) -> int:
        """The number of children that there are to be."""
        return len(self._children)

    @property
    def was_ready(self) -> bool:
        """Whether one of them ever was ready."""
        return bool(self._ready[SLOTS])

    def slots(self) -> List[int]:
        """Those of the children that live."""
        return [child.slot for child in self._children if child.pid]

    def ready_slots(self) -> List[int]:
        """Those of the children that live and are ready."""
        return [slot for slot in self.slots() if self._ready[slot]]

    def leave(self) -> None:
        """As SIGTERM."""
        self._leaving += 1
        for child in self._children:
            if child.pid:
                os.kill(child.pid, signal.SIGKILL if self._leaving > 1 else signal.SIGTERM)

    def run(self) -> int:
        """Until all children have left. Returns the exit status."""
        self._pid = os.getpid()
        old = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        self._mask = old
        handlers = {number: signal.signal(number, lambda *_: None) for number in SIGNALS}  # a signal that is ignored does not come
        try:
            while True:
                self._start_due()
                if self._leaving and not any(child.pid for child in self._children):
                    return self._status
                found = signal.sigtimedwait(SIGNALS, self._time_left())
                if found is not None and found.si_signo in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                    self.leave()
                elif self._look is not None and not self._leaving and (found is None or found.si_signo == signal.SIGUSR1):
                    self._look()
                self._reap()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, old)  # first, since a child that has left may have sent SIGUSR1
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _time_left(self) -> float:
        now = time.monotonic()
        dues = [child.due - now for child in self._children if not child.pid] if not self._leaving else []
        return max(0.0, min([self._period or 3600.0, *dues]))

    def _start_due(self) -> None:
        now = time.monotonic()
        for child in self._children:
            if not child.pid and not self._leaving and child.due <= now:
                self._start(child)

    def _next_slot(self) -> int:
        taken = {child.slot for child in self._children if child.pid}
        while True:
            self._slot = (self._slot + 1) % SLOTS
            if self._slot not in taken:
                return self._slot

    def _start(self, child: Child) -> None:
        child.started = time.monotonic()
        child.slot = self._next_slot()
        self._ready[child.slot] = 0
        sys.stdout.flush()
        sys.stderr.flush()
        child.pid = os.fork()
        if child.pid:
            return
        status = 70
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, it comes to the supervisor, too, which says what to do
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR1):
                signal.signal(number, signal.SIG_DFL)
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
            if os.getppid() == self._pid:
                status = self._work(child.slot)
        except SystemExit as left:
            status = left.code if isinstance(left.code, int) else 70
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(status)

    def _reap(self) -> None:
        by_pid: Dict[int, Child] = {child.pid: child for child in self._children if child.pid}
        while by_pid:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if (child := by_pid.pop(pid, None)) is not None:
                child.pid = 0
                self._died(child, os.waitstatus_to_exitcode(status))

    def _died(self, child: Child, code: int) -> None:
        now = time.monotonic()
        if self._leaving:
            return
        if code in FATAL and not self._again and not self._ready[SLOTS]:
            self._status = code
            self.leave()
            return
        if now - child.started > LONG:
            child.pause = self._pauses[0]
        child.due = now + (0.0 if code == EXIT_AGAIN else child.pause)
        if code != EXIT_AGAIN:
            child.pause = min(2 * child.pause, self._pauses[1])
        if code < 0:
            print(f'wsd: process {child.number} was killed by {signal.Signals(-code).name}; starting it again', file=sys.stderr, flush=True)
