# SPDX-License-Identifier: Apache-2.0
"""wsd: hand native work to the resident work-stealing pool of this machine.

    import wsd

    with wsd.Client() as client:
        print(client.call('fib', 25))
        job = client.submit('sort', input=b'b\\na\\n')
        print(job.result())

`wsd.aio` is the same for asyncio. The guide is packaging/doc/python.md. Since 0.1.
"""
from typing import TYPE_CHECKING, Any, Type

from ._client import Client, Job
from ._errors import (BadRequest, Cancelled, ClosedError, ConnectionLost, Crashed, Error, Failed, ForkedError, Interrupted, JobError,
                      NoDaemon, NotFound, NotPermitted, ProtocolError, Refused, TimedOut)
from ._memory import Memory
from ._profile import FunctionSamples, Profile
from ._runner import Runner
from ._task import Task, TaskCancelled, TaskFailed, TaskJob, task
from ._types import Action, Function, FunctionStats, Histogram, JobInfo, Message, Options, Plugin, Progress, State
from ._version import VERSION as __version__

if TYPE_CHECKING:
    from ._executor import Executor, WorkerDied

connect = Client


def __getattr__(name: str) -> Any:
    """Of the executor when it is first wanted: concurrent.futures takes its time."""
    if name in ('Executor', 'WorkerDied'):
        from . import _executor
        _executor.Executor.__module__ = _executor.WorkerDied.__module__ = 'wsd'
        globals().update(Executor=_executor.Executor, WorkerDied=_executor.WorkerDied)
        return globals()[name]
    raise AttributeError(f'module wsd has no attribute {name}')


__all__ = ['Action', 'BadRequest', 'Cancelled', 'Client', 'ClosedError', 'ConnectionLost', 'Crashed', 'Error', 'Executor', 'Failed', 'ForkedError',
           'Function', 'FunctionSamples', 'FunctionStats', 'Histogram', 'Interrupted', 'Job', 'JobError', 'JobInfo', 'Memory', 'Message', 'NoDaemon', 'NotFound', 'NotPermitted', 'Options', 'Plugin',
           'Profile', 'Progress', 'ProtocolError', 'Refused', 'Runner', 'State', 'Task', 'TaskCancelled', 'TaskFailed', 'TaskJob', 'TimedOut',
           'WorkerDied', '__version__', 'connect', 'task']

_error: Type[Exception]
for _error in (BadRequest, Cancelled, ClosedError, ConnectionLost, Crashed, Error, Failed, ForkedError, Interrupted, JobError, NoDaemon,
               NotFound, NotPermitted, ProtocolError, Refused, TaskCancelled, TaskFailed, TimedOut):
    _error.__module__ = 'wsd'  # where a traceback, and a reader of one, finds it
del _error
