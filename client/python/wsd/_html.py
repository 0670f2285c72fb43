# SPDX-License-Identifier: Apache-2.0
"""What a notebook shows of a job or a client. Everything that wsd or a job said is escaped."""
from __future__ import annotations

import html
from typing import TYPE_CHECKING, Iterable, Optional, Tuple

if TYPE_CHECKING:
    from ._types import JobInfo

COLOURS = {'succeeded': '#2e7d32', 'failed': '#c62828', 'crashed': '#c62828', 'timed-out': '#ef6c00', 'cancelled': '#757575',
           'interrupted': '#ef6c00', 'running': '#1565c0'}


def _text(value: object) -> str:
    return html.escape(str(value).encode('utf-8', 'replace').decode())


def bar(done: int, total: int) -> str:
    """A progress bar, or nothing if there is no progress."""
    if total <= 0:
        return f'{done}' if done else ''
    return f'<progress value="{min(done, total)}" max="{total}"></progress> {done}/{total}'


def table(title: str, rows: Iterable[Tuple[str, str]]) -> str:
    """Rows of a name and HTML; those without HTML are left out."""
    lines = ''.join(f'<tr><th style="text-align:left">{_text(name)}</th><td style="text-align:left">{value}</td></tr>'
                    for name, value in rows if value)
    return f'<table><caption style="text-align:left">{title}</caption>{lines}</table>'


def job(info: JobInfo, known: Optional[str] = None) -> str:
    """A job: its state in colour, progress, times, and why it failed."""
    label = known or (info.state.label if info.state else 'submitted')
    title = f'<b>wsd job</b> <span style="color:{COLOURS.get(label, "#555")}">&#9679; {_text(label)}</span>'
    name = info.plugin + (f':{info.function}' if info.function else '')
    return table(title, (
        ('function', _text(name)), ('id', f'<code>{_text(info.id)}</code>' if info.id else ''), ('progress', bar(info.done, info.total)),
        ('waited', f'{info.queued:.6f} s' if info.queued else ''), ('ran', f'{info.run:.6f} s' if info.run else ''),
        ('worker', _text(info.worker)), ('error', _text(info.error)), ('status', _text(info.status)),
        ('backtrace', f'<pre>{_text(info.backtrace)}</pre>' if info.backtrace else '')))


def client(path: str, program: str, state: str, open_calls: int) -> str:
    """A client: where it is connected to, and what is under way."""
    return table('<b>wsd client</b>', (('socket', f'<code>{_text(path)}</code>'), ('daemon', _text(program)), ('state', _text(state)),
                                       ('open calls', str(open_calls))))
