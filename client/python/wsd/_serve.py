# SPDX-License-Identifier: Apache-2.0
"""What `python3 -m wsd run` does in each of its processes: imports the module, and serves its tasks."""
from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, List, Optional

from ._errors import Error
from ._runner import Runner
from ._supervise import EXIT_AGAIN
from ._task import Task, tasks_of

LOOK = 0.5  # seconds between two looks at the files


@dataclass(frozen=True)
class Served:
    """What to serve, and how."""

    target: str  # MODULE[:ATTR]
    name: str
    threads: int = 1
    socket: Optional[str] = None
    reload: bool = False


class Unusable(Exception):
    """There are no tasks. `code`: the exit status. `files`: those that may be at fault."""

    def __init__(self, text: str, code: int, files: Iterable[Optional[str]] = ()) -> None:
        super().__init__(text)
        self.code, self.files = code, files


def load(target: str) -> Any:
    """Imports MODULE[:ATTR]. Raises Unusable; an error of the module itself is printed before."""
    module_name, _, attributes = target.partition(':')
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name + '.').startswith(error.name + '.'):
            traceback.print_exc()
        raise Unusable(f'{module_name}: there is no such module on the path ({error}); is this its directory?', 66) from None
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        traceback.print_exc()
        files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)] + [getattr(error, 'filename', None)]
        raise Unusable(f'{module_name}: the module cannot be imported: {type(error).__name__}', 66, files) from None
    for attribute in attributes.split('.') if attributes else ():
        if not hasattr(found, attribute):
            raise Unusable(f'{target}: {module_name} has no {attribute}', 66)
        found = getattr(found, attribute)
    return found


def tasks_in(target: str) -> List[Task]:
    """The tasks of MODULE[:ATTR]. Raises Unusable."""
    holder = load(target)
    try:
        found = tasks_of(holder)
    except ValueError as error:
        raise Unusable(f'{target}: {error}', 66) from None
    if not found:
        raise Unusable(f'{target}: there is no task; mark functions with @wsd.task', 66)
    return found


class Files:
    """The files of the modules that were imported since this was made, and whether one has changed."""

    def __init__(self) -> None:
        self._before = frozenset(sys.modules)
        self._known: Dict[str, Optional[int]] = {}

    @staticmethod
    def _time_of(path: str) -> Optional[int]:
        try:
            return os.stat(path).st_mtime_ns
        except OSError:
            return None

    def add(self, paths: Iterable[Optional[str]]) -> None:
        """More files to look at."""
        for path in paths:
            if path is not None:
                self._known.setdefault(path, self._time_of(path))

    def changed(self) -> bool:
        """One has, since it was first seen here."""
        for name, module in list(sys.modules.items()):
            path = getattr(module, '__file__', None)
            if name not in self._before and isinstance(path, str):
                self.add((path,))
        return any(self._time_of(path) != known for path, known in self._known.items())


def watch_files(files: Files, on_change: Callable[[], None], stopped: threading.Event) -> None:
    """[thread] Until one has changed, or `stopped`."""
    while not stopped.wait(LOOK):
        if files.changed():
            on_change()
            return


def serve(what: Served, on_ready: Callable[[], None]) -> int:
    """Until SIGTERM, or a change. Returns the exit status."""
    files = Files()
    changed, stopped = threading.Event(), threading.Event()
    try:
        holder = load(what.target)
        tasks_in(what.target)
        runner = Runner(what.name, holder, socket=what.socket, threads=what.threads, may_exit=True, on_ready=on_ready)
    except (Unusable, ValueError) as error:
        print(f'wsd: {error}', file=sys.stderr, flush=True)
        if what.reload:
            files.add(error.files if isinstance(error, Unusable) else ())
            return _wait_for_change(files)
        return error.code if isinstance(error, Unusable) else 64
    if what.reload:
        files.changed()

        def on_change() -> None:
            changed.set()
            runner.leave()
        threading.Thread(target=watch_files, args=(files, on_change, stopped), name='wsd-reload', daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: runner.leave())
    try:
        runner.run()
    except Error as error:
        print(f'wsd: {what.name}: {error.text}', file=sys.stderr, flush=True)
        return error.code
    return EXIT_AGAIN if changed.is_set() else 0


def _wait_for_change(files: Files) -> int:
    """The module cannot be used as it is now."""
    print('wsd: waiting for a change', file=sys.stderr, flush=True)
    while not files.changed():
        time.sleep(LOOK)
    return EXIT_AGAIN
