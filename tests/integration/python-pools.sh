#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# python-pools.sh: wsd.Executor, joblib, and runner processes of the Python package, by pytest.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/python.sh"

python_cases "$SRC"/tests/python/test_{executor,joblib,run}.py "$@"
