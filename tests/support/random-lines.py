#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
#
# random-lines.py SEED N DIR: N patterns of grep -E with options and inputs, the same for the same seed, each in DIR/I:
# `pattern`, `options` (one a line) and one to three inputs `0`, `1`, `2`. Some inputs are longer than a segment of
# `search`, some have a NUL, some no last newline. Patterns keep off what grep itself takes in two ways: operators
# behind anchors, and back references together with other patterns.
import os
import random
import sys

ATOMS = ['a', 'b', 'c', 'A', '_', '1', '-', ' ', '.', '[ab]', '[^a]', '[a-c1]', '[[:alpha:]]', '[[:digit:]_]', '[^[:space:]]',
         '\\w', '\\W', '\\s', '\\S', '\\.', '(a|b)', '(ab)', 'ab', 'abc']
ANCHORS = ['\\b', '\\<', '\\>', '\\B']
OPERATORS = ['*', '+', '?', '{2}', '{1,3}', '{0,1}', '{2,}', '{,2}']
DENSE = ['a', 'b', 'c', 'A', 'B', '_', '1', '2', '-', ' ', '.', '\t', '\xe9', 'a', 'b', 'ab', 'abc']
SPARSE = ['x', 'y', 'z', ' ', 'q w']


def piece(dice, depth):
    if dice.random() < .15:
        return dice.choice(ANCHORS)
    atom = '(' + pattern(dice, depth + 1) + ')' if depth < 3 and dice.random() < .15 else dice.choice(ATOMS)
    return atom + (dice.choice(OPERATORS) if dice.random() < .25 and '\\' not in atom[:-2] else '')


def branch(dice, depth):
    text = ''.join(piece(dice, depth) for _ in range(dice.randint(1, 4)))
    if depth == 0 and dice.random() < .1:
        text = '^' + text
    return text + ('$' if depth == 0 and dice.random() < .1 else '')


def pattern(dice, depth=0):
    text = branch(dice, depth)
    while dice.random() < .2:
        text += '|' + branch(dice, depth)
    return text


def options(dice):
    some = [o for o in ('-i', '-v', '-w', '-c', '-l', '-o', '-F', '-I') if dice.random() < .15]
    if '-o' not in some:
        for letter in 'ABC':
            if dice.random() < .15:
                some += ['-' + letter, str(dice.choice([0, 1, 2, 7]))]
    return some


def lines(dice):
    share = dice.choice([0, .02, .3, 1])
    some = []
    for _ in range(dice.randint(1, 120)):
        n = dice.choice([0, 1, 2, 3, 5, 8, 13, 40])
        some.append(''.join(dice.choices(DENSE if dice.random() < share else SPARSE, k=n)) + '\n')
    if dice.random() < .1:
        some = dice.choices(some, k=dice.choice([10000, 60000]))
    text = ''.join(some)
    if dice.random() < .3:
        text = text[:-1]
    if dice.random() < .12:
        at = dice.randrange(len(text) + 1)
        text = text[:at] + '\0' + text[at:]
    return text


def main():
    seed, n, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    for i in range(n):
        dice = random.Random(seed * 1000003 + i)
        path = os.path.join(folder, str(i))
        os.makedirs(path)
        several = 1 if dice.random() < .85 else dice.randint(2, 4)
        with open(os.path.join(path, 'pattern'), 'w', encoding='latin-1') as f:
            f.write('\n'.join(pattern(dice) for _ in range(several)))
        with open(os.path.join(path, 'options'), 'w', encoding='latin-1') as f:
            f.writelines(o + '\n' for o in options(dice))
        for name in range(dice.choice([1, 1, 2, 3])):
            with open(os.path.join(path, str(name)), 'w', encoding='latin-1') as f:
                f.write(lines(dice))


main()
