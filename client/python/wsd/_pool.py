# SPDX-License-Identifier: Apache-2.0
"""The pool behind wsd.Executor: runner processes that call ordinary functions, for all programs of a user.

A pool is known by its key: the interpreter, its flags, the import path, and wsd's socket. Its supervisor holds a lock on
the file of the key for as long as it takes jobs, so there is one. The first program that wants the pool starts it. It
leaves in order when it had nothing to do for some time: it lets go of the lock first, so that a program which then sees
the lock free starts another one. Until that is there, jobs wait in wsd.

A job is a *bundle* of calls. Its worker writes the results into a journal, memory that all processes of the pool share. If
the worker dies, another one tells what the journal has: so only the call that ran is lost.
"""
from __future__ import annotations

import array
import fcntl
import hashlib
import io
import json
import mmap
import os
import pickle
import signal
import stat
import struct
import subprocess
import sys
import time
import traceback
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, cast

from ._errors import Error
from ._runner import Runner
from ._supervise import SLOTS, Supervisor
from ._task import Task, TaskJob

PROTOCOL = 5  # of pickle
PROCESSES_MAX = 64
PAUSES = 0.005, 0.1  # seconds before a worker is started again: it died of a call, and the next one may be all right

# A bundle: this, what `extra` bytes say of the main module, the sizes of the pickles, the pickles.
HEAD = struct.Struct('<HHII')  # kind, 0, number of calls, size of extra
ALONE = struct.Struct('<HHIII')  # what is before the pickle of the only call, without `extra`: the same, and its size
CALLS, MAP = 0, 1  # kinds: a pickle (function, args, keywords) for each; or one of (function, [args, ...])
SIZE = struct.Struct('<I')  # before the pickle of each result
END = struct.Struct('<Q')  # behind them: nanoseconds that all calls took

# The journal: a header for each slot, then the results.
NOTE = struct.Struct('=16sIIIId')  # job, results before, results here, bytes of them, 1 if calls run, when that was so
NOTE_SIZE = 64
COUNTS = struct.Struct('=III')  # of a note: results before, results here, bytes of them
COUNTS_AT = 16
BUSY = struct.Struct('=Id')  # of a note: 1 if calls run, when that was so
BUSY_AT = COUNTS_AT + COUNTS.size
JOURNAL = 128 << 10  # bytes of results of a slot; more is sent
LOADING = 0xffffffff  # results here: no call has begun. Results before: the worker has not even begun to read the job
BEGIN = 20.0  # seconds for the first process of a pool to begin, at most, before the pool counts as idle
MARGIN = 1.0  # seconds; a job that was sent so long after this pool began went to no pool that was there before
FOUND = struct.Struct('<II')  # answer of `journal`: results before, results here; then the results


class Raised:
    """An exception of a call, in place of its result."""

    def __init__(self, exception: BaseException) -> None:
        where = exception.__traceback__
        self.text = ''.join(traceback.format_exception(type(exception), exception, where and where.tb_next))  # without the worker
        self.exception = exception
        exception.__traceback__ = None

    def rebuilt(self) -> BaseException:
        """The exception, whose cause shows the remote traceback."""
        from concurrent.futures.process import _RemoteTraceback
        self.exception.__cause__ = _RemoteTraceback(f'\n"""\n{self.text}"""')  # type: ignore[arg-type]
        return self.exception


def dumps(value: Any) -> bytes:
    """By pickle, or by cloudpickle if that is there and pickle cannot."""
    try:
        return pickle.dumps(value, PROTOCOL)
    except Exception:
        cloud = cloudpickle()
        if cloud is None:
            raise
        return cast(bytes, cloud.dumps(value, PROTOCOL))


_cloud: List[Any] = []


def cloudpickle() -> Any:
    """The module, or None."""
    if not _cloud:
        try:
            import cloudpickle as found  # type: ignore[import]
        except ImportError:
            found = None
        _cloud.append(found)
    return _cloud[0]


# --- the main module of the program -----------------------------------------------------------------------------------

importing_main = False  # this process imports one now


def main_of_program() -> Optional[Tuple[str, str, int]]:
    """How to import this program's main module once more: kind, name or path, time of its file. None: there is no way."""
    main = sys.modules['__main__']
    name = getattr(getattr(main, '__spec__', None), 'name', None)
    path = getattr(main, '__file__', None)
    if path is not None:
        path = os.path.abspath(path)
    try:
        changed = os.stat(path).st_mtime_ns if path is not None else 0
    except OSError:
        return None
    if name is not None:
        return None if name == '__main__' or name.endswith('.__main__') else ('name', name, changed)
    return ('path', path, changed) if path is not None else None


_mains: Dict[Tuple[str, str, int], Any] = {}
MAINS_MAX = 16


def become(main: Tuple[str, str, int]) -> None:
    """Makes a program's main module that of this process, as multiprocessing does: under the name __mp_main__."""
    global importing_main
    found = _mains.get(main)
    if found is None:
        import runpy
        import types
        kind, name, _ = main
        importing_main = True
        try:
            content = (runpy.run_module(name, run_name='__mp_main__', alter_sys=True) if kind == 'name'
                       else runpy.run_path(name, run_name='__mp_main__'))
        finally:
            importing_main = False
        found = types.ModuleType('__mp_main__')
        found.__dict__.update(content)
        if len(_mains) >= MAINS_MAX:
            del _mains[next(iter(_mains))]
        _mains[main] = found
    sys.modules['__main__'] = sys.modules['__mp_main__'] = found


# --- the worker -------------------------------------------------------------------------------------------------------

class Said(io.TextIOBase):
    """stdout or stderr of calls: lines that their program prints."""

    def __init__(self, worker: Worker, level: int, below: Any) -> None:
        self._worker, self._level, self._below, self._line = worker, level, below, ''

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return cast(int, self._below.fileno())

    def write(self, text: str) -> int:
        job = self._worker.job
        if job is None:
            self._below.write(text)
            return len(text)
        *lines, self._line = (self._line + text).split('\n')
        for line in lines:
            job.log(line, self._level)
        return len(text)

    def flush(self) -> None:
        if self._worker.job is None:
            self._below.flush()

    def end(self) -> None:
        """The job ends: so does its last line."""
        if self._line and self._worker.job is not None:
            self._worker.job.log(self._line, self._level)
            self._line = ''


LEVEL_OUT, LEVEL_ERR = 6, 4


class Worker:
    """The tasks of a worker of the pool."""

    def __init__(self, memory: mmap.mmap, slot: int, began: float) -> None:
        self._memory, self._began = memory, began
        self._note = slot * NOTE_SIZE
        self._results = SLOTS * NOTE_SIZE + slot * JOURNAL
        self._directory = b''
        self.job: Optional[TaskJob] = None
        self._said = [Said(self, LEVEL_OUT, sys.stdout), Said(self, LEVEL_ERR, sys.stderr)]
        sys.stdout, sys.stderr = self._said  # type: ignore[assignment]
        NOTE.pack_into(memory, self._note, b'', 0, 0, 0, 0, time.monotonic())

    def tasks(self) -> Dict[str, Callable[..., Any]]:
        """What it offers."""
        found: Dict[str, Callable[..., Any]] = {}
        for name, function, idempotent in (('call', self.call, False), ('again', self.call, True), ('journal', self.journal, True),
                                           ('size', self.size, True)):
            def one(job: TaskJob, function: Callable[[TaskJob], Any] = function) -> Any:
                return function(job)
            setattr(one, '__wsd_task__', Task(name, one, idempotent))
            found[name] = one
        return found

    def call(self, job: TaskJob) -> Any:
        """Runs a bundle."""
        data = job.buffer
        kind, _, count, extra = HEAD.unpack_from(data)
        began = time.monotonic()
        NOTE.pack_into(self._memory, self._note, job._m['id'], 0, LOADING if kind == MAP else 0, 0, 1, began)
        self.job = job
        try:
            if job._m['directory'] != self._directory:
                self._change_directory(job._m['directory'])
            rest = self._map(job, data, count, extra) if kind == MAP else self._calls(job, data, count, extra)
            for said in self._said:
                if said._line:
                    said.end()
            return rest + END.pack(int((time.monotonic() - began) * 1e9))
        finally:
            self.job = None
            BUSY.pack_into(self._memory, self._note + BUSY_AT, 0, time.monotonic())  # the results stay: their end may not get to wsd

    def _change_directory(self, directory: bytes) -> None:
        try:
            if directory:
                os.chdir(directory)
            self._directory = directory
        except OSError:
            pass  # it is gone: calls with relative paths fail by themselves

    @staticmethod
    def _record(value: Any) -> bytes:
        try:
            data = dumps(value)
        except BaseException as error:
            return Worker._raised(error)
        return SIZE.pack(len(data)) + data

    @staticmethod
    def _raised(error: BaseException) -> bytes:
        """The record of an exception."""
        found = Raised(error)
        try:
            data = dumps(found)
            pickle.loads(data)
        except BaseException as unpicklable:
            found.exception = RuntimeError(f'{type(error).__name__}: {error} (which cannot be pickled: {unpicklable!r})')
            data = dumps(found)
        return SIZE.pack(len(data)) + data

    def _only_call(self, data: memoryview) -> bytes:
        """Of a bundle of one, whose result goes at once."""
        try:
            function, args, keywords = pickle.loads(data)
            found = dumps(function(*args, **keywords))
            return SIZE.pack(len(found)) + found
        except BaseException as error:
            return self._raised(error)

    def _calls(self, job: TaskJob, data: memoryview, count: int, extra: int) -> bytes:
        if count == 1 and not extra:
            return self._only_call(data[ALONE.size:])
        at = HEAD.size + extra
        sizes = array.array('I', data[at:at + 4 * count].tobytes())
        start = at + 4 * count
        journal = Journal(self, job)
        for size in sizes:
            try:
                if extra:
                    become(pickle.loads(data[HEAD.size:at]))
                    extra = 0
                function, args, keywords = pickle.loads(data[start:start + size])
                record = self._record(function(*args, **keywords))
            except BaseException as error:
                record = self._raised(error)
            function = args = keywords = None
            start += size
            if count == 1:
                return record
            journal.add(record)
            if job._stopped:
                break
        return journal.rest()

    def _map(self, job: TaskJob, data: memoryview, count: int, extra: int) -> bytes:
        at = HEAD.size + extra
        try:
            if extra:
                become(pickle.loads(data[HEAD.size:at]))
            function, many = pickle.loads(data[at + 4:])
        except BaseException as error:
            return self._raised(error)  # one record in place of all
        journal = Journal(self, job)
        many.reverse()
        while many:
            try:
                record = self._record(function(*many.pop()))
            except BaseException as error:
                record = self._raised(error)
            journal.add(record)
            if job._stopped:
                break
        return journal.rest()

    def journal(self, job: TaskJob) -> bytes:
        """What the journal has of another job, whose worker has died. Arguments: its id, and when it was sent.

        Empty: it is not known, since another pool may have had it.
        """
        wanted = bytes.fromhex(job.args[0])
        notes = [(slot, *NOTE.unpack_from(self._memory, slot * NOTE_SIZE)) for slot in range(SLOTS)]
        known = [note for note in notes if note[1] == wanted]
        if not known:
            return FOUND.pack(LOADING, LOADING) if float(job.args[1]) > self._began + MARGIN else b''
        slot, _, before, here, size, _, _ = max(known, key=lambda note: float(note[6]))  # of several attempts, the last
        start = SLOTS * NOTE_SIZE + slot * JOURNAL
        return FOUND.pack(before, here) + self._memory[start:start + size]

    def size(self, job: TaskJob) -> None:
        """There are to be so many processes, or as many as there are."""
        at = SLOTS * (NOTE_SIZE + JOURNAL)
        wanted = min(int(job.args[0]), PROCESSES_MAX)
        if wanted > SIZE.unpack_from(self._memory, at)[0]:
            SIZE.pack_into(self._memory, at, wanted)
            os.kill(os.getppid(), signal.SIGUSR1)


class Journal:
    """The results of a bundle as they come. They are in the memory of the pool until they are sent."""

    def __init__(self, worker: Worker, job: TaskJob) -> None:
        self._memory, self._counts, self._start = worker._memory, worker._note + COUNTS_AT, worker._results
        self._job = job
        self._before = self._here = 0
        self._at = self._start
        COUNTS.pack_into(self._memory, self._counts, 0, 0, 0)

    def add(self, record: bytes) -> None:
        """One more result."""
        end = self._at + len(record)
        if end - self._start > JOURNAL:
            self._send(record)
            return
        self._memory[self._at:end] = record
        self._at = end
        self._here += 1
        COUNTS.pack_into(self._memory, self._counts, self._before, self._here, end - self._start)

    def _send(self, record: bytes) -> None:
        self._job.write(self._memory[self._start:self._at] + record)
        self._before += self._here + 1
        self._here, self._at = 0, self._start
        COUNTS.pack_into(self._memory, self._counts, self._before, 0, 0)

    def rest(self) -> bytes:
        """What was not sent."""
        return self._memory[self._start:self._at]


# --- the supervisor ---------------------------------------------------------------------------------------------------

class Spec(NamedTuple):
    """A pool."""

    name: str  # of its runner
    directory: str  # of its lock and its log
    socket: str
    path: List[str]  # sys.path
    package: str  # directory of this package
    processes: int
    idle: float

    @property
    def lock(self) -> str:
        """The file that its supervisor has locked."""
        return os.path.join(self.directory, self.name + '.lock')

    @property
    def log(self) -> str:
        """What its processes print."""
        return os.path.join(self.directory, self.name + '.log')


def runtime_directory() -> str:
    """Where locks are: of this user, and nobody else may enter it. Raises Error."""
    runtime = os.environ.get('XDG_RUNTIME_DIR')
    path = os.path.join(runtime, 'wsd-python') if runtime and os.path.isdir(runtime) else f'/tmp/wsd-{os.getuid()}'
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise Error(f'{path}: {error.strerror}; set XDG_RUNTIME_DIR to a directory of yours', code=74) from None
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise Error(f'{path}: it is not a directory of yours that nobody else may enter (chmod 700), as the pool needs', code=77)
    return path


def flags() -> List[str]:
    """Those of this interpreter."""
    found: List[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return found


def spec(socket: str, processes: int, idle: float) -> Spec:
    """The pool of this program. `processes` and `idle` are no part of its key. Raises Error."""
    path = [os.path.abspath(one) for one in sys.path]
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    socket = os.path.abspath(socket)
    key = json.dumps([sys.executable, sys.prefix, sys.version, flags(), path, package, socket])
    name = 'py-' + hashlib.sha256(key.encode('utf-8', 'surrogateescape')).hexdigest()[:16]
    return Spec(name, runtime_directory(), socket, path, package, min(max(processes, 1), PROCESSES_MAX), idle)


LOCK = struct.Struct('hhqqi')  # struct flock


def is_there(pool: Spec) -> bool:
    """Whether a supervisor holds the lock. Takes none, so that this is in nobody's way."""
    try:
        descriptor = os.open(pool.lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        found = fcntl.fcntl(descriptor, fcntl.F_GETLK, LOCK.pack(fcntl.F_WRLCK, 0, 0, 0, 0))
        return bool(LOCK.unpack(found)[0] != fcntl.F_UNLCK)
    finally:
        os.close(descriptor)


def start(pool: Spec) -> bool:
    """Starts it. Returns when it holds the lock, or another one does. False: it does not start; its log says why."""
    code = f'import sys; sys.path.insert(0, {pool.package!r}); from wsd._pool import main; main()'
    with subprocess.Popen([sys.executable, *flags(), '-c', code, pool.name], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, cwd='/', start_new_session=True) as process:
        process.communicate(json.dumps(pool).encode())
    return process.returncode == 0


def main() -> None:
    """[a process of its own] Becomes the supervisor of a pool, in the background."""
    pool = Spec(*json.load(sys.stdin))
    reader, writer = os.pipe()
    if os.fork():
        os.close(writer)
        os._exit(0 if os.read(reader, 1) else 1)  # the lock is held
    os.close(reader)
    lock = os.open(pool.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.write(writer, b'.')  # another one was faster
        os._exit(0)
    log = os.open(pool.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    null = os.open('/dev/null', os.O_RDONLY | os.O_CLOEXEC)
    for number, descriptor in ((0, null), (1, log), (2, log)):
        os.dup2(descriptor, number)
    os.write(writer, b'.')
    os.close(writer)
    sys.path[:] = pool.path
    sys.argv[:] = ['']
    sys.exit(supervise(pool, lock))


def supervise(pool: Spec, lock: int) -> int:
    """Until it was idle for long enough. Returns the exit status."""
    memory = mmap.mmap(-1, SLOTS * (NOTE_SIZE + JOURNAL) + SIZE.size)
    began = time.monotonic()
    latest = [began]  # when the pool was last seen at work

    def look() -> None:
        supervisor.grow(SIZE.unpack_from(memory, SLOTS * (NOTE_SIZE + JOURNAL))[0])
        notes = [NOTE.unpack_from(memory, slot * NOTE_SIZE) for slot in supervisor.slots()]
        now = time.monotonic()
        # one that died of a call is no sign of rest, nor is a pool that still begins
        if len(notes) < supervisor.size or any(note[4] for note in notes) or (not supervisor.was_ready and now - began < BEGIN):
            latest[0] = now
        latest[0] = max([latest[0], *(note[5] for note in notes)])
        if now - latest[0] > pool.idle:
            os.close(lock)
            supervisor.leave()

    def work(slot: int) -> int:
        os.close(lock)
        worker = Worker(memory, slot, began)
        runner = Runner(pool.name, worker.tasks(), socket=pool.socket, version=sys.version.split()[0],
                        help='calls of wsd.Executor', may_exit=True, on_ready=supervisor.ready)
        signal.signal(signal.SIGTERM, lambda *_: runner.leave())
        try:
            runner.run()
        except Error as error:
            print(f'wsd: {pool.name}: {error.text}', file=sys.stderr, flush=True)
            return error.code
        return 0
    supervisor = Supervisor(pool.processes, work, look=look, period=min(max(pool.idle / 4, 0.02), 15.0),
                            pauses=PAUSES)
    return supervisor.run()
