# SPDX-License-Identifier: Apache-2.0
"""A backend of joblib: what joblib.Parallel does, over the pool of wsd.Executor.

    import joblib
    import wsd.joblib

    wsd.joblib.register()
    with joblib.parallel_backend('wsd'):
        joblib.Parallel(n_jobs=-1)(joblib.delayed(pow)(n, 2) for n in range(100))

Since 0.1.
"""
from __future__ import annotations

import os
from concurrent import futures
from typing import Any, Callable, Optional

from joblib import register_parallel_backend  # type: ignore[import]
from joblib._parallel_backends import AutoBatchingMixin, ParallelBackendBase  # type: ignore[import]

from ._executor import Executor


class Outcome:
    """What joblib takes the results of a batch from."""

    def __init__(self, future: futures.Future[Any]) -> None:
        self._future = future

    def get(self, timeout: Optional[float] = None) -> Any:
        """Waits for them. Raises TimeoutError."""
        return self._future.result(timeout)


class Backend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]
    """As joblib wants it. `options` are those of wsd.Executor. Since 0.1."""

    supports_timeout = True
    _executor: Optional[Executor] = None

    def __init__(self, nesting_level: Optional[int] = None, inner_max_num_threads: Optional[int] = None, **options: Any) -> None:
        super().__init__(nesting_level=nesting_level, inner_max_num_threads=inner_max_num_threads)
        self._options = options

    def effective_n_jobs(self, n_jobs: Optional[int]) -> int:
        """How many at once. Negative: that many less than there are CPUs, and one more."""
        if n_jobs == 0:
            raise ValueError('n_jobs: not 0')
        if n_jobs is None:
            return 1
        return n_jobs if n_jobs > 0 else max(len(os.sched_getaffinity(0)) + 1 + n_jobs, 1)

    def configure(self, n_jobs: int = 1, parallel: Any = None, prefer: Any = None, require: Any = None, **unused: Any) -> int:
        """A call of Parallel, or some of them, begin."""
        n = self.effective_n_jobs(n_jobs)
        self.parallel = parallel
        self._executor = Executor(n, **self._options)
        return n

    def apply_async(self, func: Callable[[], Any], callback: Optional[Callable[[Any], None]] = None) -> Outcome:
        """Runs a batch."""
        assert self._executor is not None
        future = self._executor.submit(func)
        if callback is not None:
            future.add_done_callback(callback)
        return Outcome(future)

    def terminate(self) -> None:
        """They have ended."""
        if self._executor is not None:
            self._executor.shutdown(wait=False)
            self._executor = None
        self.reset_batch_stats()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """One has failed: those that wait do not run."""
        if self._executor is not None:
            n = self._executor._max_workers
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._executor = None
            if ensure_ready:
                self.configure(n, self.parallel)


def register(name: str = 'wsd', *, make_default: bool = False) -> None:
    """From now on joblib knows the backend by this name. Since 0.1."""
    register_parallel_backend(name, Backend, make_default)
