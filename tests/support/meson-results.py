#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""meson-results.py: reads meson's testlog.json for tests/run.

  meson-results.py FILE                 a line a test: NAME TAB PASSED TAB FAILED TAB SKIPPED TAB WHY
  meson-results.py --output NAME FILE   what that test said

A test that ends with check's own line counts each of its cases; any other counts once."""
import json
import re
import sys

CHECK_LINE = re.compile(r'^\d+%: Checks: (\d+), Failures: (\d+), Errors: (\d+)', re.M)


def counts(test):
    result = test['result']
    if result == 'SKIP':
        return 0, 0, 1, 'skipped by itself'
    passed = failed = 0
    for total, failures, errors in CHECK_LINE.findall(test.get('stdout') or ''):
        bad = int(failures) + int(errors)
        passed += int(total) - bad
        failed += bad
    good = result in ('OK', 'EXPECTEDFAIL')
    if good and passed + failed == 0:
        passed = 1
    if not good and failed == 0:
        failed = 1
    why = '' if good else '%s, exit status %s' % (result.lower(), test.get('returncode'))
    return passed, failed, 0, why


def main():
    output = None
    args = sys.argv[1:]
    if args[0] == '--output':
        output, args = args[1], args[2:]
    for line in open(args[0], encoding='utf-8', errors='replace'):
        if not line.strip():
            continue
        test = json.loads(line)
        name = test['name'].split(' / ')[-1]
        if output is None:
            print('\t'.join([name] + [str(c) for c in counts(test)]))
        elif output == name:
            print((test.get('stdout') or '') + (test.get('stderr') or ''))


main()
