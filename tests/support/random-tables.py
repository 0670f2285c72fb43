#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
#
# random-tables.py SEED N DIR: N pairs of tables with options, the same for the same seed, each in DIR/I: the tables `0`
# and `1`, options of uniq in `unique` and of join in `join`, one a line. Most pairs are in the order of a first field;
# some tables have a NUL, some no last newline, some many equal lines.
import os
import random
import sys

ALPHABETS = [b'ab', b'abc 1', b'a\t b', b'a,b,', b'\0a \xff']
TABS = {'': None, ',': b',', '\\0': b'\0', 'a': b'a'}


def key(line, tab):
    if tab:
        return line.split(tab)[0]
    return (line.split() or [b''])[0]


def table(dice, tab, ordered):
    n = dice.choice([30, 200, 3000, 60000]) if dice.random() < .2 else dice.choice([0, 1, 3, 10, 40])
    longest = 6 if n <= 200 else 12  # so that large tables have few equal keys: their pairs are all written
    alphabet = dice.choice(ALPHABETS)
    lines = [bytes(dice.choices(alphabet, k=dice.randint(longest // 3 if n > 200 else 0, longest))) for _ in range(n)]
    if ordered:
        lines.sort(key=lambda line: key(line, tab))
    text = b'\n'.join(lines)
    return text + b'\n' if lines and dice.random() < .7 else text


def join_options(dice, tab):
    some = ['-t', tab] if tab else []
    for option, share in (('-a', .4), ('-v', .15), ('-a', .15), ('-1', .2), ('-2', .2)):
        if dice.random() < share:
            some += [option + dice.choice('12')]
    return some


def write(path, lines):
    with open(path, 'w', encoding='ascii') as f:
        f.writelines(line + '\n' for line in lines)


def main():
    seed, n, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    for i in range(n):
        dice = random.Random(seed * 1000003 + i)
        path = os.path.join(folder, str(i))
        tab, ordered = dice.choice(list(TABS)), dice.random() < .7
        os.makedirs(path)
        for name in '01':
            with open(os.path.join(path, name), 'wb') as f:
                f.write(table(dice, TABS[tab], ordered))
        write(os.path.join(path, 'unique'), dice.choice([[], ['-c'], ['-d'], ['-u'], ['-cd'], ['-du']]))
        write(os.path.join(path, 'join'), join_options(dice, tab))


main()
