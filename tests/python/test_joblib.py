# SPDX-License-Identifier: Apache-2.0
"""The backend of joblib."""
import os

import pytest

import wsd

joblib = pytest.importorskip('joblib', reason='there is no joblib here (packaging/install-deps test)')


@pytest.fixture
def parallel(shared, tmp_path, monkeypatch):
    import wsd.joblib
    monkeypatch.setenv('XDG_RUNTIME_DIR', str(tmp_path))
    wsd.joblib.register()
    with joblib.parallel_backend('wsd', n_jobs=2, socket=shared.socket, idle=1):
        yield joblib.Parallel()


def test_it_does_as_joblib_does(parallel):
    assert parallel(joblib.delayed(pow)(n, 2) for n in range(500)) == [n * n for n in range(500)]
    assert os.getpid() not in parallel(joblib.delayed(os.getpid)() for _ in range(10))


def test_an_exception_is_raised_and_the_rest_is_left(parallel):
    with pytest.raises(ZeroDivisionError):
        parallel(joblib.delayed(divmod)(1, n) for n in (1, 2, 0, 4))
    assert parallel(joblib.delayed(abs)(n) for n in range(5)) == [0, 1, 2, 3, 4]


def test_a_process_that_dies_is_an_error(parallel):
    with pytest.raises(wsd.WorkerDied):
        parallel(joblib.delayed(os._exit)(1) for _ in range(2))
