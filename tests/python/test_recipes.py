# SPDX-License-Identifier: Apache-2.0
"""The recipes of packaging/doc/python-recipes.md: their files and their commands as they are printed, on real data.

A recipe's blocks of Python are files, and its shell block is run by bash in their directory. Two things are not as printed:
after a line that starts a server, the test waits until the server is there; and port 8000 is a free one.
"""
import csv
import fcntl
import json
import math
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys

import pytest

import wsd
from conftest import LIMIT, SRC, wait_until
from wsd import _pool

with open(os.path.join(SRC, 'packaging/doc/python-recipes.md'), encoding='utf-8') as guide:
    TEXT = guide.read()
RECIPES = [part.partition('\n') for part in re.split(r'^## \d+\. ', TEXT, flags=re.M)[1:]]
LINES_MAX = 30  # of Python in a recipe

# What stands around a recipe's commands. `served` waits for the server of the line before it; `pids` are those of a runner.
BEFORE = '''
set -eu -o pipefail
pids() {
  wsctl plugin show "$1" 2>/dev/null | grep -o 'pid=[0-9]*' | cut -d = -f 2
}
trap 'status=$?; jobs -p | xargs -r kill; wait; exit $status' EXIT
served() {
  local found=''
  until [ "$found" ]; do
    kill -0 $!
    case $1 in
      *'wsd run '*) found=$(pids "$2") || : ;;
      *) (: <>/dev/tcp/127.0.0.1/$2) 2>/dev/null && found=yes ;;
    esac
    [ "$found" ] || sleep 0.05
  done
}
'''


def blocks(number, kind):
    return re.findall(rf'^```{kind}\n(.*?)^```', RECIPES[number - 1][2], re.S | re.M)


class Recipe:
    """The files of a recipe in a directory, to be run there."""

    def __init__(self, number, directory, daemon):
        self.number, self.directory, self.daemon = number, directory, daemon
        self.files = dict(re.fullmatch(r'# ([^\n]+)\n(.*)', block, re.S).groups() for block in blocks(number, 'python'))
        for name, text in self.files.items():
            if name.endswith('.py'):
                (directory / name).write_text(text, encoding='utf-8')
        (directory / 'bin').mkdir()
        (directory / 'bin/python3').write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        (directory / 'bin/python3').chmod(0o755)

    def run(self, *more, port=0, warnings='error', quiet=True):
        """Its commands, and `more`. Returns what they print."""
        commands = ''.join(blocks(self.number, 'sh')).replace('8000', str(port or 8000))
        commands = re.sub(r'^(python3 .*?)(?: --.*)? &$', lambda m: f"{m[0]}\nserved '{m[1]}' {m[1].split()[-1]}", commands, flags=re.M)
        env = {**os.environ, 'WSD_SOCKET': self.daemon.socket, 'PYTHONPATH': os.path.join(SRC, 'client/python'), 'PYTHONDEVMODE': '1',
               'PYTHONWARNINGS': warnings, 'PATH': f'{self.directory}/bin:{os.environ["PATH"]}', 'XDG_RUNTIME_DIR': str(self.directory)}
        with subprocess.Popen(['bash', '-c', BEFORE + commands + '\n'.join(more)], cwd=self.directory, env=env, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True) as bash:
            try:
                printed, errors = bash.communicate(timeout=3 * LIMIT)  # a recipe starts several Pythons
            except subprocess.TimeoutExpired:
                os.killpg(bash.pid, signal.SIGKILL)
                pytest.fail('it takes too long: ' + ' '.join(bash.communicate()))
        assert bash.returncode == 0 and not (quiet and errors), f'{bash.returncode}: {printed} {errors}'
        return printed


@pytest.fixture
def recipe(shared, tmp_path):
    return lambda number: Recipe(number, tmp_path, shared)


def wants(*modules):
    """Skips the test where one is missing."""
    for name in modules:
        if subprocess.run([sys.executable, '-c', f'import {name}'], capture_output=True, check=False).returncode:
            pytest.skip(f'there is no python3-{name.lower()} here (packaging/install-deps examples)')


def free_port():
    with socket.socket() as found:
        found.bind(('127.0.0.1', 0))
        return found.getsockname()[1]


def end_pool(runtime):
    """That of wsd.Executor goes when it is idle; this one goes now."""
    for path in runtime.glob('wsd-python/*.lock'):
        with open(path, 'r+b') as lock:
            kind, _, _, _, pid = _pool.LOCK.unpack(fcntl.fcntl(lock, fcntl.F_GETLK, _pool.LOCK.pack(fcntl.F_WRLCK, 0, 0, 0, 0)))
            if kind != fcntl.F_UNLCK:
                os.kill(pid, signal.SIGTERM)
                wait_until(lambda pid=pid: not os.path.exists(f'/proc/{pid}'))


# --- of all -----------------------------------------------------------------------------------------------------------

def test_there_are_ten():
    assert len(RECIPES) == 10
    assert [number for number, (title, _, _) in enumerate(RECIPES, 1) if f'test_{number}_' not in ' '.join(globals())] == []


@pytest.mark.parametrize('number', range(1, 11))
def test_each_is_short_and_says_what_a_death_costs(number):
    code = [line for block in blocks(number, 'python') for line in block.splitlines()[1:] if line.strip()]
    assert 0 < len(code) <= LINES_MAX
    prose = re.sub(r'\s+', ' ', re.sub(r'^```.*?^```', '', RECIPES[number - 1][2], flags=re.S | re.M))
    assert re.search(r'(Use|Move) .*[Ww]hen [^.;]* dies', prose)


# --- each -------------------------------------------------------------------------------------------------------------

def test_1_thumbnails(recipe, tmp_path):
    wants('PIL')
    from PIL import Image
    folder = tmp_path / 'holiday'
    folder.mkdir()
    for n in range(8):
        Image.effect_noise((500 + n, 400), 50).save(folder / f'{n}.jpg')
    Image.new('RGBA', (64, 640), (255, 0, 0, 128)).save(folder / 'tower.png')
    (folder / 'broken.jpg').write_bytes(b'no picture')
    assert (folder / '0.jpg').stat().st_size > 60 << 10  # so that it goes as a descriptor
    printed = recipe(1).run()
    assert re.fullmatch(r'holiday/broken\.jpg: .*cannot identify image.*\n', printed)
    sizes = {}
    for path in (folder / 'small').iterdir():
        with Image.open(path) as picture:
            assert picture.format == 'JPEG'
            sizes[path.name] = picture.size
    assert sizes == {**{f'{n}.jpg': (128, round(128 * 400 / (500 + n))) for n in range(8)}, 'tower.jpg': (13, 128)}


def test_2_pandas(recipe, tmp_path):
    wants('pandas')
    with open(tmp_path / 'sales.csv', 'w', newline='', encoding='ascii') as file:
        rows = csv.writer(file)
        rows.writerow(['day', 'region', 'amount'])
        rows.writerows([n % 365, ('north', 'south', 'west')[n % 3], n % 7] for n in range(120_000))
    totals = [sum(n % 7 for n in range(first, 120_000, 3)) for first in range(3)]
    wanted = sorted(zip(totals, ('north', 'south', 'west')), reverse=True)
    printed = recipe(2).run(
        'old=$(pids sales); kill -STOP $old',
        'python3 report.py &',
        'until [ "$(wsctl list --state running --plugin sales | wc -l)" = 2 ]; do sleep 0.05; done',
        'kill -KILL $old; wait $!', quiet=False).splitlines()
    table = [['amount'], ['region'], *([region, str(total)] for total, region in wanted)]
    assert [line.split() for line in printed] == 2 * table


NOTEBOOK = '''
import json
import nbclient, nbformat

class Client(nbclient.NotebookClient):
    def process_message(self, message, *more):
        seen.append(message['content'].get('data', {}).get('text/html', ''))
        return super().process_message(message, *more)

with open('cell', encoding='utf-8') as file:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(file.read())])
seen = []
Client(notebook, timeout=None).execute()
shown, last = notebook.cells[0].outputs
print(json.dumps([[html for html in seen if html], shown['data']['text/html'], last['data']['text/plain']]))
'''


def test_3_notebook(recipe, tmp_path):
    wants('nbclient', 'ipykernel')
    found = recipe(3)
    (tmp_path / 'cell').write_text(found.files['a cell of the notebook'])
    (tmp_path / 'notebook').write_text(NOTEBOOK)
    printed = found.run('HOME=$PWD PYTHONDEVMODE= PYTHONWARNINGS=ignore PYDEVD_DISABLE_FILE_VALIDATION=1 python3 notebook')
    seen, shown, last = json.loads(printed)
    assert 'succeeded' in shown and '<progress value="1000000" max="1000000">' in shown
    assert 'open' in seen[0] and len(seen) >= 2
    assert float(last) == pytest.approx(math.pi, abs=0.05)


def test_4_web_app(start, tmp_path):
    if shutil.which('curl') is None:
        pytest.skip('there is no curl here (packaging/install-deps examples)')
    daemon, port = start(), free_port()
    url = f'http://127.0.0.1:{port}'
    printed = Recipe(4, tmp_path, daemon).run(
        f'for n in 1 2; do curl -s -H "Idempotency-Key: one" -d "a b a" {url}; done',
        f'curl -s {url}/jobs/{0:032x}; curl -s {url}/jobs/noise',
        f'kill -KILL {daemon.process.pid}',
        'while wsctl ping >ping 2>&1; do :; done',
        f'{shlex.join(daemon.process.args)} >>{shlex.quote(daemon.dir)}/log 2>&1 &',
        'until wsctl ping >ping 2>&1; do :; done',
        f'curl -s {url}$job', port=port, quiet=False)
    answer, one, same, *others, again = printed.splitlines()
    assert json.loads(answer) == {'state': 'succeeded', 'error': '', 'result': '[["to", 2], ["be", 2], ["or", 1]]'}
    assert re.fullmatch('/jobs/[0-9a-f]{32}', one) and same == one and others == ['no such job'] * 2 and again == answer


def test_5_model(recipe, tmp_path):
    (tmp_path / 'words.txt').write_text('The quick brown fox jumped over the lazy dog, the end.')
    printed = recipe(5).run(
        'python3 ask.py ' + 'teh ' * 300,
        'old=$(pids spell); kill -KILL $old',
        'until new=$(pids spell) && [ "$(printf "%s\\n" $old $new | sort -u | wc -l)" = 4 ]; do sleep 0.05; done',
        'echo then; python3 ask.py teh', quiet=False)
    before, after = printed.split('then\n')
    answers = [line for line in before.splitlines() if line and 'builds' not in line]
    assert answers == ['the quick brown fox', 'jumped over the lazy dog', ' '.join(['the'] * 300)]
    built = re.findall(r'process (\d+) builds the model', before)
    assert 1 <= len(built) <= 2 and len(set(built)) == len(built)
    assert re.fullmatch(r'process \d+ builds the model\nthe\n', after)


def test_6_numba(recipe):
    wants('numba')
    printed = recipe(6).run(warnings='error,ignore::DeprecationWarning')  # llvmlite's own, of importlib
    assert float(printed) == pytest.approx(math.sqrt(0.5), rel=1e-3)


def test_7_retries(recipe, tmp_path):
    printed = recipe(7).run('test $id = $(python3 post.py)', 'wsctl dead list', 'wsctl status --json $id', quiet=False)
    assert re.search(r'^it was tried three times\n.*\n[0-9a-f]{32} +failed .* not delivered: No such file or directory\n', printed)
    assert json.loads(printed.splitlines()[-1])['state'] == 'succeeded'
    assert (tmp_path / 'outbox/letter').read_bytes() == b'Dear Ada\n'
    assert not (tmp_path / 'outbox/letter.new').exists()


def test_8_schedules(recipe, tmp_path):
    import tarfile
    (tmp_path / 'papers').mkdir()
    (tmp_path / 'papers/one').write_text('1')
    printed = recipe(8).run(
        'wsctl await $id || echo "exit $?"', 'wsctl schedule add alone --on yearly no-server:pack',
        'wsctl schedule run alone || echo "exit $?"', 'wsctl schedule list', 'wsctl schedule remove alone', quiet=False)
    with tarfile.open(tmp_path / 'papers.tar.gz') as archive:
        assert archive.getnames() == ['papers', 'papers/one']
    assert re.search(r'^nightly .* succeeded +1 ', printed, re.M) and 'exit 130' in printed  # once.py's, which was cancelled
    assert re.search(r'^exit 66\n(.*\n)+alone .* refused +', printed, re.M), printed
    assert not (tmp_path / 'once.tar.gz').exists()


def test_9_celery(recipe):
    assert recipe(9).run() == '5\n90\n'


def test_10_process_pool(recipe, tmp_path):
    try:
        printed = recipe(10).run().splitlines()
    finally:
        end_pool(tmp_path)
    assert sorted(printed[:3]) == ['10000000001 False', '10000000019 True', '10000000033 True']
    assert printed[3:] == ['one call is lost', '1229 primes']
