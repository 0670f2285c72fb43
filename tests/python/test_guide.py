# SPDX-License-Identifier: Apache-2.0
"""Each block of Python in packaging/doc/python.md runs as it stands, in a program of its own."""
import os
import re
import subprocess
import sys

import pytest

from conftest import LIMIT, SRC

with open(os.path.join(SRC, 'packaging/doc/python.md'), encoding='utf-8') as guide:
    TEXT = guide.read()
BLOCKS = re.findall(r'^```python\n(.*?)^```', TEXT, re.S | re.M)


def test_the_guide_has_blocks():
    assert len(BLOCKS) >= 6


@pytest.mark.parametrize('number', range(len(BLOCKS)))
def test_block(shared, tmp_path, number):
    done = subprocess.run([sys.executable, '-X', 'dev', '-W', 'error', '-c', BLOCKS[number]], cwd=tmp_path, capture_output=True, text=True,
                          timeout=LIMIT, check=False,
                          env={**os.environ, 'WSD_SOCKET': shared.socket, 'XDG_RUNTIME_DIR': str(tmp_path),
                               'PYTHONPATH': os.path.join(SRC, 'client/python')})
    assert done.returncode == 0 and done.stderr == '', done.stderr


def test_each_exception_is_in_the_guide():
    import wsd
    for name, one in vars(wsd).items():
        if isinstance(one, type) and issubclass(one, wsd.Error) and name not in ('Error', 'JobError'):
            assert f'`{name}`' in TEXT, name
