#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
#
# random-tree.py SEED N FOLDER: a tree of N files, folders, links and FIFOs below FOLDER, the same for the same seed. Names
# are of any bytes, some 255 long; sizes are around blocks; times are before 1970, after 2242, with and without
# fractions.
import os
import random
import sys

SIZES = [0, 1, 511, 512, 513, 4096, 10000, 10240, 100000]


def name_of(dice):
    kind = dice.random()
    if kind < .1:
        return bytes(dice.choices([c for c in range(1, 256) if c != ord('/')], k=dice.randint(1, 255)))
    if kind < .2:
        return dice.choice(['\u00e4\u20ac', '\u540d\u524d', 'new\nline', '..a', 'a..', '.hidden', '-dash', 'a b', '*', '[x]', '\\']).encode()
    return bytes(dice.choices(b'abcXYZ019._-', k=dice.choice([1, 3, 8, 8, 8, 95, 100, 101, 155, 255])))


def time_of(dice):
    seconds = dice.choice([0, -1, -400000000, 1700000000, 1700000000 + dice.randint(0, 1 << 24), 8589934591, 8589934592, 15000000000])
    return seconds * 10**9 + dice.choice([0, 0, 500000000, 1, 123456789, 999999999])


def make(dice, path, files):
    kind = dice.random()
    if kind < .2:
        os.mkdir(path)
        return True
    if kind < .3:
        os.symlink(bytes(dice.choices(b'abc/.\xe9', k=dice.choice([1, 99, 100, 101, 1000]))), path)
    elif kind < .35:
        os.mkfifo(path)
    elif kind < .45 and files:
        os.link(dice.choice(files), path)
    else:
        with open(path, 'wb') as f:
            f.write(dice.randbytes(dice.choice(SIZES)))
        os.chmod(path, dice.choice([0o644, 0o600, 0o755, 0o4755, 0o1777]))
        if os.geteuid() == 0 and dice.random() < .2:
            os.chown(path, dice.choice([0, 1, 65534, 2097151, 2097152, 4000000000]), dice.choice([0, 2097152]))
        files.append(path)
    return False


def main():
    dice = random.Random(int(sys.argv[1]))
    folders, files, paths = [os.fsencode(sys.argv[3])], [], []
    os.makedirs(folders[0], exist_ok=True)
    while len(paths) < int(sys.argv[2]):
        path = dice.choice(folders) + b'/' + name_of(dice)
        if os.path.lexists(path) or path.endswith((b'/.', b'/..')) or len(path) > 3000:
            continue
        if make(dice, path, files):
            folders.append(path)
        paths.append(path)
    for path in reversed(paths):
        time = time_of(dice)
        os.utime(path, ns=(time, time), follow_symlinks=False)


main()
