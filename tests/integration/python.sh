#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# python.sh: the Python package of client/python: its own tests by pytest, against daemons that they start, and its types
# by mypy. Those of wsd.Executor and of runners are in python-pools.sh.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/python.sh"

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

cases=()
for file in "$SRC"/tests/python/test_*.py; do
  [[ $file =~ /test_(executor|joblib|run).py$ ]] || cases+=("$file")
done
python_cases "${cases[@]}" "$@"
