# SPDX-License-Identifier: Apache-2.0
"""wsd for asyncio: the same as wsd.Client, on the connection's descriptor, without threads.

    async with await wsd.aio.connect() as client:
        job = await client.submit('sort', input=b'b\\na\\n')
        print(await job)

A client belongs to the loop that connected it. What is submitted in one turn of the loop is sent together. Since 0.1.
"""
from __future__ import annotations

import asyncio
import os
import socket
import time
from contextlib import asynccontextmanager, suppress
from typing import Any, AsyncIterable, AsyncIterator, Callable, Dict, Generator, Iterable, List, Literal, Mapping, Optional, Sequence, \
    Tuple, Union, Unpack, overload

from . import _html, _wire
from ._client import job_html, pause_after, seconds
from ._errors import ClosedError, ConnectionLost, Error, ForkedError, NoDaemon, NotFound, ProtocolError, Refused
from ._input import FilePart, Input, Output, copy_of, repeatable, resolve, view
from ._map import Mapping as MapPlan
from ._protocol import ACCEPTED, OTHER, OUTPUT, Call, Core, JobCall, Question, wants_actions, wants_functions, wants_output
from ._profile import Profile, ProfileCall
from ._socket import NOW, RECEIVE_LEAST, RECEIVE_MOST, Directory, Path, connect_error, drop, find, unsent, write_some
from ._types import (Action, Argument, DETACH, DURABLE, Duration, FunctionStats, JobId, JobInfo, Message, NO_ACCEPTED, Options, Plugin, Progress, State,
                     action, args_field, function_stats, functions_fields, id_bytes, job_info, plugin, shown, split_name, submit_fields, whole)
from ._version import PROGRAM

UNSENT_MAX = 1 << 20  # bytes; submit() waits while more is unsent
COUNTED = 64  # frames that wait, from which on their bytes are counted

Future = asyncio.Future[None]


def _settle(call: Any) -> None:
    """Wakes all that wait for a call."""
    waits = call._gates
    if waits is not None:
        call._gates = None
        for future in waits:
            if not future.done():
                future.set_result(None)


class Job(JobCall):
    """A job that was submitted, or is followed by its id. Made by Client. `await job` is its result. Since 0.1.

    Methods may raise ConnectionLost, ProtocolError, ClosedError and ForkedError. An await that is cancelled leaves the
    job as it is.
    """

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self._name = name

    def __await__(self) -> Generator[Any, None, bytes]:
        if not self._ended:
            self._client._gather(self)
            while not self._ended:
                yield from self._client._future(self, 0)
        return self._result()

    def _result(self) -> bytes:
        error = self._outcome()
        if error is not None:
            raise error
        chunks = self._chunks
        if chunks is None:
            return b''
        if len(chunks) > 1:
            chunks[:] = [b''.join(chunks)]
        return chunks[0]

    async def result(self, timeout: Optional[Duration] = None) -> bytes:
        """The same as `await job`: the output, less what output() has given.

        Raises TimeoutError after `timeout`; the job goes on. Raises Failed, Crashed, TimedOut, Cancelled or Interrupted
        if it did not succeed, and Refused and its kin if wsd did not take it. Since 0.1.
        """
        await self._finish(timeout)
        return self._result()

    async def wait(self, timeout: Optional[Duration] = None) -> JobInfo:
        """Waits for the end, and returns how it ended, whether well or not. Raises TimeoutError. Since 0.1."""
        await self._finish(timeout)
        if self._failure is not None:
            raise self._failure
        info = self._known()
        assert info is not None
        return info

    async def exception(self, timeout: Optional[Duration] = None) -> Optional[Error]:
        """Waits for the end, and returns what result() would raise, or None. Raises TimeoutError. Since 0.1."""
        await self._finish(timeout)
        return self._outcome()

    async def _finish(self, timeout: Optional[Duration]) -> None:
        if self._ended:
            return
        self._client._gather(self)
        await self._client._wait(self, 0, None, timeout)

    async def accepted(self) -> str:
        """Waits until wsd has accepted the job, and returns its id. Raises Refused and its kin. Since 0.1."""
        await self._client._wait(self, ACCEPTED, lambda: self._id is not None)
        if self._id is None and self._failure is not None:
            raise self._failure
        return self.id

    @property
    def id(self) -> str:
        """32 hexadecimal digits; empty until wsd has accepted the job. Since 0.1."""
        if self._id is not None:
            return self._id.hex()
        info = self._known()
        return info.id if info is not None else ''

    @property
    def name(self) -> str:
        """PLUGIN or PLUGIN:FUNCTION, as it was submitted; empty for one that is followed by id. Since 0.1."""
        return self._name

    def done(self) -> bool:
        """Whether the job has ended. Since 0.1."""
        return self._ended

    async def output(self) -> AsyncIterator[bytes]:
        """Gives the output as it comes. At its end it raises as result(), if the job did not succeed.

        What it has given, result() does not give again. While it is not read, wsd holds the output back. Since 0.1.
        """
        while True:
            await self._client._wait(self, OUTPUT, lambda: bool(self._chunks))
            data = self._take_output(self._client._core)
            self._client._send_soon()
            if data:
                yield data
            else:
                error = self._outcome()
                if error is not None:
                    raise error
                return

    @property
    def progress(self) -> Progress:
        """How far the job says it is. While it runs only if it was submitted with `progress`. Since 0.1."""
        return self._now

    @property
    def messages(self) -> List[Message]:
        """The lines that the job has said so far. Since 0.1."""
        return list(self._messages or ())

    async def changed(self) -> bool:
        """Waits until progress or messages have changed, or the job has ended. Returns whether it goes on. Since 0.1."""
        before = self._now, len(self._messages or ())
        await self._client._wait(self, OTHER, lambda: (self._now, len(self._messages or ())) != before)
        return not self._ended

    async def status(self) -> JobInfo:
        """What wsd knows of the job now. Raises NotFound if wsd has forgotten it. Since 0.1."""
        if not self._ended:
            try:
                return await self._client.status(await self.accepted())
            except NotFound:  # it ended meanwhile, and is not kept: its end came before this answer
                if not self._ended:
                    raise
        if self._failure is not None:
            return await self._client.status(await self.accepted())
        info = self._known()
        assert info is not None
        return info

    async def state(self) -> Optional[State]:
        """Where the job is in its life. None: wsd does not say. Since 0.1."""
        return (await self.status()).state

    def cancel(self) -> None:
        """Tells the job to stop. Does not wait: it ends as Cancelled, unless it is faster. Since 0.1."""
        self._client._tell(self, _wire.CANCEL)

    def forget(self) -> None:
        """Stops following the job. One that is detached, durable or has a key goes on; any other is cancelled. Since 0.1."""
        self._client._tell(self, _wire.FORGET)

    def __repr__(self) -> str:
        known = self._known()
        state = known.state.label if known and known.state else 'ended' if self._ended else 'open'
        return f'<wsd.aio.Job {self._name or "by id"} {known.id if known else "without id yet"} {state}>'

    def _repr_html_(self) -> str:
        return job_html(self)


class Client:
    """A connection to wsd, made by connect(). One loop uses it; a child of fork() may only close it. Since 0.1.

    Use it in an `async with` statement, or close() it. At its end, jobs that were not detached are cancelled.
    """

    def __init__(self, sock: socket.socket, path: str, directory: Directory, loop: asyncio.AbstractEventLoop) -> None:
        self._socket = sock
        self._path = path
        self._directory = directory
        self._loop = loop
        self._pid = os.getpid()
        self._core = Core(directory.path, PROGRAM, directory.opener())
        self._rest = b''  # of a frame
        self._size = RECEIVE_LEAST
        self._sends = False  # _send is called at the end of this turn
        self._writes = False  # the loop watches for room
        self._closed = False
        self._prefixes: Dict[str, Tuple[bytes, int]] = {}
        self._greeting = Question((), False)
        self._room: List[Future] = []  # of those that wait until what is unsent was sent
        loop.add_reader(sock.fileno(), self._readable)
        self._send()

    # --- the connection ----------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Ends the connection. Jobs that were not detached are cancelled. May be called again. Since 0.1."""
        self._close()

    def _close(self) -> None:
        if os.getpid() != self._pid:
            self._socket.close()
            self._directory.close()
            return
        if not self._closed:
            self._closed = True
            self._over(ClosedError('the client was closed', code=69))

    def _over(self, error: Error) -> None:
        """The connection has ended."""
        self._core.fail(error)
        drop(self._core.outgoing)
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            if self._writes:
                self._loop.remove_writer(self._socket.fileno())
                self._writes = False
            self._socket.close()
            self._directory.close()
        _settle(self._greeting)
        self._has_room()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *unused: object) -> None:
        self._close()

    @property
    def closed(self) -> bool:
        """Whether close() was called. Since 0.1."""
        return self._closed

    def _state(self) -> str:
        return 'closed' if self._closed else 'lost' if self._core.failure else 'draining' if self._core.draining else 'connected'

    def __repr__(self) -> str:
        return f'<wsd.aio.Client {self._path} {self._state()}>'

    def _repr_html_(self) -> str:
        return _html.client(self._path, self._core.server, self._state(), len(self._core.calls))

    def _readable(self) -> None:
        """The loop says that there is something to read."""
        core = self._core
        try:
            data = self._socket.recv(self._size, NOW)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b''
        if not data:
            self._over(ConnectionLost('wsd has ended the connection', code=69))
            return
        self._size = RECEIVE_LEAST if len(data) < RECEIVE_LEAST else RECEIVE_MOST
        try:
            if self._rest:
                data = self._rest + data
            n = core.receive(data)
            self._rest = data[n:] if n < len(data) else b''
        except ProtocolError as error:
            self._over(error)
            return
        except BaseException:
            self._over(ConnectionLost('this program interrupted its connection in the midst of a frame', code=69))
            raise
        if core.failure is not None:
            self._over(core.failure)
        elif core.outgoing:
            self._send_soon()
        if self._greeting._gates is not None and core.greeted:
            _settle(self._greeting)

    def _send_soon(self) -> None:
        """At the end of this turn of the loop, together with what else is submitted in it."""
        if not self._sends and not self._writes:
            self._sends = True
            self._loop.call_soon(self._send)

    def _send(self) -> None:
        self._sends = False
        core = self._core
        if core.failure is not None:
            drop(core.outgoing)
            return
        try:
            done = write_some(self._socket, core)
        except OSError as error:
            self._over(ConnectionLost(str(error), code=69))
            return
        except BaseException:
            self._over(ConnectionLost('this program interrupted its connection in the midst of a frame', code=69))
            raise
        if done == self._writes:
            self._writes = not done
            if done:
                self._loop.remove_writer(self._socket.fileno())
            else:
                self._loop.add_writer(self._socket.fileno(), self._send)
        if self._room and (done or unsent(core) <= UNSENT_MAX):
            self._has_room()

    def _has_room(self) -> None:
        waits, self._room = self._room, []
        for future in waits:
            if not future.done():
                future.set_result(None)

    async def _make_room(self) -> None:
        """Waits while too much is unsent."""
        while self._writes and self._core.failure is None and unsent(self._core) > UNSENT_MAX:
            future = self._loop.create_future()
            self._room.append(future)
            await future

    # --- waiting -----------------------------------------------------------------------------------------------------

    def _future(self, call: Any, wants: int) -> Future:
        """What is done at the next thing that comes for a call."""
        future = self._loop.create_future()
        if call._gates is None:
            call._gates = [future]
            call._wake = _settle
        else:
            call._gates.append(future)
        call._wants |= wants
        return future

    async def _wait(self, call: Any, wants: int, ready: Optional[Callable[[], bool]] = None, timeout: Optional[Duration] = None) -> None:
        """Until ready() or the call has ended."""
        if timeout is None:
            while not call._ended and (ready is None or not ready()):
                await self._future(call, wants)
            return
        async with asyncio.timeout(seconds(timeout)):
            while not call._ended and (ready is None or not ready()):
                await self._future(call, wants)

    def _gather(self, job: JobCall) -> None:
        if not job._collect:
            job._gather(self._core)
            if self._core.outgoing:
                self._send_soon()

    # --- requests ----------------------------------------------------------------------------------------------------

    def _usable(self) -> Core:
        """The core, for a request."""
        core = self._core
        if core.failure is not None or os.getpid() != self._pid:
            if os.getpid() != self._pid:
                raise ForkedError('this client belongs to the parent of this process; connect anew', code=69)
            if core.failure is not None:
                raise core.failure
        return core

    async def _ask(self, kind: int, message: str, values: Mapping[str, Any], kinds: Tuple[int, ...], single: bool,
                   body: bytes = b'') -> List[Tuple[bytes, bytes]]:
        question = Question(kinds, single)
        await self._put(question, kind, _wire.encode(message, values), body)
        return question.answers

    async def _put(self, question: Question, kind: int, header: bytes, body: bytes = b'') -> None:
        self._usable().ask(question, kind, header, body)
        self._send_soon()
        await self._wait(question, 0)
        if question._failure is not None:
            raise question._failure

    def _tell(self, job: JobCall, kind: int) -> None:
        self._usable().tell(job, kind)
        self._send_soon()

    # --- jobs --------------------------------------------------------------------------------------------------------

    async def submit(self, function: str, *args: Argument, input: Union[Input, AsyncIterable[Any]] = b'',
                     output: Optional[Output] = None, wait_for_room: Union[bool, Duration] = False,
                     **options: Unpack[Options]) -> Job:
        """Hands a job to wsd. `function` is PLUGIN or PLUGIN:FUNCTION. Options are as of wsd.Client.submit().

        `input` may also be an asynchronous iterable of bytes. An iterable is read here; submit() then returns when all of
        it is sent. Otherwise it returns at once, or when there is room for what is unsent. What wsd refuses is raised by
        `await job`; but a job with `detach`, `durable`, `key` or `wait_for_room` is waited for until it is accepted, and
        a refusal is raised here.

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
        if wait_for_room is not False and (hasattr(input, '__aiter__') or not repeatable(input)):
            raise TypeError('wait_for_room: an iterable or a pipe is read once, and cannot be submitted again')
        until = None if wait_for_room is True else time.monotonic() + (seconds(wait_for_room) or 0.0) if wait_for_room else 0.0
        pause = 0.0
        while True:
            job = Job(self, function)
            if output is not None:
                wants_output(self._usable())
                job._output_to = copy_of(output)
            try:
                if self._submit(job, prefix, flags, field, input):
                    await self._stream(job, prefix, flags, field, input)
            finally:
                if job._output_to >= 0:  # it was not sent
                    os.close(job._output_to)
            if self._writes:
                await self._make_room()
            if wait_for_room is False and not flags & (DETACH | DURABLE) and options.get('key') is None:
                return job
            try:
                await self._wait(job, ACCEPTED | OTHER, lambda: job._accepted and job._input is None)
                if job._failure is not None:
                    raise job._failure
                return job
            except Refused as error:
                now = time.monotonic()
                if error.code != 75 or wait_for_room is False or (until is not None and now >= until):
                    raise
                wait, pause = pause_after(error, pause)
            await asyncio.sleep(wait if until is None else max(0.0, min(wait, until - now)))

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

    def _submit(self, job: JobCall, prefix: bytes, flags: int, args: bytes, given: Any) -> bool:
        """Returns whether the input is still to be streamed, and nothing was submitted."""
        core = self._usable()
        if type(given) is not bytes:
            if hasattr(given, '__aiter__'):
                return True
            given = resolve(given, bool(core.features & 4) and not flags & DURABLE)
            if isinstance(given, FilePart):
                core.submit_file(job, prefix, flags, args, given.descriptor, given.offset, given.size)
                self._send_soon()
                return False
            if not isinstance(given, (bytes, memoryview)):
                return True
        core.submit(job, prefix, flags, args, given)
        if not self._sends and not self._writes:
            self._sends = True
            self._loop.call_soon(self._send)
        return False

    async def _stream(self, job: JobCall, prefix: bytes, flags: int, args: bytes, given: Any) -> None:
        core = self._core
        core.submit_open(job, prefix, flags, args)
        job._gather(core)  # nobody takes it meanwhile
        self._send_soon()
        try:
            if hasattr(given, '__aiter__'):
                async for piece in given:
                    await self._feed(job, view(piece))
                    if job._ended:
                        break
            else:
                pieces: Any = resolve(given, False)
                for piece in pieces:
                    await self._feed(job, view(piece))
                    if job._ended:
                        break
        except BaseException:
            if core.failure is None:
                self._tell(job, _wire.CANCEL)
            raise
        core.feed_end(job)
        self._send_soon()

    async def _feed(self, job: JobCall, left: memoryview) -> None:
        while len(left) and not job._ended:
            n = self._core.feed(job, left)
            left = left[n:]
            self._send_soon()
            if n:
                await self._make_room()
            else:
                await self._wait(job, OTHER, lambda: job._input_allowed > job._input_sent)

    async def attach(self, id: JobId, *, progress: bool = False) -> Job:
        """Follows a job of this user by its id. NotFound is raised by the job's methods. Since 0.1."""
        job = Job(self, '')
        job._id = id_bytes(id)
        self._usable().ask(job, _wire.AWAIT, _wire.encode('Id', {'id': job._id, 'flags': 2 if progress else 0}))
        self._send_soon()
        return job

    async def call(self, function: str, *args: Argument, input: Input = b'', timeout: Optional[Duration] = None) -> bytes:
        """Runs one job, waits for its end, and returns the output. The cheapest way to run one.

        An await that is cancelled cancels the job. `timeout` is of the job's run time. Raises as Job.result(). Since 0.1.
        """
        if timeout is None:
            prefix, flags = self._prefixes.get(function) or self._prefix(function, {})
        else:
            prefix, flags = self._prefix(function, {'timeout': timeout})
        job = Job(self, function)
        job._collect = True
        field = args_field(args) if args else b''
        if self._submit(job, prefix, flags | NO_ACCEPTED, field, input):
            await self._stream(job, prefix, flags | NO_ACCEPTED, field, input)
        if self._writes:
            await self._make_room()
        try:
            while not job._ended:
                future = self._loop.create_future()
                job._gates = [future]
                job._wake = _settle
                await future
        except asyncio.CancelledError:
            if self._core.failure is None:
                self._tell(job, _wire.CANCEL)
            raise
        return job._result()

    @overload
    def map(self, function: str, inputs: Iterable[Input], *, args: Sequence[Argument] = (), ordered: Literal[True] = True,
            in_flight: int = 1000, return_exceptions: Literal[False] = False, progress: Optional[bool] = None,
            timeout: Optional[Duration] = None, priority: int = 0,
            tag: Union[str, Iterable[str], None] = None) -> AsyncIterator[bytes]: ...

    @overload
    def map(self, function: str, inputs: Iterable[Input], *, args: Sequence[Argument] = (), ordered: Literal[True] = True,
            in_flight: int = 1000, return_exceptions: bool, progress: Optional[bool] = None, timeout: Optional[Duration] = None,
            priority: int = 0, tag: Union[str, Iterable[str], None] = None) -> AsyncIterator[Union[bytes, Error]]: ...

    @overload
    def map(self, function: str, inputs: Iterable[Input], *, args: Sequence[Argument] = (), ordered: Literal[False],
            in_flight: int = 1000, return_exceptions: bool = False, progress: Optional[bool] = None,
            timeout: Optional[Duration] = None, priority: int = 0,
            tag: Union[str, Iterable[str], None] = None) -> AsyncIterator[Tuple[int, Union[bytes, Error]]]: ...

    def map(self, function: str, inputs: Iterable[Input], *, args: Sequence[Argument] = (), ordered: bool = True,
            in_flight: int = 1000, return_exceptions: bool = False, progress: Optional[bool] = None,
            timeout: Optional[Duration] = None, priority: int = 0,
            tag: Union[str, Iterable[str], None] = None) -> AsyncIterator[Any]:
        """Runs the function once for each input, many at a time, and gives the results: as wsd.Client.map(). Since 0.1."""
        prefix, _ = self._prefix(function, {'timeout': timeout, 'priority': priority, 'tag': tag})
        return self._map(MapPlan(function, prefix, args, inputs, ordered, in_flight, return_exceptions, bool(progress)))

    async def _map(self, plan: MapPlan) -> AsyncIterator[Any]:
        try:
            while True:
                while (batch := plan.next_batch(self._core)) is not None:
                    batch(self._usable())
                    self._send_soon()
                for result in plan.results():
                    yield result
                if plan.finished:
                    return
                if not plan.ready():
                    left = None if plan.try_again is None else max(0.0, plan.try_again - time.monotonic())
                    try:
                        await self._wait(plan, 0, plan.ready, left)
                    except TimeoutError:
                        pass
        finally:
            plan.close()
            if plan.open and self._core.failure is None and os.getpid() == self._pid:
                plan.cancel(self._core)
                self._send_soon()

    # --- asking ------------------------------------------------------------------------------------------------------

    async def status(self, id: JobId) -> JobInfo:
        """What wsd knows of a job. Raises NotFound. Since 0.1."""
        answers = await self._ask(_wire.STATUS, 'Id', {'id': id_bytes(id)}, (_wire.JOB,), True)
        return job_info(_wire.decode('Job', answers[0][0]))

    async def cancel(self, id: JobId) -> None:
        """Cancels a job. Does not wait for its end. Raises NotFound if it has ended, or is not this user's. Since 0.1."""
        await self._ask(_wire.CANCEL, 'Id', {'id': id_bytes(id)}, (), False)

    async def list(self, *, states: Iterable[State] = (), plugin: str = '', limit: int = 0) -> List[JobInfo]:
        """The jobs that this user may see, oldest first: as wsd.Client.list(). Since 0.1."""
        values: Dict[str, Any] = {'states': sum({1 << state for state in states}), 'limit': limit}
        if plugin:
            values['plugin'], values['function'] = split_name(plugin)
        if any(values.values()):
            answers = await self._ask(_wire.LIST_WHERE, 'Filter', values, (_wire.JOB,), False)
        else:
            answers = await self._ask(_wire.LIST, 'Empty', {}, (_wire.JOB,), False)
        return [job_info(_wire.decode('Job', header)) for header, _ in answers]

    async def stats(self) -> Dict[str, int]:
        """wsd's counters by name. Another version of wsd may have more. Since 0.1."""
        answers = await self._ask(_wire.STATS, 'Empty', {}, (_wire.COUNTERS,), True)
        return {shown(one['name']): one['value'] for one in _wire.decode('Stats', answers[0][0])['counters']}

    async def functions(self, name: str = '', *, uid: Optional[int] = None) -> List[FunctionStats]:
        """How the jobs of functions have ended, and how long they took: as wsd.Client.functions(). Since 0.1."""
        fields = functions_fields(name, uid)
        wants_functions(self._usable())
        answers = await self._ask(_wire.FUNCTIONS, 'Functions', fields, (_wire.FUNCTION_STATS,), False)
        return [function_stats(_wire.decode('FunctionStats', header), body) for header, body in answers]

    async def actions(self, *, limit: int = 0) -> List[Action]:
        """The last actions of administrators and of persons, oldest first: as wsd.Client.actions(). Since 0.1."""
        fields = {'limit': whole(limit, 'limit', 0, 0xffffffff)}
        wants_actions(self._usable())
        answers = await self._ask(_wire.ACTIONS, 'Actions', fields, (_wire.ACTION,), False)
        return [action(_wire.decode('Action', header)) for header, _ in answers]

    async def plugins(self, name: str = '') -> List[Plugin]:
        """All plugins, or the one of this name. Raises NotFound. Since 0.1."""
        answers = await self._ask(_wire.PLUGINS, 'Plugins', {'name': os.fsencode(name)}, (_wire.PLUGIN,), False)
        return [plugin(_wire.decode('Plugin', header)) for header, _ in answers]

    @asynccontextmanager
    async def profile(self, name: str = '', *, rate: int = 99) -> AsyncIterator[Profile]:
        """Samples where the workers spend their CPU time, as long as the `async with` lasts: as wsd.Client.profile().
        Since 0.1."""
        call = ProfileCall(name, rate)
        await self._ask(_wire.TRACE, 'Trace', call.starts(self._usable()), (_wire.EXECUTOR,), False)
        stop = _wire.encode('Trace', call.STOPS)
        try:
            yield call.profile
        except BaseException:
            with suppress(Error):
                await self._put(call, _wire.TRACE, stop)
            raise
        await self._put(call, _wire.TRACE, stop)

    async def ping(self, data: bytes = b'') -> float:
        """Sends bytes to wsd, which sends them back. Returns the seconds that it took. Since 0.1."""
        if len(data) > 60 << 10:
            raise ValueError('at most 60 KiB')
        begun = time.perf_counter()
        answers = await self._ask(_wire.PING, 'Empty', {}, (_wire.PONG,), True, data)
        if answers[0][1] != data:
            raise ProtocolError('another answer to a ping', code=76)
        return time.perf_counter() - begun


async def connect(socket_path: Optional[Path] = None, *, directory: Optional[Path] = None, timeout: Duration = 5.0) -> Client:
    """Connects to wsd: `socket_path`, else WSD_SOCKET, else the user's own wsd, else the system's.

    `directory` is where relative paths in arguments begin; by default where the process is now. Raises NoDaemon,
    NotPermitted, ProtocolError or Refused if it cannot connect within `timeout`. Since 0.1.
    """
    path = find(socket_path)
    loop = asyncio.get_running_loop()
    until = time.monotonic() + (seconds(timeout) or 0.0)
    where = Directory(directory)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        while True:
            try:
                sock.connect(path)
                break
            except BlockingIOError as error:  # too many wait for wsd to accept them
                if time.monotonic() > until:
                    raise connect_error(path, error) from None
            except OSError as error:
                raise connect_error(path, error) from None
            await asyncio.sleep(0.01)
        client = Client(sock, path, where, loop)
    except BaseException:
        sock.close()
        where.close()
        raise
    try:
        try:
            await client._wait(client._greeting, 0, lambda: client._core.greeted or client._core.failure is not None,
                               max(0.0, until - time.monotonic()))
        except TimeoutError:
            raise NoDaemon(f'{path}: wsd does not answer', code=69) from None
        if client._core.failure is not None:
            raise client._core.failure
    except BaseException:
        client._close()
        raise
    return client


__all__ = ['Call', 'Client', 'Job', 'connect']
