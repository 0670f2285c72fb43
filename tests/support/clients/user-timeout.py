#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# user-timeout.py PID PORT [MSEC]: TCP_USER_TIMEOUT of each connection that the process has accepted at the port, a line each;
# MSEC: then it is that. By root: the sockets are the process's own, taken by pidfd_getfd().
import ctypes
import os
import socket
import sys

PIDFD_GETFD = 438
libc = ctypes.CDLL(None, use_errno=True)
pid, port = int(sys.argv[1]), int(sys.argv[2])
process = os.pidfd_open(pid)
for name in os.listdir(f"/proc/{pid}/fd"):
    fd = libc.syscall(PIDFD_GETFD, process, int(name), 0)
    try:
        s = socket.socket(fileno=fd)
    except OSError:  # none, or gone meanwhile
        if fd >= 0:
            os.close(fd)
        continue
    try:
        if s.family not in (socket.AF_INET, socket.AF_INET6) or s.getsockname()[1] != port or not s.getpeername():
            continue
    except OSError:  # it listens
        continue
    print(s.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT))
    if len(sys.argv) > 3:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(sys.argv[3]))
