#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""manager.py: what a service manager does for one service: starts it, listens to what it notifies, keeps the descriptors that it
leaves, and gives them to its next life, by the protocols of sd_notify(3) and sd_listen_fds(3).

  manager.py [--listen PATH] [--keep N] SAYS COMMAND...

  --listen PATH   as a socket unit: a listening socket that outlives the service
  --keep N        room for so many descriptors (FileDescriptorStoreMax=); 0: none, which is the default
  SAYS            file with a line for each thing that happened: `started PID`, `notified TEXT`, `ended STATUS`, `kept N`

SIGUSR1 restarts it in order, SIGUSR2 does that and damages the memory that it left (WSD_SEED says how), SIGHUP kills it and starts it
again, SIGTERM stops it; then what it left is closed, and the exit status is its own."""
import fcntl
import os
import random
import select
import signal
import socket
import struct
import sys


class Service:
    def __init__(self, listen, room, says, command):
        self.room, self.command = room, command
        self.says = open(says, 'a', buffering=1, encoding='utf-8')
        self.directory = os.path.dirname(os.path.abspath(says))
        self.address = os.path.join(self.directory, 'notify')
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(self.address)
        self.kept = []  # (name, descriptor)
        self.listener = None
        if listen:
            self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.listener.bind(listen)
            self.listener.listen(4096)
        self.pid = 0
        self.random = random.Random(os.environ.get('WSD_SEED', '1'))

    def say(self, *words):
        self.says.write(' '.join(str(w) for w in words) + '\n')

    def start(self):
        fds = ([('wsd.socket', self.listener.fileno())] if self.listener else []) + self.kept
        self.pid = os.fork()
        if self.pid == 0:
            # out of the way first, then to their places
            high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3 + len(fds)) for _, fd in fds]
            for i, fd in enumerate(high):
                os.dup2(fd, 3 + i)
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            environment = {**os.environ, 'NOTIFY_SOCKET': self.address}
            if self.room:
                environment['FDSTORE'] = str(self.room)
            if fds:
                environment.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(fds)),
                                   LISTEN_FDNAMES=':'.join(name for name, _ in fds))
            os.execvpe(self.command[0], self.command, environment)
        self.say('started', self.pid)

    def keep(self, name, fds):
        for fd in fds:
            if len(self.kept) < self.room:
                self.kept.append((name, fd))
            else:
                os.close(fd)

    def forget(self, name):
        for n, fd in self.kept:
            if name in (n, None):
                os.close(fd)
        self.kept = [(n, fd) for n, fd in self.kept if name not in (n, None)]

    def hear(self):
        data, fds, _, _ = socket.recv_fds(self.notify, 65536, 253)
        for fd in fds:
            os.set_inheritable(fd, False)
        fields = dict(line.split('=', 1) for line in data.decode().split('\n') if '=' in line)
        if 'FDSTORE' in fields:
            self.keep(fields.get('FDNAME', 'stored'), fds)
            fds = []
        if 'FDSTOREREMOVE' in fields:
            self.forget(fields['FDNAME'])
        if not fields.keys() & {'FDSTORE', 'FDSTOREREMOVE', 'BARRIER', 'WATCHDOG'}:
            self.say('notified', data.decode().replace('\n', ' '))
        for fd in fds:  # BARRIER: closed is heard
            os.close(fd)

    def dropped(self, fd):
        """A client has gone meanwhile."""
        self.kept = [(n, k) for n, k in self.kept if k != fd]
        os.close(fd)

    def damage(self):
        for i, (name, fd) in enumerate(self.kept):
            if name == 'kept':
                data = bytearray(os.pread(fd, os.fstat(fd).st_size, 0))
                os.close(fd)
                if self.random.randrange(3) == 0:  # cut, with or without saying so
                    del data[self.random.randrange(1, len(data)):]
                    if len(data) >= 24 and self.random.randrange(2):
                        data[16:24] = struct.pack('=Q', len(data))
                else:
                    for _ in range(self.random.randrange(1, 4)):
                        data[self.random.randrange(len(data))] = self.random.choice((0, 1, 0x7f, 0x80, 0xff))
                other = os.memfd_create('other', os.MFD_ALLOW_SEALING)
                os.write(other, data)
                fcntl.fcntl(other, 1033, 0xf)  # F_ADD_SEALS
                self.kept[i] = (name, other)

    def turn(self):
        """Waits for something; True when the service has ended."""
        poll = select.poll()
        poll.register(self.notify, select.POLLIN)
        poll.register(self.wake, select.POLLIN)
        for _, fd in self.kept:
            poll.register(fd, 0)
        ready = {fd for fd, _ in poll.poll()}
        # before what is said, which may close and open descriptors of the same numbers
        for fd in ready - {self.notify.fileno(), self.wake.fileno()}:
            self.dropped(fd)
        if self.wake.fileno() in ready:
            self.wake.recv(4096)
        if self.notify.fileno() in ready:
            self.hear()
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid != self.pid or pid == 0:
            return False
        while select.select([self.notify], [], [], 0)[0]:
            self.hear()
        self.status = os.waitstatus_to_exitcode(status)
        self.say('ended', self.status)
        self.say('kept', len(self.kept))
        return True

    def run(self):
        self.wake, other = socket.socketpair()
        self.wake.setblocking(False)
        other.setblocking(False)
        signal.set_wakeup_fd(other.fileno())
        asked = []
        for s in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGTERM):
            signal.signal(s, lambda number, _: asked.append(number))
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.start()
        how = None
        while True:
            ended = self.turn()
            if ended and how in (None, signal.SIGTERM):
                break
            if ended:
                if how == signal.SIGUSR2:
                    self.damage()
                self.start()
                how = None
            elif asked:
                how = asked.pop(0)
                os.kill(self.pid, signal.SIGKILL if how == signal.SIGHUP else signal.SIGTERM)
        self.forget(None)
        return self.status


def main(argv):
    listen, room = None, 0
    while argv and argv[0].startswith('--'):
        if argv[0] == '--listen':
            listen = argv[1]
        elif argv[0] == '--keep':
            room = int(argv[1])
        argv = argv[2:]
    status = Service(listen, room, argv[0], argv[1:]).run()
    return status if status >= 0 else 128 - status


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
