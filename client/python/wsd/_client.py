# SPDX-License-Identifier: Apache-2.0
"""The client that waits: a connection that any number of threads may use.

Owns the socket and the protocol core of a connection. No thread of its own: of the threads that wait, one reads for all
of them, and hands the reading over when it has what it waits for.
Keeps: the core is touched only under the lock. Nothing blocks under the lock. An exception in the midst of a frame,
such as Ctrl-C, ends the connection, so that no half of a frame is ever taken for a whole one; the next request connects
again.
"""
from __future__ import annotations

import collections
import datetime
import os
import random
import select
import socket
import threading
import time
from contextlib import contextmanager, suppress
from typing import Any, Callable, Deque, Dict, Iterable, Iterator, List, Literal, Mapping, Optional, Sequence, Tuple, Union, Unpack, overload

from . import _html, _wire
from ._errors import ClosedError, ConnectionLost, Error, ForkedError, NoDaemon, NotFound, ProtocolError, Refused
from ._input import FilePart, Input, Output, at_hand, copy_of, repeatable, resolve, view
from ._map import Mapping as MapPlan, Outcome
from ._native import Native
from ._protocol import ACCEPTED, OTHER, OUTPUT, Buffer, Call, Core, JobCall, Question, wants_actions, wants_functions, wants_output
from ._profile import Profile, ProfileCall
from ._socket import RECEIVE_LEAST, RECEIVE_MOST, Directory, Path, connect_error, drop, find, unsent, write_some
from ._types import (Action, Argument, DETACH, DURABLE, Duration, FunctionStats, JobId, JobInfo, Message, NO_ACCEPTED, Options, Plugin, Progress, State,
                     action, args_field, file_bytes, function_stats, functions_fields, id_bytes, job_info, plugin, shown, split_name, submit_fields, usec, whole)
from ._version import PROGRAM

UNSENT_MAX = 1 << 20  # bytes; submit() waits while more is unsent
CONNECT_TIMEOUT = 5.0


def seconds(value: Optional[Duration]) -> Optional[float]:
    """A duration in seconds; None stays."""
    if value is None:
        return None
    return value.total_seconds() if isinstance(value, datetime.timedelta) else float(value)


def pause_after(refusal: Refused, before: float) -> Tuple[float, float]:
    """How long to wait before the next try, with a random part, and what to give as `before` the next time."""
    pause = refusal.retry_after
    if not pause:
        before = min(before * 2, 5.0) if before else 0.1
        pause = before / 2
    return pause + random.random() * min(max(pause / 4, 0.001), 1.0), before


def open_connection(path: str, timeout: float, directory: Directory) -> Tuple[socket.socket, Core, bytes]:
    """Connects and shakes hands. Returns the socket, its core, and what came of the next frame."""
    until = time.monotonic() + timeout
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        sock.settimeout(timeout)
        sock.connect(path)
    except OSError as error:
        sock.close()
        raise connect_error(path, error) from None
    except BaseException:
        sock.close()
        raise
    try:
        core = Core(directory.path, PROGRAM, directory.opener())
        write_some(sock, core)
        rest = b''
        while not core.greeted and core.failure is None:
            sock.settimeout(max(0.001, until - time.monotonic()))
            try:
                data = sock.recv(RECEIVE_LEAST)
            except ConnectionResetError:
                data = b''
            except TimeoutError:
                raise NoDaemon(f'{path}: wsd does not answer', code=69) from None
            if not data:
                core.lost()
            else:
                rest += data
                rest = rest[core.receive(rest):]
        if core.failure is not None:
            raise core.failure
        sock.settimeout(None)
    except BaseException:
        sock.close()
        raise
    return sock, core, rest


class Role:
    """What a thread that waits does meanwhile: it reads for all, or waits at a gate."""

    reads = False
    gate: Optional[threading.Lock] = None
    left = False


class Job(JobCall):
    """A job that was submitted, or is followed by its id. Made by Client. Since 0.1.

    It is brought up to date while a thread waits for it, or for another one of its client. Any thread may use it.
    Every method may raise ConnectionLost, ProtocolError, ClosedError and ForkedError.
    """

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self._name = name

    @property
    def id(self) -> str:
        """32 hexadecimal digits. Waits until wsd has accepted the job.

        Raises Refused and its kin if there is no job. Since 0.1.
        """
        if self._id is None and not (self._ended and self._known() is not None):
            self._client._wait(self, ACCEPTED, lambda: self._id is not None)
            if self._id is None:
                if self._failure is not None:
                    raise self._failure
                info = self._known()
                return info.id if info else ''
        if self._id is None:
            info = self._known()
            return info.id if info else ''
        return self._id.hex()

    @property
    def name(self) -> str:
        """PLUGIN or PLUGIN:FUNCTION, as it was submitted; empty for one that is followed by id. Since 0.1."""
        return self._name

    def result(self, timeout: Optional[Duration] = None) -> bytes:
        """Waits for the end, and returns the output, less what output() has given.

        Raises TimeoutError after `timeout`; the job goes on. Raises Failed, Crashed, TimedOut, Cancelled or Interrupted
        if it did not succeed, and Refused and its kin if wsd did not take it. Since 0.1.
        """
        self._client._finish(self, timeout)
        error = self._outcome()
        if error is not None:
            raise error
        chunks = self._chunks
        if chunks is None:
            return b''
        if len(chunks) > 1:
            chunks[:] = [b''.join(chunks)]
        return chunks[0]

    def wait(self, timeout: Optional[Duration] = None) -> JobInfo:
        """Waits for the end, and returns how it ended, whether well or not.

        Raises TimeoutError after `timeout`, and as result() if it is not known how the job ended. Since 0.1.
        """
        self._client._finish(self, timeout)
        if self._failure is not None:
            raise self._failure
        info = self._known()
        assert info is not None
        return info

    def exception(self, timeout: Optional[Duration] = None) -> Optional[Error]:
        """Waits for the end, and returns what result() would raise, or None. Raises TimeoutError. Since 0.1."""
        self._client._finish(self, timeout)
        return self._outcome()

    def done(self) -> bool:
        """Whether the job has ended. Does not wait. Since 0.1."""
        if not self._ended:
            self._client._look()
        return self._ended

    def output(self) -> Iterator[bytes]:
        """Gives the output as it comes, in pieces of any size. Waits between them.

        At its end it raises as result(), if the job did not succeed. What it has given, result() does not give again.
        While it is not read, wsd holds the job's output back. Since 0.1.
        """
        while True:
            data = self._client._next_output(self)
            if data:
                yield data
            else:
                error = self._outcome()
                if error is not None:
                    raise error
                return

    @property
    def progress(self) -> Progress:
        """How far the job says it is: (done, total). While it runs only if it was submitted with `progress`. Since 0.1."""
        if not self._ended:
            self._client._look()
        return self._now

    @property
    def messages(self) -> List[Message]:
        """The lines that the job has said so far. Since 0.1."""
        if not self._ended:
            self._client._look()
        return list(self._messages or ())

    @property
    def state(self) -> Optional[State]:
        """Where the job is in its life. Asks wsd if it has not ended. None: wsd does not say. Since 0.1."""
        return self.status().state

    def status(self) -> JobInfo:
        """What wsd knows of the job now. Raises as `id`, and NotFound if wsd has forgotten it. Since 0.1."""
        if not self._ended:
            try:
                return self._client.status(self.id)
            except NotFound:  # it ended meanwhile, and is not kept: its end came before this answer
                if not self._ended:
                    raise
        if self._failure is not None:
            return self._client.status(self.id)
        info = self._known()
        assert info is not None
        return info

    def cancel(self) -> None:
        """Tells the job to stop. Does not wait: it ends as Cancelled, unless it is faster. Since 0.1."""
        self._client._tell(self, _wire.CANCEL)

    def forget(self) -> None:
        """Stops following the job. One that is detached, durable or has a key goes on; any other is cancelled. Since 0.1."""
        self._client._tell(self, _wire.FORGET)

    def __repr__(self) -> str:
        known = self._known()
        state = known.state.label if known and known.state else 'ended' if self._ended else 'open'
        return f'<wsd.Job {self._name or "by id"} {known.id if known else "without id yet"} {state}>'

    def _repr_html_(self) -> str:
        try:
            self._client._look()
        except Error:
            pass
        return job_html(self)


def job_html(call: JobCall) -> str:
    """A job of either client, as a notebook shows it."""
    known = call._known()
    if call._failure is not None:
        label: Optional[str] = type(call._failure).__name__
    else:
        label = None if known and known.state else 'open'
    if known is None:
        name, _, function = call._name.partition(':')
        known = JobInfo(id='', plugin=name, function=function, done=call._now.done, total=call._now.total)
    return _html.job(known, label)


class Client:
    """A connection to wsd. Any thread may use it; a child of fork() may only close it. Since 0.1.

    `socket` is the path of wsd's socket. Without it: WSD_SOCKET, else the user's own wsd, else the system's.
    `directory` is where relative paths in arguments begin; by default where the process is now.
    `native` False: call() goes by the socket even if libwsclient is installed.

    Raises NoDaemon, NotPermitted, ProtocolError or Refused if it cannot connect within `timeout`. Use it in a `with`
    statement, or close() it. At its end, jobs that were not detached are cancelled. If wsd ends the connection, connect
    anew with another client.
    """

    def __init__(self, socket: Optional[Path] = None, *, directory: Optional[Path] = None, timeout: Duration = CONNECT_TIMEOUT,
                 native: bool = True) -> None:
        self._path = find(socket)
        self._timeout = seconds(timeout) or CONNECT_TIMEOUT
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._connecting = threading.Lock()
        self._closed = False
        self._broken_here = False  # an exception in this process has ended the connection
        self._gates: Dict[threading.Lock, None] = {}  # of the threads that wait and do not read
        self._prefixes: Dict[object, Tuple[bytes, int]] = {}
        self._lanes: Dict[str, bool] = {}  # of each function: whether call() may take a lane
        found = Native(self._path) if native else None
        self._native = found if found is not None and found.available else None
        self._directory = Directory(directory)
        try:
            self._connect()
        except BaseException:
            self._directory.close()
            raise

    # --- the connection ----------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        """Connects and shakes hands."""
        sock, core, rest = open_connection(self._path, self._timeout, self._directory)
        self._pending: Deque[bytes] = collections.deque()  # received, and not yet handled
        self._rest = rest  # of a frame
        self._size = RECEIVE_LEAST
        self._reading = False  # a thread reads
        self._socket: socket.socket = sock
        self._core = core
        self._broken_here = False

    def close(self) -> None:
        """Ends the connection. Jobs that were not detached are cancelled. May be called again. Since 0.1."""
        if os.getpid() != self._pid:  # the parent's connection stays: only our copies go
            self._socket.close()
            self._directory.close()
            if self._native is not None:
                self._native.close()
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._core.fail(ClosedError('the client was closed', code=69))
            drop(self._core.outgoing)
            self._hang_up()
            self._directory.close()
        if self._native is not None:
            self._native.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        """Whether close() was called. Since 0.1."""
        return self._closed

    @property
    def native(self) -> bool:
        """Whether call() goes through libwsclient, by the direct lane where wsd has one. Since 0.1."""
        return self._native is not None

    def __repr__(self) -> str:
        return f'<wsd.Client {self._path} {self._state()}>'

    def _repr_html_(self) -> str:
        return _html.client(self._path, self._core.server, self._state(), len(self._core.calls))

    def _state(self) -> str:
        return 'closed' if self._closed else 'lost' if self._core.failure else 'draining' if self._core.draining else 'connected'

    def _hang_up(self) -> None:
        """[lock] Closes the socket, or has the thread that reads close it."""
        if self._reading:
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        else:
            self._socket.close()

    def _check(self) -> None:
        """Before every request."""
        if os.getpid() != self._pid:
            raise ForkedError('this client belongs to the parent of this process; connect anew', code=69)
        if self._core.failure is not None and self._broken_here and not self._closed:
            with self._connecting:
                while self._reading:  # it is about to leave
                    time.sleep(0.001)
                if self._broken_here and not self._closed:
                    self._connect()

    def _poison(self) -> None:
        """[lock] An exception came in the midst of something: what is half done must not go on."""
        self._broken_here = True
        self._core.fail(ConnectionLost('this program interrupted its connection in the midst of a frame', code=69))
        drop(self._core.outgoing)
        self._hang_up()

    # --- reading -----------------------------------------------------------------------------------------------------

    def _receive(self, until: Optional[float]) -> None:
        """[the thread that reads] Waits for bytes until then, and handles them. Also writes what waits."""
        core = self._core
        if not self._pending:
            if until is not None or core.outgoing:
                poll = select.poll()
                poll.register(self._socket, select.POLLIN | (select.POLLOUT if core.outgoing else 0))
                left = None if until is None else max(0.0, (until - time.monotonic()) * 1e3)
                events = poll.poll(left)
                if not events:
                    return
                if not events[0][1] & ~select.POLLOUT:
                    self._flush()
                    return
            try:  # in one step for the interpreter: an exception leaves the bytes in the socket, or in pending
                self._pending.extend(map(self._socket.recv, (self._size,)))
            except ConnectionResetError:
                self._pending.append(b'')
        with self._lock:
            try:
                while self._pending:
                    data = self._pending[0]
                    self._size = RECEIVE_LEAST if len(data) < RECEIVE_LEAST else RECEIVE_MOST
                    if not data:
                        core.lost()
                    if core.failure is not None:
                        self._pending.clear()
                        break
                    if self._rest:
                        data = self._rest + data
                    self._rest = data[core.receive(data):]
                    self._pending.popleft()
                if core.outgoing:
                    if core.failure is None:
                        write_some(self._socket, core)
                    else:
                        drop(core.outgoing)
            except ProtocolError as error:
                core.fail(error)
                self._pending.clear()
                drop(core.outgoing)
            except BaseException:
                self._poison()
                raise

    def _flush(self) -> None:
        with self._lock:
            if self._core.failure is not None:
                return
            try:
                write_some(self._socket, self._core)
            except BaseException:
                self._poison()
                raise

    def _wake(self, call: Any) -> None:
        """[lock] Something came for a call."""
        for gate in call._gates or ():
            if gate.locked():
                gate.release()

    def _wait(self, call: Any, wants: int, ready: Optional[Callable[[], bool]] = None, until: Optional[float] = None) -> bool:
        """Until ready() or the call has ended. False: it is later than `until`."""
        while not call._ended and (ready is None or not ready()):
            if os.getpid() != self._pid:
                raise ForkedError('this client belongs to the parent of this process; connect anew', code=69)
            if until is not None and time.monotonic() >= until:
                return False
            role = Role()
            try:
                with self._lock:
                    if call._ended or (ready is not None and ready()):
                        break
                    if self._core.failure is not None:  # what is waited for is no call of the connection
                        raise self._core.failure
                    if not self._reading:
                        role.reads = self._reading = True
                    else:
                        gate = threading.Lock()
                        gate.acquire()
                        role.gate = gate
                        self._gates[gate] = None
                        call._gates = [*(call._gates or ()), gate]
                        call._wants |= wants
                        call._wake = self._wake
                if role.reads:
                    while not call._ended and (ready is None or not ready()) and (until is None or time.monotonic() < until) and (
                            self._core.failure is None):
                        self._receive(until)
                elif until is None:
                    gate.acquire()
                else:
                    gate.acquire(timeout=max(0.0, until - time.monotonic()))
            finally:
                self._leave(role, call)
        return True

    def _leave(self, role: Role, call: Any = None) -> None:
        """The thread waits no longer. A signal handler that raises here, however often, does not keep it from leaving."""
        raised: Optional[BaseException] = None
        try:
            while not role.left:
                try:
                    self._leave_once(role, call)
                except BaseException as error:  # pylint: disable=broad-except
                    raised = error
        except BaseException:  # between two tries
            self._leave_once(role, call)
            raise
        if raised is not None:
            raise raised

    def _leave_once(self, role: Role, call: Any) -> None:
        with self._lock:
            if role.gate is not None:
                self._gates.pop(role.gate, None)
                if role.gate in (call._gates or ()):
                    call._gates.remove(role.gate)
            if role.reads:
                self._stop_reading()
                role.reads = False
            elif not self._reading:
                self._hand_over()
            role.left = True

    def _stop_reading(self) -> None:
        """[lock] The thread that reads does so no longer."""
        self._reading = False
        if self._core.failure is not None and (self._closed or self._broken_here):
            self._socket.close()
        self._hand_over()

    def _hand_over(self) -> None:
        """[lock] Wakes one of those that wait, which then reads."""
        for gate in self._gates:
            if gate.locked():
                gate.release()
                break

    def _look(self) -> None:
        """Handles what has come, without waiting. What another thread reads is left to it."""
        self._check()
        role = Role()
        try:
            with self._lock:
                if self._reading or self._core.failure is not None:
                    return
                role.reads = self._reading = True
            self._receive(0.0)
        finally:
            self._leave(role)

    # --- requests ----------------------------------------------------------------------------------------------------

    def _make(self, make: Callable[[Core], None]) -> None:
        """Puts a request into what is to be sent, and sends what can be."""
        self._check()
        with self._lock:
            core = self._core
            if core.failure is not None:
                raise core.failure
            try:
                make(core)
                write_some(self._socket, core)
            except Error:
                raise
            except BaseException:
                self._poison()
                raise
        if core.outgoing:
            self._drain()

    def _drain(self) -> None:
        """Waits until little is unsent: of a thread that does not read, nothing. A wsd that is not read does not read."""
        core = self._core
        while core.outgoing and core.failure is None:
            role = Role()
            try:
                with self._lock:
                    if not self._reading:
                        if unsent(core) <= UNSENT_MAX:
                            return
                        role.reads = self._reading = True
                if role.reads:
                    self._receive(None)
                else:
                    poll = select.poll()
                    try:
                        poll.register(self._socket, select.POLLOUT)
                    except ValueError:  # closed meanwhile
                        return
                    poll.poll(20)  # the thread that reads writes, too
                    self._flush()
            finally:
                self._leave(role)

    def _ask(self, kind: int, message: str, values: Mapping[str, Any], kinds: Tuple[int, ...], single: bool,
             body: bytes = b'') -> List[Tuple[bytes, bytes]]:
        """Asks, waits for all of the answer, and raises what it was refused with."""
        question = Question(kinds, single)
        self._put(question, kind, _wire.encode(message, values), body)
        return question.answers

    def _put(self, question: Question, kind: int, header: bytes, body: bytes = b'') -> None:
        self._make(lambda core: core.ask(question, kind, header, body))
        try:
            self._wait(question, 0)
        except BaseException:
            question._wake = None
            raise
        if question._failure is not None:
            raise question._failure

    def _tell(self, job: JobCall, kind: int) -> None:
        if not job._ended:
            self._make(lambda core: core.tell(job, kind))

    def _finish(self, job: JobCall, timeout: Optional[Duration]) -> None:
        """Waits for the end of a job, and gathers its output."""
        if job._ended:
            return
        self._check()
        until = None if timeout is None else time.monotonic() + (seconds(timeout) or 0.0)
        if not job._collect:
            self._gather(job)
        if not self._wait(job, 0, None, until):
            raise TimeoutError('the job has not ended in this time; it goes on')

    def _gather(self, job: JobCall) -> None:
        with self._lock:
            try:
                job._gather(self._core)
                if self._core.outgoing and self._core.failure is None:
                    write_some(self._socket, self._core)
            except BaseException:
                self._poison()
                raise

    def _next_output(self, job: JobCall) -> bytes:
        """The next piece; empty at the end."""
        self._check()
        self._wait(job, OUTPUT, lambda: bool(job._chunks))
        with self._lock:
            try:
                data = job._take_output(self._core)
                if self._core.outgoing and self._core.failure is None:
                    write_some(self._socket, self._core)
            except BaseException:
                self._poison()
                raise
        return data

    # --- jobs --------------------------------------------------------------------------------------------------------

    def submit(self, function: str, *args: Argument, input: Input = b'', output: Optional[Output] = None,
               wait_for_room: Union[bool, Duration] = False, **options: Unpack[Options]) -> Job:
        """Hands a job to wsd. `function` is PLUGIN or PLUGIN:FUNCTION.

        Options are those of `wsctl submit`, see wsd.Options and wsctl(1). Durations are seconds, or a timedelta. `at` is
        a datetime, or seconds since the epoch. `progress`: Job.progress moves while the job runs.

        `input` is bytes or anything else with the buffer protocol, which is sent from where it lies: leave it as it is
        until the job has ended. A path or a regular file goes to wsd as a descriptor, in place. A pipe, or an iterable of
        bytes, is read here; submit() then returns when all of it is sent.

        `output` is a descriptor or a binary file, which is a regular file or a pipe that is open for writing. The job
        itself writes there, from the file's position on, and result() is empty; JobInfo.placed says how many bytes. You
        may close it when submit() has returned. What a job has written stays there, also if it fails. Not with `detach`,
        `durable`, `key`, `retries` or a batch, nor for runners. If the job's executor dies when it has written, it runs
        again only where its output can be cut off again; see wsd_client_submit(3).

        Returns at once; what wsd refuses is raised by the job's methods. But a job with `detach`, `durable`, `key` or
        `wait_for_room` is waited for until it is accepted, and a refusal is raised here. `wait_for_room`: a refusal for
        now (75) is tried again, for at most so many seconds, or for ever (True).

        Raises ValueError or TypeError for an option that is wrong, OSError for a file, Refused and its kin,
        ConnectionLost. Since 0.1.
        """
        if options:
            prefix, flags = self._prefix(function, options)
        else:
            prefix, flags = self._prefixes.get(function) or self._prefix(function, {})
        field = args_field(args) if args else b''
        if len(prefix) + len(field) > 60000:
            raise ValueError('arguments and ids of other jobs are too long together')
        if wait_for_room is False:
            job = Job(self, function)
            if output is None:
                self._submit(job, prefix, flags, field, input)
            else:
                self._submit_to(output, job, prefix, flags, field, input)
            if flags & (DETACH | DURABLE) or options.get('key') is not None:
                self._until_accepted(job)
            return job
        if not repeatable(input):
            raise TypeError('wait_for_room: an iterable or a pipe is read once, and cannot be submitted again')
        until = None if wait_for_room is True else time.monotonic() + (seconds(wait_for_room) or 0.0)
        pause = 0.0
        while True:
            job = Job(self, function)
            if output is None:
                self._submit(job, prefix, flags, field, input)
            else:
                self._submit_to(output, job, prefix, flags, field, input)
            try:
                self._until_accepted(job)
                return job
            except Refused as error:
                now = time.monotonic()
                if error.code != 75 or (until is not None and now >= until):
                    raise
                wait, pause = pause_after(error, pause)
            time.sleep(wait if until is None else max(0.0, min(wait, until - now)))

    def _prefix(self, function: str, options: Mapping[str, Any]) -> Tuple[bytes, int]:
        """A Submit without arguments, and its flags."""
        fields = submit_fields(function, options)
        flags: int = fields.pop('flags')
        found = _wire.encode('Submit', fields), flags
        if not options:
            if len(self._prefixes) >= 256:
                self._prefixes.clear()
            self._prefixes[function] = found
        return found

    def _submit_to(self, output: Output, job: JobCall, prefix: bytes, flags: int, args: bytes, given: Input) -> None:
        wants_output(self._core)
        job._output_to = copy_of(output)
        try:
            self._submit(job, prefix, flags, args, given)
        finally:
            if job._output_to >= 0:  # it was not sent
                os.close(job._output_to)

    def _submit(self, job: JobCall, prefix: bytes, flags: int, args: bytes, given: Input) -> None:
        data = given if type(given) is bytes else resolve(given, bool(self._core.features & 4) and not flags & DURABLE)
        if isinstance(data, (bytes, memoryview)):
            found: Buffer = data
            self._make(lambda core: core.submit(job, prefix, flags, args, found))
        elif isinstance(data, FilePart):
            part = data
            try:
                self._make(lambda core: core.submit_file(job, prefix, flags, args, part.descriptor, part.offset, part.size))
            except Error:
                os.close(part.descriptor)
                raise
        else:
            self._make(lambda core: core.submit_open(job, prefix, flags, args))
            self._gather(job)  # nobody takes it meanwhile
            try:
                for piece in data:
                    left = view(piece)
                    while len(left) and not job._ended:
                        n = self._feed(job, left)
                        left = left[n:]
                        if not n:
                            self._wait(job, OTHER, lambda: job._input_allowed > job._input_sent)
                    if job._ended:
                        break
            except BaseException:
                self._tell(job, _wire.CANCEL)
                raise
            self._make(lambda core: core.feed_end(job))

    def _feed(self, job: JobCall, data: memoryview) -> int:
        n = 0

        def feed(core: Core) -> None:
            nonlocal n
            n = core.feed(job, data)
        self._make(feed)
        return n

    def _until_accepted(self, job: JobCall) -> None:
        """And until its input is sent. Raises a refusal."""
        self._wait(job, ACCEPTED | OTHER, lambda: job._accepted and job._input is None)
        if job._failure is not None:
            raise job._failure

    def attach(self, id: JobId, *, progress: bool = False) -> Job:
        """Follows a job of this user by its id: one that was detached, is durable, or is of another program.

        The output of a detached or durable job comes from its beginning; of any other, from now on. NotFound is raised
        by the job's methods. Since 0.1.
        """
        job = Job(self, '')
        job._id = id_bytes(id)
        header = _wire.encode('Id', {'id': job._id, 'flags': 2 if progress else 0})
        self._make(lambda core: core.ask(job, _wire.AWAIT, header))
        return job

    def call(self, function: str, *args: Argument, input: Input = b'', timeout: Optional[Duration] = None,
             small: Optional[bool] = None) -> bytes:
        """Runs one job, waits for its end, and returns the output. The fastest way to call a small function.

        Where libwsclient is installed, a call with at most 2,000 bytes of arguments and input goes by the direct lane. Then
        the job has no id, is in no list, and what it says is not delivered. A lane has no room for more than 2 KiB of
        output. So only functions that are declared idempotent go there: one whose output is larger is called again, by
        the socket. `small` True: you know that the output is at most 2 KiB, so that any function may go there; one whose
        output is larger raises Error. False: never by a lane. `timeout` is of the job's run time, in seconds.

        Raises as Job.result(). Ctrl-C cancels the job. Since 0.1.
        """
        if self._native is not None and small is not False:
            lane = self._lanes.get(function) if small is None else True
            if lane is None:
                lane = self._lane(function)
            if lane:
                if type(input) is bytes:
                    data: Optional[bytes] = input
                else:
                    data = at_hand(input, 2000)
                if data is not None and len(data) + sum(map(len, map(file_bytes, args))) <= 2000:
                    if os.getpid() != self._pid or self._closed:
                        self._check_closed()
                    result = self._native.call(function, args, data, 0 if timeout is None else usec(timeout, 'timeout', 1 << 62))
                    if result is not None:
                        return result
                    if small:
                        raise Error(f'{function}: the output is larger than that of a small call', code=70)
                    self._lanes[function] = False  # it has more output than a lane has room for
        if timeout is None:
            prefix, flags = self._prefixes.get(function) or self._prefix(function, {})
        else:
            prefix, flags = self._prefix(function, {'timeout': timeout})
        job = Job(self, function)
        job._collect = True
        self._submit(job, prefix, flags | NO_ACCEPTED, args_field(args) if args else b'', input)
        try:
            return job.result()
        except (KeyboardInterrupt, SystemExit):
            if self._core.failure is None:
                self._tell(job, _wire.CANCEL)
            raise

    def _lane(self, function: str) -> bool:
        """Whether calls of a function may go by a lane."""
        lane = False
        if self._native is not None:
            plugin_name, name = split_name(function)
            wanted = shown(name or os.path.basename(plugin_name.removesuffix(b'.so')))
            try:
                found = self.plugins(shown(plugin_name))
            except Refused:
                return False
            lane = any(f.idempotent for one in found for f in one.functions if f.name == wanted)
        if len(self._lanes) >= 1024:
            self._lanes.clear()
        self._lanes[function] = lane
        return lane

    def _check_closed(self) -> None:
        self._check()
        if self._closed:
            raise ClosedError('the client was closed', code=69)

    @overload
    def map(self, function: str, inputs: Iterable[Input], *, args: Sequence[Argument] = (), ordered: Literal[True] = True,
            in_flight: int = 1000, return_exceptions: Literal[False] = False, progress: Optional[bool] = None,
            timeout: Optional[Duration] = None, priority: int = 0, tag: Union[str, Iterable[str], None] = None) -> Iterator[bytes]: ...

    @overload
    def map(self, function: str, inputs: Iterable[Input], *, args: Sequence[Argument] = (), ordered: Literal[True] = True,
            in_flight: int = 1000, return_exceptions: bool, progress: Optional[bool] = None, timeout: Optional[Duration] = None,
            priority: int = 0, tag: Union[str, Iterable[str], None] = None) -> Iterator[Union[bytes, Error]]: ...

    @overload
    def map(self, function: str, inputs: Iterable[Input], *, args: Sequence[Argument] = (), ordered: Literal[False],
            in_flight: int = 1000, return_exceptions: bool = False, progress: Optional[bool] = None,
            timeout: Optional[Duration] = None, priority: int = 0,
            tag: Union[str, Iterable[str], None] = None) -> Iterator[Tuple[int, Union[bytes, Error]]]: ...

    def map(self, function: str, inputs: Iterable[Input], *, args: Sequence[Argument] = (), ordered: bool = True,
            in_flight: int = 1000, return_exceptions: bool = False, progress: Optional[bool] = None,
            timeout: Optional[Duration] = None, priority: int = 0, tag: Union[str, Iterable[str], None] = None) -> Iterator[Any]:
        """Runs the function once for each input, many at a time, and gives the results as an iterator.

        In the order of the inputs; with `ordered` False in that of the ends, as (number of the input, output). `args` are
        the same for all. Inputs are taken from the iterable as results are read: at most `in_flight` are under way or
        unread. An input that is refused for now is tried again.

        The first that does not succeed is raised, and the rest is cancelled; with `return_exceptions` its exception is
        given in its place. `progress` True: a bar on stderr; None: none. It also shows only on a terminal.

        Closing the iterator cancels what is under way. Raises as submit() and Job.result(). Since 0.1.
        """
        prefix, _ = self._prefix(function, {'timeout': timeout, 'priority': priority, 'tag': tag})
        plan = MapPlan(function, prefix, args, inputs, ordered, in_flight, return_exceptions, bool(progress))
        return self._map(plan)

    def _map(self, plan: MapPlan) -> Iterator[Any]:
        try:
            while True:
                while (batch := plan.next_batch(self._core)) is not None:
                    self._make(batch)
                yield from plan.results()
                if plan.finished:
                    return
                if not plan.ready():
                    self._wait(plan, 0, plan.ready, plan.try_again)
        finally:
            plan.close()
            try:
                if plan.open and self._core.failure is None and not self._closed and os.getpid() == self._pid:
                    self._make(plan.cancel)
            except Error:
                pass

    # --- asking ------------------------------------------------------------------------------------------------------

    def status(self, id: JobId) -> JobInfo:
        """What wsd knows of a job. Raises NotFound. Since 0.1."""
        answers = self._ask(_wire.STATUS, 'Id', {'id': id_bytes(id)}, (_wire.JOB,), True)
        return job_info(_wire.decode('Job', answers[0][0]))

    def cancel(self, id: JobId) -> None:
        """Cancels a job. Does not wait for its end. Raises NotFound if it has ended, or is not this user's. Since 0.1."""
        self._ask(_wire.CANCEL, 'Id', {'id': id_bytes(id)}, (), False)

    def list(self, *, states: Iterable[State] = (), plugin: str = '', limit: int = 0) -> List[JobInfo]:
        """The jobs that this user may see, oldest first: those in these states, of this PLUGIN[:FUNCTION], and only the
        newest `limit`. What is empty or 0 says nothing. Since 0.1."""
        values: Dict[str, Any] = {'states': sum({1 << state for state in states}), 'limit': limit}
        if plugin:
            values['plugin'], values['function'] = split_name(plugin)
        if any(values.values()):
            answers = self._ask(_wire.LIST_WHERE, 'Filter', values, (_wire.JOB,), False)
        else:
            answers = self._ask(_wire.LIST, 'Empty', {}, (_wire.JOB,), False)
        return [job_info(_wire.decode('Job', header)) for header, _ in answers]

    def stats(self) -> Dict[str, int]:
        """wsd's counters by name. Another version of wsd may have more. Since 0.1."""
        answers = self._ask(_wire.STATS, 'Empty', {}, (_wire.COUNTERS,), True)
        return {shown(one['name']): one['value'] for one in _wire.decode('Stats', answers[0][0])['counters']}

    def functions(self, name: str = '', *, uid: Optional[int] = None) -> List[FunctionStats]:
        """How the jobs of functions have ended since wsd's start, and how long they took: of all functions, or of this
        PLUGIN[:FUNCTION]. Those of this user; administrators see those of all, or of the user `uid`. Since 0.1."""
        fields = functions_fields(name, uid)
        self._make(wants_functions)
        answers = self._ask(_wire.FUNCTIONS, 'Functions', fields, (_wire.FUNCTION_STATS,), False)
        return [function_stats(_wire.decode('FunctionStats', header), body) for header, body in answers]

    def actions(self, *, limit: int = 0) -> List[Action]:
        """The last actions of administrators and of persons, the newest `limit` (0: all), oldest first. Those of this user;
        administrators see those of all. Since 0.1."""
        fields = {'limit': whole(limit, 'limit', 0, 0xffffffff)}
        self._make(wants_actions)
        answers = self._ask(_wire.ACTIONS, 'Actions', fields, (_wire.ACTION,), False)
        return [action(_wire.decode('Action', header)) for header, _ in answers]

    def plugins(self, name: str = '') -> List[Plugin]:
        """All plugins, or the one of this name. Raises NotFound. Since 0.1."""
        answers = self._ask(_wire.PLUGINS, 'Plugins', {'name': os.fsencode(name)}, (_wire.PLUGIN,), False)
        return [plugin(_wire.decode('Plugin', header)) for header, _ in answers]

    @contextmanager
    def profile(self, name: str = '', *, rate: int = 99) -> Iterator[Profile]:
        """Samples where the workers spend their CPU time, as long as the `with` lasts: `rate` (1 to 999) times in a second of
        it. The profile has those of this PLUGIN[:FUNCTION], or of all, when the `with` is left. Raises Refused where a trace
        or a profile is under way. Since 0.1."""
        call = ProfileCall(name, rate)
        started: Dict[str, Any] = {}
        self._make(lambda core: started.update(call.starts(core)))
        self._ask(_wire.TRACE, 'Trace', started, (_wire.EXECUTOR,), False)
        stop = _wire.encode('Trace', call.STOPS)
        try:
            yield call.profile
        except BaseException:
            with suppress(Error):
                self._put(call, _wire.TRACE, stop)
            raise
        self._put(call, _wire.TRACE, stop)

    def ping(self, data: bytes = b'') -> float:
        """Sends bytes to wsd, which sends them back. Returns the seconds that it took. Since 0.1."""
        if len(data) > 60 << 10:
            raise ValueError('at most 60 KiB')
        begun = time.perf_counter()
        answers = self._ask(_wire.PING, 'Empty', {}, (_wire.PONG,), True, data)
        if answers[0][1] != data:
            raise ProtocolError('another answer to a ping', code=76)
        return time.perf_counter() - begun


__all__ = ['Call', 'Client', 'Job', 'Outcome', 'job_html', 'pause_after', 'seconds']
