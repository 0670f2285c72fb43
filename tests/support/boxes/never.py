#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# never.py DIRECTORY [NAME...]: mounts a file system there that answers nothing, prints a line, and stays until it is
# killed: then what waits for it has an error. With NAMEs it answers the programs that are called so, and takes the requests of all
# others without an answer, which not even SIGKILL ends; each name in it is an empty file. A line of DIRECTORY.taken is such a request, with
# its thread. Needs root and /dev/fuse; exits 77 where
# there is none.
import ctypes
import os
import signal
import struct
import sys

INIT, LOOKUP, GETATTR, OPEN, READ, RELEASE, FLUSH = 26, 1, 3, 14, 15, 18, 25

libc = ctypes.CDLL(None, use_errno=True)
directory = sys.argv[1].encode()
try:
    fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
except OSError as e:
    sys.exit(print(f"/dev/fuse: {e.strerror}") or 77)
options = b"fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other" % fd
if libc.mount(b"never", directory, b"fuse", 0, options) < 0:
    sys.exit(print(f"mount: {os.strerror(ctypes.get_errno())}") or 77)
print("mounted", flush=True)
if len(sys.argv) == 2:
    signal.pause()
taken = open(sys.argv[1] + ".taken", "a", buffering=1)


def attributes(node):  # nothing of it stays in the kernel: each look is a request
    mode, size = (0o40755, 0) if node == 1 else (0o100644, 1 << 20)
    return struct.pack("<6Q10I", node, size, 8, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def is_answered(pid):
    try:
        return open(f"/proc/{pid}/comm").read().strip() in sys.argv[2:]
    except OSError:
        return False


while True:
    request = os.read(fd, 1 << 20)
    _, opcode, unique, node, _, _, pid, _ = struct.unpack_from("<IIQQIIII", request)
    error, body = 0, b""
    if opcode == INIT:
        body = struct.pack("<4I2H2I2H8I", 7, 31, 0, 0, 12, 9, 65536, 1, 16, 0, *[0] * 8)
    elif not is_answered(pid):
        if opcode != RELEASE:  # nobody waits for that
            print(opcode, "of", pid, file=taken)
        continue
    elif opcode == LOOKUP:
        body = struct.pack("<4Q2I", 2, 0, 0, 0, 0, 0) + attributes(2)
    elif opcode == GETATTR:
        body = struct.pack("<Q2I", 0, 0, 0) + attributes(node)
    elif opcode == OPEN:
        body = struct.pack("<Q2I", 0, 0, 0)
    elif opcode in (READ, FLUSH):
        body = b""
    else:
        error = -38  # ENOSYS
    try:
        os.write(fd, struct.pack("<IiQ", 16 + len(body), error, unique) + body)
    except OSError:
        pass  # nobody waits for it
