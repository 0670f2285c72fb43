#!/usr/bin/python3 -IS
# SPDX-License-Identifier: Apache-2.0
"""printable.py: holds what a command says against what a terminal simply shows.

  printable.py [--stderr] [--screen] COMMAND...   runs it twice: into pipes, and on a terminal of its own
  printable.py --file FILE...                     the same of what was written
  printable.py --each FILE                        runs each command of a file, the same way: in it the number of words of
                                                  each comes before the words, and behind every one of them a NUL

--stderr: stdout is a job's own output, and is not looked at. --screen: more than a line is drawn, by ncurses.
Exit status 3 where there is more than characters, tabs and ends of lines, each shown in its place, and beyond them on a
terminal only what wsctl itself writes there: the colour of a state, the bar, the screen of a watch. The exit status of the
command does not count, but for one by a signal."""
import errno
import os
import pty
import re
import subprocess
import sys
import unicodedata

LIMIT = b'%d' % (10 * int(os.environ.get('TIME_SCALE', '1')))
OWN = re.compile(r'\x1b\[(?:3[1-3]|0)m|\r([^\r\n\x1b]*)\x1b\[K|\x1b\[H\x1b\[J|\r\n')
SCREEN = re.compile(r'\x1b\[[?>=]?[0-9;]*[A-Za-z]|\x1b[()][A-Z0-9]|\x1b[=>78]|[\r\x0f\b]')


def fault(data, own):
    """The first thing that is not to be there, or None."""
    try:
        text = data.decode()
    except UnicodeDecodeError as e:
        return 'no UTF-8: %r' % data[max(e.start - 40, 0):e.end + 20]
    if own:
        text = own.sub(lambda m: m.group(1) or '' if m.groups() else '', text)
    for i, c in enumerate(text):
        if c not in '\t\n' and (unicodedata.category(c) in ('Cc', 'Cf', 'Zl', 'Zp') or c == '\ufffe'):
            return 'U+%04X in %r' % (ord(c), text[max(i - 60, 0):i + 20])
    return None


def on_terminal(argv, stdout):
    master, slave = pty.openpty()
    p = subprocess.Popen([b'timeout', LIMIT, *argv], stdin=subprocess.DEVNULL, stdout=stdout or slave, stderr=slave,
                         env={**os.environ, 'TERM': 'xterm', 'NO_COLOR': ''})
    os.close(slave)
    data = b''
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError as e:
            if e.errno != errno.EIO:
                raise
            piece = b''
        if not piece:
            break
        data += piece
    os.close(master)
    return data, p.wait()


def command_says(args):
    """What is wrong with what a command says; args begin with its options of ours."""
    options = []
    while args[0] in ('--stderr', '--screen'):
        options.append(args.pop(0))
    argv = [os.fsencode(a) for a in args]
    data_only = subprocess.DEVNULL if '--stderr' in options else None
    p = subprocess.run([b'timeout', LIMIT, *argv], stdin=subprocess.DEVNULL, stdout=data_only or subprocess.PIPE, stderr=subprocess.PIPE)
    found = [('stdout', fault(p.stdout or b'', None)), ('stderr', fault(p.stderr, None))]
    said, status = on_terminal(argv, data_only)
    found.append(('on a terminal', fault(said, SCREEN if '--screen' in options else OWN)))
    for code in (p.returncode, status):
        if code > 128 and code != 130:
            found.append(('it', 'ended by signal %d' % (code - 128)))
        if code == 124 and argv[0] != b'timeout':
            found.append(('it', 'did not end'))
    return found


def commands(path):
    with open(path, 'rb') as file:
        words = [os.fsdecode(w) for w in file.read().split(b'\0')]
    while words[0]:
        n = int(words.pop(0))
        yield words[:n]
        del words[:n]


def tell(args, found):
    """Prints what was found; returns how much it is."""
    found = ['%s: %s' % f for f in found if f[1]]
    if found:
        print('%s\n  %s' % (ascii(args), '\n  '.join(found)))
    return len(found)


def main():
    args = sys.argv[1:]
    if args[:1] == ['--file']:
        n = tell(args, [(name, fault(open(name, 'rb').read(), None)) for name in args[1:]])
    else:
        n = sum(tell(c, command_says(list(c))) for c in (commands(args[1]) if args[:1] == ['--each'] else [args]))
    return 3 if n else 0


if __name__ == '__main__':
    sys.exit(main())
