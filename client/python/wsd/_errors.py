# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, a class each. All of them are an `Error`."""
from __future__ import annotations

from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from ._types import JobInfo


class Error(Exception):
    """The base of all errors of this package.

    `text` has wsd's words, one line. `code` is the exit code that wsctl(1) has for it. `job` is what is known of the
    job, or None if there is no job. `accepted` tells whether wsd had accepted the job. Since 0.1.
    """

    def __init__(self, text: str, *, code: int = 70, job: Optional[JobInfo] = None, accepted: bool = False) -> None:
        super().__init__(text)
        self.text = text
        self.code = code
        self.job = job
        self.accepted = accepted


class JobError(Error):
    """The base of the ends of a job that are no success. `job` says more. Since 0.1."""


class Failed(JobError):
    """The job's function says that it failed. `status` is its status, 1 to 63. `said` is the text it set. Since 0.1."""

    @property
    def status(self) -> int:
        """The job's own status, 1 to 63. 63 is also a failure that has no status of its own. Since 0.1."""
        return self.code

    @property
    def said(self) -> str:
        """The text that the function set, or the empty string. Since 0.1."""
        return self.job.status if self.job else ''


class Crashed(JobError):
    """The job took its executor down. `backtrace` has the place. Since 0.1."""

    @property
    def backtrace(self) -> str:
        """A line for each frame of the stack, innermost first. Since 0.1."""
        return self.job.backtrace if self.job else ''


class TimedOut(JobError):
    """The job ran, or waited in the queue, for longer than it may. Since 0.1.

    Python's own TimeoutError is something else: a wait was given up, and the job goes on.
    """


class Cancelled(JobError):
    """The job was cancelled. Since 0.1."""


class Interrupted(JobError):
    """It is not known how the job ended, or it may have run in part. Do not repeat it blindly. Since 0.1."""


class Refused(Error):
    """wsd did not take the request, and did nothing.

    `code` 75: for now; try again after `retry_after`. `retry_after` is in seconds, or None if wsd does not know.
    Since 0.1.
    """

    def __init__(self, text: str, *, code: int = 75, retry_after: Optional[float] = None, job: Optional[JobInfo] = None,
                 accepted: bool = False) -> None:
        super().__init__(text, code=code, job=job, accepted=accepted)
        self.retry_after = retry_after


class BadRequest(Refused):
    """The request is wrong (64). Since 0.1."""


class NotFound(Refused):
    """There is no such plugin, function, job or file (66). Since 0.1."""


class NotPermitted(Refused):
    """This user may not do that (77). Since 0.1."""


class NoDaemon(Error, ConnectionError):
    """There is no wsd at the socket (69). Since 0.1."""


class ConnectionLost(Error, ConnectionError):
    """The connection ended before the answer came.

    A job that was accepted may or may not have run. So may one that was not accepted. `job.id` names it if it is
    known. Since 0.1.
    """


class ProtocolError(Error):
    """The other side broke a rule of the protocol, or says that this side did. The connection is over. Since 0.1."""


class ClosedError(Error):
    """The client was closed by this program. Since 0.1."""


class ForkedError(Error, RuntimeError):
    """The client belongs to the parent of this process. Connect anew in the child. Since 0.1."""
