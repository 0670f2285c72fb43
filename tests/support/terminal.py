# SPDX-License-Identifier: Apache-2.0
"""terminal.py: a program on a terminal of its own, for scripts that look at what a person would see.

    with Terminal(['wsctl', 'top'], rows=24, columns=80) as t:
        t.until('JOBS')            # a regular expression, somewhere on the screen
        t.send('q')
        assert t.end() == 0        # its exit status, or -signal

The screen understands what ncurses and shells write with TERM=xterm, and no more."""
import errno
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

LIMIT = 30 * int(os.environ.get('TIME_SCALE', '1'))
CONTROL = re.compile(r'\x1b\[([?>=]?)([0-9;]*)([A-Za-z@`])|\x1b[()][A-Z0-9]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[=>78cHMDE]')


class Terminal:
    def __init__(self, argv, rows=24, columns=80, env=None):
        self.master, self.slave = pty.openpty()
        self.rows, self.columns = rows, columns
        self.raw = ''  # all that came
        self.rest = b''
        self.clear()
        self._size()
        self.before = termios.tcgetattr(self.slave)
        environment = {**os.environ, 'TERM': 'xterm', **(env or {})}
        environment.pop('COLUMNS', None)
        environment.pop('LINES', None)
        self.process = subprocess.Popen(argv, stdin=self.slave, stdout=self.slave, stderr=self.slave, env=environment,
                                        start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind:
            print('the screen was:\n' + self.text())
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)

    def _size(self):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack('HHHH', self.rows, self.columns, 0, 0))

    def clear(self):
        self.lines = [[' '] * self.columns for _ in range(self.rows)]
        self.row = self.column = 0

    def resize(self, rows, columns):
        """As a person would: what the kernel tells the program is SIGWINCH."""
        self.read(0)
        self.rows, self.columns = rows, columns
        self.clear()
        self._size()

    def send(self, text):
        os.write(self.master, text.encode())

    def read(self, seconds):
        """What comes within so many seconds; False: nothing."""
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        try:
            self.rest += os.read(self.master, 65536)
        except OSError as e:
            if e.errno != errno.EIO:
                raise
            return False
        text = self.rest.decode('utf-8', 'ignore')
        tail = re.search(r'\x1b[^A-Za-z]*$', text)  # a sequence that is not whole
        keep = len(text[tail.start():].encode()) if tail and len(text) - tail.start() < 64 else 0
        text = text[:tail.start()] if keep else text
        self.rest = self.rest[len(self.rest) - keep:] if keep else b''
        self.raw += text
        self._write(text)
        return True

    def text(self):
        return '\n'.join(''.join(line).rstrip() for line in self.lines)

    def until(self, pattern, gone=False):
        """Reads until the pattern is on the screen (gone: no longer)."""
        end = time.monotonic() + LIMIT
        while bool(re.search(pattern, self.text(), re.M)) == gone:
            assert time.monotonic() < end, '%s%r' % ('still ' if gone else 'no ', pattern)
            if not self.read(0.05) and self.process.poll() is not None and not self.read(0):
                assert bool(re.search(pattern, self.text(), re.M)) != gone, 'it has ended without %r' % pattern
                break

    def comes(self, pattern, seconds):
        """Whether the pattern is on the screen within so many seconds."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.text(), re.M):
            if time.monotonic() >= end:
                return False
            self.read(0.05)
        return True

    def end(self):
        """Its exit status. The terminal has to be as it was."""
        end = time.monotonic() + LIMIT
        while self.process.poll() is None:
            assert time.monotonic() < end, 'it does not end'
            self.read(0.05)
        while self.read(0):
            pass
        assert termios.tcgetattr(self.slave) == self.before, 'the terminal is not as it was'
        return self.process.returncode

    def signal(self, number):
        os.kill(self.process.pid, number)

    def until_heeded(self, number):
        """Reads until the program has taken the signal that was sent, and waits again."""
        end = time.monotonic() + LIMIT
        while True:
            with open('/proc/%d/status' % self.process.pid) as f:
                status = dict(line.rstrip('\n').split(':\t', 1) for line in f if ':\t' in line)
            pending = int(status['SigPnd'], 16) | int(status['ShdPnd'], 16)
            if status['State'][0] == 'S' and not pending >> (number - 1) & 1:
                return
            assert time.monotonic() < end, 'it does not heed signal %d' % number
            self.read(0.02)

    # --- the screen ---

    def _write(self, text):
        at = 0
        while at < len(text):
            m = CONTROL.match(text, at)
            if m:
                if m.group(3) and not m.group(1):
                    self._control(m.group(2), m.group(3))
                elif m.group(2) == '1049':  # the other screen; what was on this one is not kept
                    self.clear()
                at = m.end()
                continue
            self._put(text[at])
            at += 1

    def _put(self, c):
        if c == '\r':
            self.column = 0
        elif c == '\n':
            self._down()
        elif c == '\b':
            self.column = max(self.column - 1, 0)
        elif c == '\t':
            self.column = min((self.column // 8 + 1) * 8, self.columns - 1)
        elif c >= ' ':
            if self.column == self.columns:  # the margin is crossed by the character behind the last
                self.column = 0
                self._down()
            self.lines[self.row][self.column] = self.last = c
            self.column += 1

    def _down(self):
        if self.row < self.rows - 1:
            self.row += 1
        else:
            self.lines = self.lines[1:] + [[' '] * self.columns]

    def _control(self, parameters, what):
        n = [int(p) if p else 0 for p in parameters.split(';')]
        one = max(n[0], 1)
        if what == 'H':
            self.row, self.column = one - 1, max(n[1] if len(n) > 1 else 1, 1) - 1
        elif what in 'Gd`':
            self.row, self.column = (one - 1, self.column) if what == 'd' else (self.row, one - 1)
        elif what in 'AB':
            self.row += one if what == 'B' else -one
        elif what in 'CD':
            self.column += one if what == 'C' else -one
        elif what == 'b':
            for _ in range(one):
                self._put(self.last)
        elif what in 'JKX':
            line = self.lines[self.row]
            column = min(self.column, self.columns)
            begin, end = (0, column + 1) if n[0] == 1 else (0, self.columns) if n[0] == 2 else (column, self.columns)
            if what == 'X':
                begin, end = column, min(column + one, self.columns)
            line[begin:end] = [' '] * (min(end, self.columns) - begin)
            if what == 'J' and n[0] in (0, 2):
                for row in range(0 if n[0] == 2 else self.row + 1, self.rows):
                    self.lines[row] = [' '] * self.columns
        elif what == 'P':
            line = self.lines[self.row]
            self.lines[self.row] = (line[:self.column] + line[self.column + one:] + [' '] * one)[:self.columns]
        elif what == '@':
            line = self.lines[self.row]
            self.lines[self.row] = (line[:self.column] + [' '] * one + line[self.column:])[:self.columns]
        elif what in 'LM':
            rows = self.lines[self.row:]
            blank = [[' '] * self.columns for _ in range(one)]
            self.lines[self.row:] = ((blank + rows) if what == 'L' else (rows[one:] + blank))[:len(rows)]
        self.row = min(max(self.row, 0), self.rows - 1)
        self.column = min(max(self.column, 0), self.columns)
