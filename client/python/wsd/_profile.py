# SPDX-License-Identifier: Apache-2.0
"""Profiles: folded stacks as executors write them, read and checked.

Owns the stacks of one profile. Knows nothing of connections.
Keeps: an executor runs foreign code, and may write anything. What is no stack is counted and left out, and what is kept
is bounded.
"""
from __future__ import annotations

import re
from typing import Any, Dict, List, NamedTuple, Tuple

from . import _wire
from ._protocol import Core, FEATURE_PROFILE, Question, wants
from ._types import split_name, whole

LINE_MAX = 262144  # bytes of a line
FRAMES_MAX = 512  # of a stack, with its subject
STACKS_MAX = 1_000_000  # different ones
COUNT_MAX = 1 << 33  # samples in all
RATE_MAX = 999

LINE = re.compile(rb'([\x20-\x7e]+) ([0-9]{1,10})')
START, STOP = 1, 3  # actions of a Trace
OF_PROFILE = 1  # kind of one

Stack = Tuple[str, ...]


class FunctionSamples(NamedTuple):
    """One function in a profile. Since 0.1."""

    name: str
    own: int  #: samples in it
    total: int  #: samples in it, or in what it called


class Profile:
    """Where jobs have spent CPU time, by samples of the stacks of all workers. Empty until `client.profile()` is left.

    `stacks` has each stack and its number of samples: (PLUGIN:FUNCTION, FRAME, FRAME...), the outermost frame first. Frames
    in brackets are no functions, such as `[stolen]`: wsctl(1) says what they mean. The names are those of the symbol table.
    Since 0.1.
    """

    def __init__(self, rate: int) -> None:
        self.rate = rate  #: samples in a second of a worker's CPU time
        self.stacks: Dict[Stack, int] = {}
        self.samples = 0  #: of all stacks
        self.lost = 0  #: samples that found no room: profile for a shorter time, or at a lower rate
        self.bad = 0  #: lines of executors that were no stacks
        self.errors: List[int] = []  #: errno of each executor whose samples are missing, or cut off

    def functions(self) -> List[FunctionSamples]:
        """The functions, those with most samples of their own first. Since 0.1."""
        own: Dict[str, int] = {}
        total: Dict[str, int] = {}
        for stack, n in self.stacks.items():
            for name in set(stack[1:]):
                total[name] = total.get(name, 0) + n
            if len(stack) > 1:
                own[stack[-1]] = own.get(stack[-1], 0) + n
        found = [FunctionSamples(name, own.get(name, 0), n) for name, n in total.items()]
        return sorted(found, key=lambda one: (-one.own, -one.total, one.name))

    def folded(self) -> str:
        """A line for each stack, as flamegraph.pl and other programs take it. Since 0.1."""
        return ''.join(f'{";".join(stack)} {n}\n' for stack, n in sorted(self.stacks.items()))

    def __repr__(self) -> str:
        return f'<wsd.Profile: {self.samples} samples, {len(self.stacks)} stacks>'


def _is_of(subject: str, name: str) -> bool:
    return not name or subject == name or subject.startswith(name + ':')


class ProfileCall(Question):
    """The TRACE that ends a profile, and delivers it."""

    def __init__(self, name: str, rate: int) -> None:
        super().__init__((), False)
        if name:
            split_name(name)
        self.name, self.profile = name, Profile(whole(rate, 'rate', 1, RATE_MAX))
        self._rest = b''  # of a line
        self._skips = False  # the line is too long

    def starts(self, core: Core) -> Dict[str, Any]:
        """The fields of the Trace that begins it."""
        wants(core, FEATURE_PROFILE, 'makes no profiles')
        return {'action': START, 'kind': OF_PROFILE, 'rate': self.profile.rate}

    STOPS = {'action': STOP, 'kind': OF_PROFILE}

    def _frame(self, core: Core, kind: int, header: bytes, body: bytes) -> None:
        if kind == _wire.EXECUTOR:
            self._break()
            m = _wire.decode('Executor', header)
            self.profile.lost += m['lost']
            if m['error']:
                self.profile.errors.append(m['error'])
        elif kind == _wire.PIECE:
            self._add(body)
        else:
            self._break()
            Question._frame(self, core, kind, header, body)

    def _break(self) -> None:
        """What comes next is another executor's."""
        self._rest, self._skips = b'', False

    def _add(self, data: bytes) -> None:
        lines = (self._rest + data).split(b'\n')
        self._rest = lines.pop()
        for line in lines:
            if not self._skips:
                self._add_line(line)
            self._skips = False
        if len(self._rest) > LINE_MAX:
            self.profile.bad += not self._skips
            self._rest, self._skips = b'', True

    def _add_line(self, line: bytes) -> None:
        p = self.profile
        found = LINE.fullmatch(line) if len(line) <= LINE_MAX else None
        stack = tuple(found[1].decode().split(';')) if found else ()
        n = int(found[2]) if found else 0
        good = 0 < n <= COUNT_MAX - p.samples and len(stack) <= FRAMES_MAX and all(stack)
        if good and not _is_of(stack[0], self.name):
            return
        if not good or (stack not in p.stacks and len(p.stacks) == STACKS_MAX):
            p.bad += 1
            return
        p.stacks[stack] = p.stacks.get(stack, 0) + n
        p.samples += n


__all__ = ['FunctionSamples', 'Profile', 'ProfileCall']
