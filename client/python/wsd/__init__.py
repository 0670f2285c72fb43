# SPDX-License-Identifier: Apache-2.0
"""wsd: hand native work to the resident work-stealing pool of this machine.

    import wsd

    with wsd.Client() as client:
        print(client.call('fib', 25))
        job = client.submit('sort', input=b'b\\na\\n')
        print(job.result())

`wsd.aio` is the same for asyncio. The guide is packaging/doc/python.md. Since 0.1.
"""
from typing import Type

from ._client import Client, Job
from ._errors import (BadRequest, Cancelled, ClosedError, ConnectionLost, Crashed, Error, Failed, ForkedError, Interrupted, JobError,
                      NoDaemon, NotFound, NotPermitted, ProtocolError, Refused, TimedOut)
from ._runner import Runner
from ._task import Task, TaskCancelled, TaskFailed, TaskJob, task
from ._types import Function, JobInfo, Message, Options, Plugin, Progress, State
from ._version import VERSION as __version__

connect = Client

__all__ = ['BadRequest', 'Cancelled', 'Client', 'ClosedError', 'ConnectionLost', 'Crashed', 'Error', 'Failed', 'ForkedError', 'Function',
           'Interrupted', 'Job', 'JobError', 'JobInfo', 'Message', 'NoDaemon', 'NotFound', 'NotPermitted', 'Options', 'Plugin', 'Progress',
           'ProtocolError', 'Refused', 'Runner', 'State', 'Task', 'TaskCancelled', 'TaskFailed', 'TaskJob', 'TimedOut', '__version__',
           'connect', 'task']

_error: Type[Exception]
for _error in (BadRequest, Cancelled, ClosedError, ConnectionLost, Crashed, Error, Failed, ForkedError, Interrupted, JobError, NoDaemon,
               NotFound, NotPermitted, ProtocolError, Refused, TaskCancelled, TaskFailed, TimedOut):
    _error.__module__ = 'wsd'  # where a traceback, and a reader of one, finds it
del _error
