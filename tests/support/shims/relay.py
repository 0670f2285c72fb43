#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""relay.py: stands between a client and wsd where one of them speaks TLS and the other does not: each is to one that the other would
never be; or where wsd is to say other words. Bytes go through as they are, descriptors do not.

  relay.py to-tls PATH HOST:PORT CERT KEY CA     clients at a Unix socket, a wsd by TLS; until it is killed
  relay.py from-tls PORT PATH CERT KEY CA USER   a client by TLS, a wsd at a Unix socket, as that user
  relay.py words PATH SOCKET WORDS OTHER         a client at a Unix socket, a wsd at another, whose WORDS become OTHER, of the same length

The others have one connection, and end when either end does."""
import contextlib
import os
import pwd
import select
import socket
import ssl
import sys
import threading


def context(kind, certificate, key, ca):
    c = ssl.SSLContext(kind)
    c.minimum_version = ssl.TLSVersion.TLSv1_3
    c.load_cert_chain(certificate, key)
    c.load_verify_locations(ca)
    c.verify_mode = ssl.CERT_REQUIRED
    return c


def unix(path):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    return s


def accept(listener):
    connection, _ = listener.accept()
    return connection


def listen(path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path + '.new')
    listener.listen()
    os.rename(path + '.new', path)  # whoever sees it is heard
    return listener


def other_words(path, where, words, other):
    assert len(words) == len(other)
    return accept(listen(path)), unix(where), (words.encode(), other.encode())


def to_tls(path, where, *files):
    host, port = where.rsplit(':', 1)
    listener = listen(path)
    while True:
        client = accept(listener)
        server = socket.create_connection((host, int(port)))
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)  # what a client does not read is wsd's to keep
        server = context(ssl.PROTOCOL_TLS_CLIENT, *files).wrap_socket(server, server_hostname=host)
        threading.Thread(target=to_the_end, args=(client, server), daemon=True).start()


def from_tls(port, path, certificate, key, ca, user):
    c = context(ssl.PROTOCOL_TLS_SERVER, certificate, key, ca)
    listener = socket.create_server(('127.0.0.1', int(port)))
    entry = pwd.getpwnam(user)
    os.setgroups([])
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)
    return c.wrap_socket(accept(listener), server_side=True), unix(path)


def to_the_end(a, b):
    with contextlib.suppress(ConnectionError):
        relay(a, b)


def relay(a, b, words=(b'', b'')):
    other = {a: b, b: a}
    with a, b:
        while True:
            waiting = [s for s in other if isinstance(s, ssl.SSLSocket) and s.pending()]
            for s in waiting or select.select([a, b], [], [])[0]:
                data = s.recv(65536)
                if not data:
                    return
                other[s].sendall(data.replace(*words) if words[0] else data)


if __name__ == '__main__':
    if sys.argv[1] == 'to-tls':
        to_tls(*sys.argv[2:])
    relay(*{'from-tls': from_tls, 'words': other_words}[sys.argv[1]](*sys.argv[2:]))
