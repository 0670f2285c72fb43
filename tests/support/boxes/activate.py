#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""activate.py: what a service manager does for a socket unit and its service: listens, starts the service when somebody connects, and
again when it has ended and somebody waits, by the protocol of sd_listen_fds(3).

  activate.py PATH UID COMMAND...

PATH is a SOCK_SEQPACKET socket that belongs to UID and that nobody else may connect to. Until SIGTERM, which ends the service too.
WATCHDOG_SEC in the environment: a service that says WATCHDOG=1 to $NOTIFY_SOCKET less often is killed, as WatchdogSec= has it."""
import os
import select
import signal
import socket
import sys
import time

STARTS_MAX = 20  # one that cannot begin would go on for ever


def watch(pid, notify, limit):
    last = time.monotonic()
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        if select.select([notify], [], [], 0.05)[0] and b'WATCHDOG=1' in notify.recv(4096):
            last = time.monotonic()
        elif time.monotonic() - last > limit:
            os.kill(pid, signal.SIGKILL)
            last = time.monotonic()


def become(listener, command):
    os.dup2(listener.fileno(), 3)
    os.set_inheritable(3, True)
    os.execvpe(command[0], command, {**os.environ, 'LISTEN_PID': str(os.getpid()), 'LISTEN_FDS': '1'})


def main(path, uid, *command):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path + '.new')
    os.chmod(path + '.new', 0o600)
    os.chown(path + '.new', int(uid), -1)
    listener.listen(16)
    os.rename(path + '.new', path)  # what bears the name is listening
    pid = 0
    limit = float(os.environ.get('WATCHDOG_SEC', 0))
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    if limit:
        notify.bind('')
        os.environ['NOTIFY_SOCKET'] = '@' + notify.getsockname()[1:].decode()
        os.environ['WATCHDOG_USEC'] = str(int(limit * 1000000))
    try:
        for _ in range(STARTS_MAX):
            select.select([listener], [], [])
            pid = os.fork()
            if pid == 0:
                become(listener, command)
            if limit:
                watch(pid, notify, limit)
            else:
                os.waitpid(pid, 0)
            pid = 0
    finally:
        os.unlink(path)
        if pid:
            os.kill(pid, signal.SIGKILL)


if __name__ == '__main__':
    main(*sys.argv[1:])
