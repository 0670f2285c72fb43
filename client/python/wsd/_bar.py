# SPDX-License-Identifier: Apache-2.0
"""A progress bar: one line of plain text on stderr, if that is a terminal."""
from __future__ import annotations

import shutil
import sys
import time
from typing import Optional

PERIOD = 0.1  # seconds between two pictures


class Bar:
    """Of so many steps; None: their number is not known."""

    def __init__(self, name: str, total: Optional[int]) -> None:
        self.name, self.total = name, total
        self.begun = self.shown_at = time.monotonic()
        self.done = 0
        self.on = sys.stderr is not None and sys.stderr.isatty()
        self.drawn = False

    def moved(self, done: int) -> None:
        """So many are done now."""
        self.done = done
        now = time.monotonic()
        if self.on and (now - self.shown_at >= PERIOD or done == self.total):
            self.shown_at = now
            self.draw(now)

    def line(self, now: float, width: int) -> str:
        """The picture, at most as wide as that."""
        spent = max(now - self.begun, 1e-6)
        rate = self.done / spent
        end = f'{self.done}'
        if self.total:
            left = (self.total - self.done) / rate if rate else 0.0
            end = f'{self.done}/{self.total} {rate:,.0f}/s {left:.0f} s left'
            share = min(self.done / self.total, 1.0)
            start = f'{self.name} {share:4.0%} '
            room = width - len(start) - len(end) - 4
            if room >= 10:
                full = int(room * share)
                return f'{start}[{"#" * full}{"." * (room - full)}] {end}'
            return (start + end)[:width]
        return f'{self.name} {end} {rate:,.0f}/s'[:width]

    def draw(self, now: float) -> None:
        """Draws it anew over itself."""
        sys.stderr.write('\r\x1b[K' + self.line(now, shutil.get_terminal_size().columns - 1))
        sys.stderr.flush()
        self.drawn = True

    def close(self) -> None:
        """The last picture stays."""
        if self.drawn:
            self.draw(time.monotonic())
            sys.stderr.write('\n')
            sys.stderr.flush()
            self.drawn = False
