# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# python.sh: cases of tests/python by pytest. Sourced behind lib.sh. Exits the script, with a skip, where Python or pytest is
# not there. PYTHON: another interpreter than Debian's.

PYTHON=${PYTHON:-/usr/bin/python3}
[ -x "$PYTHON" ] || PYTHON=python3
export WSD_LIBWSCLIENT=$BUILD/client/libwsclient.so.0 PYTHONDONTWRITEBYTECODE=1

if ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  skip "the Python package" "needs Python 3.11; $PYTHON is $("$PYTHON" --version)"
  exit
fi
# A sanitizer must be the first library of a process, and Python is not built with one.
if nm -D "$WSD_LIBWSCLIENT" 2>/dev/null | grep -E ' (__asan|__tsan|__ubsan)' >/dev/null; then
  export WSD_LIBWSCLIENT=
fi

# These files, and what logs the daemons have left that they started.
python_cases() { # FILE...
  local log status=0
  if ! "$PYTHON" -c 'import pytest' 2>/dev/null; then
    skip "tests/python" "there is no pytest here (packaging/install-deps test)"
    return
  fi
  (cd "$SRC" && timeout $((600 * TIME_SCALE)) "$PYTHON" -X dev -W error -m pytest -p no:cacheprovider -p no:terminal -W error \
    "$@") >"$WORK/cases" 2>"$WORK/cases.err" </dev/null || status=$?
  cat "$WORK/cases"
  if [ "$status" != 0 ]; then
    n_failed=$((n_failed + 1))
    echo "pytest: exit status $status$([ "$status" = 124 ] && echo ": its time was up")"
    show "$WORK/cases.err"
  fi
  grep -q '^ok ' "$WORK/cases" || fail "tests/python" "no test has run"
  for log in "$WORK"/python-*/log; do
    clean_log "$log"
  done
}
