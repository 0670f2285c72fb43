# SPDX-License-Identifier: Apache-2.0
"""What wsd tells of jobs and plugins, and what a submit may ask for."""
from __future__ import annotations

import datetime
import enum
import math
import os
import re
import struct
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Protocol, Sequence, Tuple, TypedDict, Union

from . import _html, _wire
from ._errors import ProtocolError

Duration = Union[int, float, datetime.timedelta]
"""Seconds, or a timedelta. Since 0.1."""

Argument = Union[str, bytes, 'os.PathLike[str]', int]
"""An argument of a job. A str is sent as os.fsencode() has it, a number as text. Since 0.1."""

YEARS_TEN = 315_576_000_000_000  # microseconds; the longest delay


class HasId(Protocol):
    """A job, or what is known of one."""

    @property
    def id(self) -> str:
        """32 hexadecimal digits."""


JobId = Union[str, HasId]
"""A job's id as text, or an object that has one. Since 0.1."""


class State(enum.IntEnum):
    """States of a job, in the order of its life. From SUCCEEDED on they are final. Since 0.1."""

    HELD = 1
    DELAYED = 2
    QUEUED = 3
    RUNNING = 4
    SUCCEEDED = 5
    FAILED = 6
    CANCELLED = 7
    TIMED_OUT = 8
    CRASHED = 9
    INTERRUPTED = 10

    @property
    def label(self) -> str:
        """The name as wsctl has it, such as `timed-out`. Since 0.1."""
        return self.name.lower().replace('_', '-')


RETRY_STATES = (State.FAILED, State.TIMED_OUT, State.CRASHED, State.INTERRUPTED)


class Message(NamedTuple):
    """A line that a job said. `level` is that of syslog: 0 is worst, 7 is for debugging. Since 0.1."""

    level: int
    text: str


class Progress(NamedTuple):
    """How far a job has come, in a unit of its own. `total` 0: unknown. Since 0.1."""

    done: int
    total: int


@dataclass(frozen=True)
class JobInfo:
    """A job as wsd knows it. Times are seconds; `submitted` counts from the epoch. Since 0.1."""

    id: str
    plugin: str = ''
    function: str = ''
    state: Optional[State] = None  #: None: not known
    exit: int = 0  #: what `wsctl submit` would exit with
    error: str = ''  #: one line, or empty
    status: str = ''  #: the text that the function set
    worker: str = ''  #: EXECUTOR.WORKER, or empty before it ran
    attempts: int = 0
    uid: int = 0
    queued: float = 0.0
    run: float = 0.0
    cpu: float = 0.0
    submitted: float = 0.0
    done: int = 0
    total: int = 0
    backtrace: str = ''
    durable: bool = False
    dead: bool = False  #: durable, and out of retries
    key: str = ''
    retries: int = 0
    due: float = 0.0  #: delayed: so long yet
    waits_for: int = 0  #: held: number of jobs that it runs after and that have not ended
    tags: Tuple[str, ...] = ()
    batch: str = ''
    placed: int = 0  #: bytes that the job has written to the `output` of its submit

    def _repr_html_(self) -> str:
        return _html.job(self)


def shown(data: bytes) -> str:
    """Text of wsd's, which need not be UTF-8."""
    return data.decode('utf-8', 'surrogateescape')


def job_info(m: Mapping[str, Any]) -> JobInfo:
    """Of a message Job."""
    return JobInfo(
        id=m['id'].hex(), plugin=shown(m['plugin']), function=shown(m['function']), state=state(m['state']), exit=m['exit'],
        error=shown(m['error']), status=shown(m['status']), worker=shown(m['worker']), attempts=m['attempts'], uid=m['uid'],
        queued=m['queued_usec'] / 1e6, run=m['run_usec'] / 1e6, cpu=m['cpu_usec'] / 1e6, submitted=m['submitted_usec'] / 1e6,
        done=m['done'], total=m['total'], backtrace=shown(m['backtrace']), durable=m['durable'], dead=m['dead'],
        key=shown(m['key']), retries=m['retries'], due=m['due_usec'] / 1e6, waits_for=m['waits_for'],
        tags=tuple(shown(m['tags']).split(',')) if m['tags'] else (), batch=m['batch'].hex(), placed=m['placed'])


def finished_info(m: Mapping[str, Any]) -> JobInfo:
    """Of a message Finished."""
    return JobInfo(
        id=m['id'].hex(), plugin=shown(m['plugin']), function=shown(m['function']), state=State.SUCCEEDED,
        worker=shown(m['worker']), attempts=m['attempts'], uid=m['uid'], queued=m['queued_usec'] / 1e6,
        run=m['run_usec'] / 1e6, cpu=m['cpu_usec'] / 1e6, submitted=m['submitted_usec'] / 1e6, placed=m['placed'])


def state(number: int) -> Optional[State]:
    """None for one that this version does not know."""
    return State(number) if 1 <= number <= 10 else None


@dataclass(frozen=True)
class Function:
    """A function of a plugin. `quarantined`: new jobs of it are refused. Since 0.1."""

    name: str
    help: str
    flags: int
    crashes: int
    why: str
    quarantined: bool

    @property
    def idempotent(self) -> bool:
        """It may run twice. Since 0.1."""
        return bool(self.flags & 1)


@dataclass(frozen=True)
class Plugin:
    """A plugin. `error` says why it cannot be used, or is empty. Since 0.1."""

    name: str
    version: str
    help: str
    path: str
    error: str
    functions: Tuple[Function, ...]


def plugin(m: Mapping[str, Any]) -> Plugin:
    """Of a message Plugin."""
    return Plugin(
        name=shown(m['name']), version=shown(m['version']), help=shown(m['help']), path=shown(m['path']), error=shown(m['error']),
        functions=tuple(Function(name=shown(f['name']), help=shown(f['help']), flags=f['flags'], crashes=f['crashes'],
                                 why=shown(f['why']), quarantined=f['quarantine'] != 0) for f in m['functions']))


@dataclass(frozen=True)
class Histogram:
    """How often which values came, in buckets: seconds, or bytes. The middle of a bucket is within 1.6 % of its values.
    Since 0.1."""

    count: int = 0
    sum: float = 0
    max: float = 0
    buckets: Tuple[Tuple[float, float, int], ...] = ()  #: the least value, the largest, how many; rising

    def quantile(self, part: float) -> float:
        """The value below or at which this part of the values is: 0.5 is the median. 0 without values. Since 0.1."""
        if not 0 <= part <= 1:
            raise ValueError(f'not a part, from 0 to 1: {part!r}')
        rank, n = max(1, math.ceil(part * self.count)), 0
        if rank >= self.count:
            return self.max
        for low, high, count in self.buckets:
            n += count
            if n >= rank:
                return min((low + high) / 2, self.max)
        return self.max


@dataclass(frozen=True)
class FunctionStats:
    """How the jobs of one function and user have ended since wsd's start, and how long they took: those that have run.
    A direct call counts as a job. Since 0.1."""

    plugin: str  #: empty, as the function is: all users together, of what has made room for others
    function: str
    uid: int
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    timed_out: int = 0
    crashed: int = 0
    interrupted: int = 0
    refused: int = 0  #: not accepted, although the function was known
    direct: int = 0  #: of these, direct calls
    queue: Histogram = Histogram()  #: seconds, as run and cpu
    run: Histogram = Histogram()  #: that of direct calls, too
    cpu: Histogram = Histogram()
    output: Histogram = Histogram()  #: bytes


@dataclass(frozen=True)
class Action:
    """Somebody has changed something in wsd, or was refused. Since 0.1."""

    time: float  #: since the epoch
    uid: int  #: of the client
    person: str  #: whom the client named; may be empty
    action: str  #: such as pause, limit, cancel
    object: str  #: what it was about; empty: everything
    code: int  #: 0: done, or under way; else what it was refused with


def action(m: Mapping[str, Any]) -> Action:
    """Of a message Action."""
    return Action(time=m['time_usec'] / 1e6, uid=m['uid'], person=shown(m['person']), action=shown(m['verb']),
                  object=shown(m['object']), code=m['code'])


BUCKET = struct.Struct('<HQ')
HISTOGRAMS = {1: 'queue', 2: 'run', 3: 'cpu', 4: 'output'}


def _bucket_low(index: int) -> int:
    shift = max(0, index // 32 - 1)
    return index - 32 * shift << shift


def _histogram(m: Mapping[str, Any], body: bytes, unit: float) -> Histogram:
    buckets = tuple((_bucket_low(index) * unit, (_bucket_low(index + 1) - 1) * unit, n) for index, n in BUCKET.iter_unpack(body))
    return Histogram(count=sum(n for _, _, n in buckets), sum=m['sum'] * unit, max=m['max'] * unit, buckets=buckets)


def function_stats(m: Mapping[str, Any], body: bytes) -> FunctionStats:
    """Of a message FunctionStats and its body."""
    histograms: Dict[str, Any] = {}
    at = 0
    for one in m['histograms']:
        end = at + one['buckets'] * BUCKET.size
        if end > len(body):
            raise ProtocolError('fewer buckets than it says', code=76)
        if one['kind'] in HISTOGRAMS:
            histograms[HISTOGRAMS[one['kind']]] = _histogram(one, body[at:end], 1 if one['kind'] == 4 else 1e-6)
        at = end
    outcomes = ('succeeded', 'failed', 'cancelled', 'timed_out', 'crashed', 'interrupted', 'refused', 'direct')
    return FunctionStats(plugin=shown(m['plugin']), function=shown(m['function']), uid=m['uid'],
                         **{name: m[name] for name in outcomes}, **histograms)


def functions_fields(name: Union[str, 'os.PathLike[str]'], uid: Optional[int]) -> Dict[str, Any]:
    """The fields of a Functions."""
    fields: Dict[str, Any] = {}
    if name:
        fields['plugin'], fields['function'] = split_name(name)
    if uid is not None:
        fields['by_uid'], fields['uid'] = True, whole(uid, 'uid', 0, 0xffffffff)
    return fields


class Options(TypedDict, total=False):
    """What a submit may ask for, as the long options of `wsctl submit`. Since 0.1.

    Durations are seconds or a timedelta.
    """

    detach: bool  #: the job outlives the connection; its result is kept for some minutes
    timeout: Optional[Duration]  #: of its run time, for each try
    priority: int  #: -100 to 100, higher first
    delay: Optional[Duration]  #: not before so long
    at: Union[datetime.datetime, float, None]  #: not before; a datetime without a zone is local, a number is since the epoch
    max_wait: Optional[Duration]  #: the longest time in the queue; beyond it the job ends as timed out
    wait_runner: bool  #: where no runner of the name is connected: waits in the queue until one is
    durable: bool  #: accepted when it is on disk; it and its result outlive wsd
    key: Union[str, bytes, None]  #: a second submit with the same key is the same job
    retries: int  #: tried again so often after it ended badly
    retry_delay: Optional[Duration]  #: the first pause before that, one second by default
    retry_on: Union[str, State, Iterable[Union[str, State]], None]  #: ends that count as badly
    after: Union[JobId, Iterable[JobId], None]  #: held until these have succeeded
    after_any: Union[JobId, Iterable[JobId], None]  #: held until these have ended, however
    tag: Union[str, Iterable[str], None]  #: at most three names for limits and pauses
    traceparent: Optional[str]  #: the trace that it belongs to, as W3C Trace Context writes it
    progress: bool  #: wsd tells the job's progress while it runs


def usec(value: Duration, name: str, most: int) -> int:
    """A duration in microseconds, above 0."""
    seconds = value.total_seconds() if isinstance(value, datetime.timedelta) else value
    n = round(seconds * 1e6)
    if not 1 <= n <= most:
        raise ValueError(f'{name}: not a duration from a microsecond to {most // 1_000_000} seconds: {value!r}')
    return n


def file_bytes(value: Argument) -> bytes:
    """An argument, a name or a path as bytes."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, int):
        return b'%d' % value
    return os.fsencode(value)


def whole(value: int, name: str, least: int, most: int) -> int:
    """The number, if it is one from least to most."""
    if not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f'{name}: not a number from {least} to {most}: {value!r}')
    return value


def id_bytes(value: JobId) -> bytes:
    """The 16 bytes of an id."""
    text = value if isinstance(value, str) else value.id
    if not re.fullmatch('[0-9a-f]{32}', text):
        raise ValueError(f'not the id of a job, 32 hexadecimal digits: {text!r}')
    return bytes.fromhex(text)


def _ids(value: Union[JobId, Iterable[JobId], None]) -> bytes:
    if value is None:
        return b''
    one: Any = value
    if isinstance(value, str) or hasattr(value, 'id'):
        return id_bytes(one)
    return b''.join(map(id_bytes, one))


def _retry_on(value: Union[str, State, Iterable[Union[str, State]]]) -> int:
    if isinstance(value, str):
        value = value.split(',')
    elif isinstance(value, State):
        value = (value,)
    mask = 0
    for one in value:
        found = [s for s in RETRY_STATES if one == s or one == s.label]
        if not found:
            raise ValueError(f'retry_on: not an end that counts: {one!r}; write some of failed, timed-out, crashed, interrupted')
        mask |= 1 << found[0]
    return mask


def _tags(value: Union[str, Iterable[str]]) -> bytes:
    tags = [value] if isinstance(value, str) else list(value)
    if len(tags) > 3 or not all(re.fullmatch('[A-Za-z0-9._-]{1,63}', tag) for tag in tags):
        raise ValueError(f'tag: at most 3, each of 1 to 63 letters, digits, dots, underscores and hyphens: {value!r}')
    return ','.join(tags).encode()


def split_name(name: Union[str, 'os.PathLike[str]']) -> Tuple[bytes, bytes]:
    """PLUGIN[:FUNCTION], as bytes each."""
    text = os.fsencode(name)
    plugin_name, colon, function = text.rpartition(b':')
    if not colon or b'/' in function:
        plugin_name, function = text, b''
    elif not function:
        raise ValueError(f'no function after the colon: {name!r}')
    if not plugin_name or len(plugin_name) > 4095 or len(function) > 63 or b'\0' in text:
        raise ValueError(f'not the name of a plugin and its function: {name!r}')
    return plugin_name, function


DETACH, PROGRESS, MORE, DURABLE, NO_ACCEPTED, WAIT_RUNNER = 1, 2, 4, 8, 16, 64  # flags of a SUBMIT


def _traceparent(value: str) -> bytes:
    """Checked as wsd does."""
    if not re.fullmatch('00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}', value):
        raise ValueError(f'traceparent: not one of W3C Trace Context, version 00: {value!r}')
    return value.encode()


def submit_fields(name: Union[str, 'os.PathLike[str]'], options: Mapping[str, Any]) -> Dict[str, Any]:
    """The fields of a Submit without args. ValueError or TypeError says which option is wrong."""
    fields: Dict[str, Any] = {}
    fields['plugin'], fields['function'] = split_name(name)
    flags = 0
    for option, value in options.items():
        if option not in Options.__annotations__:
            raise TypeError(f'{option}: there is no such option of a submit')
        if value is None or value is False:
            continue
        if option == 'detach':
            flags |= DETACH
        elif option == 'durable':
            flags |= DURABLE
        elif option == 'progress':
            flags |= PROGRESS
        elif option == 'wait_runner':
            flags |= WAIT_RUNNER
        elif option == 'timeout':
            fields['timeout_usec'] = usec(value, option, 1 << 62)
        elif option == 'priority':
            fields['priority'] = whole(value, option, -100, 100)
        elif option == 'delay':
            fields['delay_usec'] = usec(value, option, YEARS_TEN)
        elif option == 'at':
            seconds = value.timestamp() if isinstance(value, datetime.datetime) else value
            if not 0 < seconds < 253_402_300_800:
                raise ValueError(f'at: not a time before the year 10000: {value!r}')
            fields['at_usec'] = round(seconds * 1e6)
        elif option == 'max_wait':
            fields['queue_usec'] = usec(value, option, YEARS_TEN)
        elif option == 'key':
            key = file_bytes(value)
            if not 1 <= len(key) <= 255 or b'\0' in key:
                raise ValueError('key: 1 to 255 bytes')
            fields['key'] = key
        elif option == 'retries':
            fields['retries'] = whole(value, option, 0, 1000)
        elif option == 'retry_delay':
            fields['retry_usec'] = usec(value, option, 86_400_000_000)
        elif option == 'retry_on':
            fields['retry_on'] = _retry_on(value)
        elif option == 'traceparent':
            fields['traceparent'] = _traceparent(value)
        elif option == 'tag':
            fields['tags'] = _tags(value)
        else:
            fields[option] = _ids(value)
    if 'delay_usec' in fields and 'at_usec' in fields:
        raise ValueError('delay and at: only one of the two')
    if len(fields.get('after', b'')) + len(fields.get('after_any', b'')) > 16 * 1024:
        raise ValueError('after and after_any: at most 1024 ids together')
    fields['flags'] = flags
    return fields


def args_field(args: Sequence[Argument]) -> bytes:
    """The arguments of a Submit, encoded."""
    out: List[bytes] = []
    size = 0
    for arg in args:
        data = file_bytes(arg)
        if b'\0' in data:
            raise ValueError(f'an argument has a NUL: {arg!r}')
        size += len(data) + 1
        out.append(_wire.text_field(3, data))
    if len(out) > 4096 or size > 49152:
        raise ValueError('at most 4096 arguments, of 49152 bytes together')
    return b''.join(out)
