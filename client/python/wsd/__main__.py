# SPDX-License-Identifier: Apache-2.0
"""python3 -m wsd: serves tasks in Python. Exit codes are those of wsctl(1)."""
from __future__ import annotations

import argparse
import os
import sys
from typing import List, NoReturn, Optional

from ._runner import THREADS_MAX, check_name
from ._serve import Served, Unusable, serve, tasks_in
from ._supervise import CHILDREN_MAX, Supervisor
from ._version import VERSION


class Parser(argparse.ArgumentParser):
    """Exits with 64 for a wrong use."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(64, f'wsd: {message}; see python3 -m wsd --help\n')


def parser() -> Parser:
    """Of the command line."""
    found = Parser(prog='python3 -m wsd', description='Serves tasks in Python. See python.md.')
    found.add_argument('--version', action='version', version=f'python-wsd {VERSION}')
    verbs = found.add_subparsers(dest='verb', required=True, metavar='VERB', parser_class=Parser)
    run = verbs.add_parser('run', help='serves the tasks of a module until SIGTERM or SIGINT',
                           description='Serves the tasks of a module until SIGTERM or SIGINT. A second one kills.')
    run.add_argument('module', metavar='MODULE[:ATTR]', help='a module, or a task or an object with tasks in it')
    run.add_argument('--processes', type=int, metavar='N', help='as many as the CPUs that it may use, by default')
    run.add_argument('--threads', type=int, default=1, metavar='N', help='jobs at once in each process; 1 by default')
    run.add_argument('--name', help='instead of the name of the module')
    run.add_argument('--reload', action='store_true', help='starts anew when a file of the imported modules changes')
    run.add_argument('--socket', metavar='PATH', help="wsd's socket")
    run.add_argument('--verbose', action='store_true', help='says when all processes take jobs, also where stderr is no terminal')
    tasks = verbs.add_parser('tasks', help='lists the tasks of a module', description='Lists the tasks of a module.')
    tasks.add_argument('module', metavar='MODULE[:ATTR]')
    return found


def run_tasks(options: argparse.Namespace, wrong: Parser) -> int:
    """`run`"""
    module = options.module.partition(':')[0]
    name = options.name or module
    n = options.processes if options.processes is not None else len(os.sched_getaffinity(0))
    if not module or module.startswith('.') or '/' in module:
        wrong.error(f'{options.module!r} is no MODULE[:ATTR]: write it as import does, such as package.module')
    if not 1 <= n <= CHILDREN_MAX:
        wrong.error(f'--processes: not a number from 1 to {CHILDREN_MAX}')
    if not 1 <= options.threads <= THREADS_MAX:
        wrong.error(f'--threads: not a number from 1 to {THREADS_MAX}')
    try:
        check_name(name)
    except ValueError as error:
        wrong.error(str(error))
    what = Served(options.module, name, options.threads, options.socket, options.reload)
    said: List[int] = []  # slots of those that took jobs when it was said

    def tell() -> None:
        ready = supervisor.ready_slots()
        if len(ready) == n and ready != said:
            said[:] = ready
            print(f'wsd: {name}: {n} {"processes take" if n > 1 else "process takes"} jobs', file=sys.stderr, flush=True)
    supervisor = Supervisor(n, lambda _: serve(what, supervisor.ready), again=options.reload,
                            look=tell if options.verbose or sys.stderr.isatty() else None)
    return supervisor.run()


def list_tasks(target: str) -> int:
    """`tasks`"""
    found = tasks_in(target)
    width = max(len(one.name) for one in found)
    for one in found:
        kinds = ', '.join(word for word, on in (('idempotent', one.idempotent), ('streaming', one.streaming)) if on)
        print(f'{one.name:{width}}  {one.help}{f" ({kinds})" if kinds else ""}'.rstrip())
    return 0


def main(arguments: Optional[List[str]] = None) -> int:
    """Returns the exit status."""
    wrong = parser()
    options = wrong.parse_args(arguments)
    try:
        return run_tasks(options, wrong) if options.verb == 'run' else list_tasks(options.module)
    except Unusable as error:
        print(f'wsd: {error}', file=sys.stderr)
        return error.code


if __name__ == '__main__':
    sys.exit(main())
