# SPDX-License-Identifier: Apache-2.0
"""map(): many inputs of one function, by ARRAY, without any input or output of its own.

Owns the inputs that are under way and the results that nobody has read yet. Both transports drive it: they send what
next_batch() gives, wait until ready(), and take results().
Keeps: each input has one result. At most `in_flight` are under way or unread. wsd's records are checked as its frames.
"""
from __future__ import annotations

import os
import struct
import time
from collections import deque
from typing import Any, Callable, Deque, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

from . import _wire
from ._bar import Bar
from ._errors import Error, ProtocolError, Refused
from ._input import FilePart, Input, resolve
from ._protocol import WINDOW, Call, Core, JobCall, end_of, error_of, unexpected
from ._types import Argument, JobInfo, NO_ACCEPTED, State, args_field, file_bytes, shown, state

RECORD = struct.Struct('<IIBBHHHHHIQQQ')  # index n state exit attempts worker error status backtrace output queued run cpu
SHARED = struct.Struct('<IIII')  # later, run, cpu, output
ITEM = struct.Struct('<HHI')  # argc, size of arguments, size of input
ITEMS_MAX = 256  # of one ARRAY: the first results come before the last inputs are read
BODY_MAX = 48 << 10
BATCH_TIME = 0.002  # seconds; inputs that come slowly do not wait for each other for longer

Outcome = Union[bytes, Error]


class Array(Call):
    """One ARRAY of a mapping."""

    def __init__(self, plan: Mapping, inputs: List[Tuple[int, bytes]]) -> None:
        self.plan = plan
        self.inputs: List[Optional[Tuple[int, bytes]]] = list(inputs)  # None: it has had its end
        self.left = len(inputs)
        self.pieces: Dict[int, List[bytes]] = {}
        self.received: Dict[int, int] = {}
        self._args = plan.args

    def _frame(self, core: Core, kind: int, header: bytes, body: bytes) -> None:
        if kind == _wire.ENDS:
            m = _wire.decode('Ends', header)
            self._records(core, m, body)
            if m['last']:
                if self.left:
                    raise ProtocolError('an ARRAY ended before its items', code=76)
                self._end(core)
            self.plan.tell()
        elif kind == _wire.ERROR:
            error = error_of(_wire.decode('Error', header))
            for item, one in enumerate(self.inputs):
                if one is not None:
                    self._refused(item, error)
            self._end(core)
            self.plan.tell()
        elif kind == _wire.OPEN:
            core.on_open(self, _wire.decode('Open', header))
        elif kind == _wire.END:
            self._end(core)
        elif kind not in (_wire.MESSAGE, _wire.PROGRESS, _wire.ACCEPTED, _wire.CREDIT):
            raise unexpected(kind)

    def _records(self, core: Core, m: Dict[str, Any], body: bytes) -> None:
        at = 0
        try:
            for _ in range(m['records']):
                index, n, number, code, attempts, worker, error, status, backtrace, output, queued, run, cpu = RECORD.unpack_from(body, at)
                at += 48
                texts = at
                at += worker + error + status + backtrace
                data = body[at:at + output]
                at += output
                if at > len(body) or index + max(n, 1) > len(self.inputs):
                    raise ProtocolError('a record of an ARRAY is beyond its end', code=76)
                if number == State.SUCCEEDED and n == 1 and index not in self.pieces:
                    self._ended_with(index, data)
                elif number == State.RUNNING:
                    self._piece(core, index, data)
                elif number == 0:
                    words = shown(body[texts + worker:texts + worker + error])
                    for item in range(index, index + n):
                        self._refused(item, error_of({'code': code, 'text': words.encode(), 'retry_usec': queued, 'accepted': False}))
                elif number == State.SUCCEEDED and n > 1:
                    self._shared(index, n, data)
                elif number >= State.SUCCEEDED and n == 1:
                    if data:
                        self._piece(core, index, data)
                    info = self._info(m, index, number, code, attempts, (queued, run, cpu), [
                        shown(text) for text in _cut(body[texts:], (worker, error, status, backtrace))])
                    failure = end_of(info)
                    self._ended_with(index, b''.join(self.pieces.get(index, ())) if failure is None else failure)
                else:
                    raise ProtocolError('a record of an ARRAY makes no sense', code=76)
        except struct.error:
            raise ProtocolError('a record of an ARRAY is cut', code=76) from None
        if at != len(body):
            raise ProtocolError('there is more than records', code=76)

    def _info(self, m: Dict[str, Any], index: int, number: int, code: int, attempts: int, times: Tuple[int, int, int],
              texts: List[str]) -> JobInfo:
        first = m['id']
        if len(first) != 16:
            raise ProtocolError('an id of a wrong size', code=76)
        last = int.from_bytes(first[8:], 'little') + index & 0xffffffffffffffff
        return JobInfo(id=(first[:8] + last.to_bytes(8, 'little')).hex(), plugin=shown(m['plugin']), function=shown(m['function']),
                       state=state(number), exit=code, worker=texts[0], error=texts[1], status=texts[2], backtrace=texts[3],
                       attempts=attempts, uid=m['uid'], queued=times[0] / 1e6, run=times[1] / 1e6, cpu=times[2] / 1e6,
                       submitted=m['submitted_usec'] / 1e6)

    def _shared(self, index: int, n: int, data: bytes) -> None:
        at = 0
        for item in range(index, index + n):
            size = SHARED.unpack_from(data, at)[3]
            at += 16
            if size > len(data) - at or item in self.pieces:
                raise ProtocolError('a shared record is cut', code=76)
            self._ended_with(item, data[at:at + size])
            at += size
        if at != len(data):
            raise ProtocolError('there is more than shared records', code=76)

    def _piece(self, core: Core, index: int, data: bytes) -> None:
        self.pieces.setdefault(index, []).append(data)
        before = self.received.get(index, 0)
        if len(data) > WINDOW:
            raise ProtocolError('output beyond the window', code=76)
        self.received[index] = before + len(data)
        if (before + len(data)) // (WINDOW // 2) > before // (WINDOW // 2):
            core.credit_item(self, index, WINDOW // 2)

    def _take(self, item: int) -> Tuple[int, bytes]:
        one = self.inputs[item]
        if one is None:
            raise ProtocolError('an item of an ARRAY ended twice', code=76)
        self.inputs[item] = None
        self.left -= 1
        return one

    def _ended_with(self, item: int, outcome: Outcome) -> None:
        self.plan.ended(self._take(item)[0], outcome)

    def _refused(self, item: int, error: Error) -> None:
        index, data = self._take(item)
        self.plan.refused(index, data, error)

    def _end(self, core: Core) -> None:
        error = self._failure or Error('the job is not followed any more', code=125)
        for item, one in enumerate(self.inputs):
            if one is not None:
                self._ended_with(item, error)
        self.plan.open.discard(self)
        Call._end(self, core)
        self.plan.tell()


class Single(JobCall):
    """An input that no ARRAY takes."""

    def __init__(self, plan: Mapping, index: int, data: Union[bytes, memoryview, FilePart]) -> None:
        self.plan, self.index, self.data = plan, index, data
        self._name = plan.name
        self._collect = True

    def _end(self, core: Core) -> None:
        self.plan.open.discard(self)
        JobCall._end(self, core)
        error = self._outcome()
        if isinstance(error, Refused) and not isinstance(self.data, FilePart):
            self.plan.refused(self.index, self.data, error)
        else:
            self.plan.ended(self.index, b''.join(self._chunks or ()) if error is None else error)
        self.plan.tell()


class Mapping(Call):
    """All inputs of a map(), and their results. It is never a call of the core, but waited for as one."""

    def __init__(self, name: str, prefix: bytes, args: Sequence[Argument], inputs: Iterable[Input], ordered: bool, in_flight: int,
                 return_exceptions: bool, bar: bool) -> None:
        if not isinstance(in_flight, int) or in_flight < 1:
            raise ValueError(f'in_flight: not a number above 0: {in_flight!r}')
        self.name, self.prefix, self.ordered, self.in_flight, self.return_exceptions = name, prefix, ordered, in_flight, return_exceptions
        self.args = args_field(args)
        self._argc = len(args)
        self._given = b''.join(file_bytes(arg) + b'\0' for arg in args)
        self._inputs: Iterator[Input] = iter(inputs)
        self._next = 0  # number of the next input
        self._exhausted = False
        self._again: Deque[Tuple[int, Any]] = deque()  # to be submitted, before those of the iterable
        self.under_way = 0
        self.open: set[Call] = set()
        self._done: Dict[int, Outcome] = {}
        self._order: Deque[int] = deque()  # of unordered ends
        self._read = 0  # results that were read
        self.try_again: Optional[float] = None  # after a refusal, by time.monotonic()
        self._pause = 0.0
        length = len(inputs) if hasattr(inputs, '__len__') else None  # type: ignore[arg-type]
        self._bar = Bar(name, length) if bar else None

    # --- what the calls tell -----------------------------------------------------------------------------------------

    def tell(self) -> None:
        """Something has changed."""
        if self._wake is not None:
            self._wake(self)

    def ended(self, index: int, outcome: Outcome) -> None:
        """An input has its result."""
        self.under_way -= 1
        self._pause = 0.0
        self._done[index] = outcome
        if not self.ordered:
            self._order.append(index)

    def refused(self, index: int, data: Any, error: Error) -> None:
        """An input was not taken: for now, or for good."""
        if not isinstance(error, Refused) or error.code != 75:
            self.ended(index, error)
            return
        self.under_way -= 1
        self._again.append((index, data))
        if self.try_again is None:
            self._pause = min(self._pause * 2, 2.5) if self._pause else 0.05
            self.try_again = time.monotonic() + (error.retry_after or self._pause)

    # --- what the transport asks -------------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Each input has had its result, which was read."""
        return self._exhausted and not self._again and not self.under_way and not self._done

    def _hungry(self) -> bool:
        if self._exhausted and not self._again:
            return False
        if self.try_again is not None and time.monotonic() < self.try_again:
            return False
        room = self.in_flight - self.under_way - len(self._done)
        return room > 0 and (room * 4 >= self.in_flight or self.under_way == 0)

    def ready(self) -> bool:
        """There is something to read or to submit, or nothing is left."""
        return self.finished or self._hungry() or (self._read in self._done if self.ordered else bool(self._order))

    def _input(self) -> Optional[Tuple[int, Any]]:
        """The next one, resolved."""
        if self._again:
            return self._again.popleft()
        try:
            given = next(self._inputs)
        except StopIteration:
            self._exhausted = True
            return None
        index = self._next
        self._next += 1
        if type(given) is bytes:
            return index, given
        data = resolve(given, True)
        return index, data if isinstance(data, (bytes, memoryview, FilePart)) else b''.join(data)

    def next_batch(self, core: Core) -> Optional[Callable[[Core], None]]:
        """What to submit now, as a function that the transport calls with the core. None: nothing."""
        if not self._hungry():
            return None
        self.try_again = None
        batch: List[Tuple[int, bytes]] = []
        size = 0
        room = min(self.in_flight - self.under_way - len(self._done), ITEMS_MAX)
        cost = 8 + len(self._given)
        until = time.monotonic() + BATCH_TIME
        while len(batch) < room and size < BODY_MAX:
            one = self._input()
            if one is None:
                break
            index, data = one
            if isinstance(data, FilePart) or len(data) + cost > BODY_MAX or not core.features & 128:
                if batch:
                    self._again.appendleft(one)
                    break
                self.under_way += 1
                return lambda core: self._single(core, index, data)
            if size + len(data) + cost > BODY_MAX:
                self._again.appendleft(one)
                break
            batch.append((index, data))
            size += len(data) + cost
            if time.monotonic() > until:
                break
        if not batch:
            return None
        self.under_way += len(batch)
        return lambda core: self._array(core, batch)

    def _array(self, core: Core, batch: List[Tuple[int, bytes]]) -> None:
        head, argc, given = ITEM.pack, self._argc, self._given
        n_given = len(given)
        parts: List[Any] = []
        for _, data in batch:
            parts.append(head(argc, n_given, len(data)) + given)
            parts.append(data)
        header = self.prefix + _wire.encode('Submit', {'flags': NO_ACCEPTED, 'items': len(batch)})
        array = Array(self, batch)
        self.open.add(array)
        core.ask(array, _wire.ARRAY, header, b''.join(parts))

    def _single(self, core: Core, index: int, data: Any) -> None:
        call = Single(self, index, data)
        self.open.add(call)
        if isinstance(data, FilePart):
            if core.features & 4:
                core.submit_file(call, self.prefix, NO_ACCEPTED, self.args, data.descriptor, data.offset, data.size)
                return
            with os.fdopen(data.descriptor, 'rb') as file:
                data = os.pread(file.fileno(), data.size, data.offset)
        core.submit(call, self.prefix, NO_ACCEPTED, self.args, data)

    def results(self) -> Iterator[Any]:
        """Those that may be given now."""
        done = self._done
        while True:
            if self.ordered:
                if self._read not in done:
                    break
                index = self._read
            else:
                if not self._order:
                    break
                index = self._order.popleft()
            outcome = done.pop(index)
            self._read += 1
            if self._bar is not None:
                self._bar.moved(self._read)
            if not self.return_exceptions and isinstance(outcome, Error):
                raise outcome
            yield outcome if self.ordered else (index, outcome)

    def cancel(self, core: Core) -> None:
        """Of all that is under way."""
        for call in list(self.open):
            core.tell(call, _wire.CANCEL)
            core.tell(call, _wire.FORGET)

    def close(self) -> None:
        """No more is wanted."""
        if self._bar is not None:
            self._bar.close()
        for _, data in self._again:
            if isinstance(data, FilePart):
                os.close(data.descriptor)
        self._again.clear()
        self._exhausted = True


def _cut(data: bytes, sizes: Sequence[int]) -> Iterator[bytes]:
    at = 0
    for size in sizes:
        yield data[at:at + size]
        at += size
