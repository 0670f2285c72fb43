#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# python.sh: the Python package of client/python: its own tests by pytest, against daemons that they start, and its types
# by mypy. PYTHON: another interpreter than Debian's.
. "$(dirname "$0")/../support/lib.sh"

PYTHON=${PYTHON:-/usr/bin/python3}
[ -x "$PYTHON" ] || PYTHON=python3
export WSD_LIBWSCLIENT=$BUILD/client/libwsclient.so.0 PYTHONDONTWRITEBYTECODE=1

if ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  skip "the Python package" "needs Python 3.11; $PYTHON is $("$PYTHON" --version)"
  exit
fi

if "$PYTHON" -c 'import mypy' 2>/dev/null; then
  check "mypy --strict" "$PYTHON" -m mypy --strict --enable-incomplete-feature=Unpack --cache-dir "${WSD_PASSED_BEFORE:-$WORK}/mypy" "$SRC/client/python/wsd"
else
  skip "mypy --strict" "there is no mypy here (packaging/install-deps test)"
fi

# In a copy, since setuptools builds beside its source. Without network.
wheel() {
  local version
  version=$(sed -n "s/^VERSION = '\(.*\)'/\1/p" "$SRC/client/python/wsd/_version.py")
  rm -rf "$WORK/sdist" && cp -r "$SRC/client/python" "$WORK/sdist" && find "$WORK/sdist" -name __pycache__ -prune -exec rm -r {} + &&
    "$PYTHON" -m build --no-isolation --outdir "$WORK/dist" "$WORK/sdist" || return 1
  "$PYTHON" -m zipfile -l "$WORK/dist/wsd-$version-py3-none-any.whl" >"$WORK/wheel" || return 1
  [ "$(grep -c '^wsd/' "$WORK/wheel")" = "$(git -C "$SRC" ls-files client/python/wsd | wc -l)" ] && grep -q '^wsd/py.typed' "$WORK/wheel" &&
    [ -s "$WORK/dist/wsd-$version.tar.gz" ] && PYTHONPATH=$WORK/dist/wsd-$version-py3-none-any.whl "$PYTHON" -c 'import wsd.aio'
}
if "$PYTHON" -c 'import build, setuptools, wheel' 2>/dev/null; then
  check "sdist and wheel" wheel
else
  skip "sdist and wheel" "there is no python3-build, python3-setuptools or python3-wheel here (packaging/install-deps test)"
fi

if ! "$PYTHON" -c 'import pytest' 2>/dev/null; then
  skip "tests/python" "there is no pytest here (packaging/install-deps test)"
  exit
fi
# A sanitizer must be the first library of a process, and Python is not built with one.
if nm -D "$WSD_LIBWSCLIENT" 2>/dev/null | grep -E ' (__asan|__tsan|__ubsan)' >/dev/null; then
  export WSD_LIBWSCLIENT=
fi
(cd "$SRC" && timeout $((300 * TIME_SCALE)) "$PYTHON" -X dev -W error -m pytest -p no:cacheprovider -p no:terminal -W error \
  "$SRC/tests/python" "$@") >"$WORK/cases" 2>"$WORK/cases.err" </dev/null || n_failed=$((n_failed + 1))
cat "$WORK/cases"
[ "$n_failed" = 0 ] || show "$WORK/cases.err"
grep -q '^ok ' "$WORK/cases" || fail "tests/python" "no test has run"
for log in "$WORK"/python-*/log; do
  clean_log "$log"
done
