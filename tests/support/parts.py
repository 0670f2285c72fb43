#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""parts: the parts of large inputs and outputs on a NATS server, in the server's own protocol: what a hostile or careless
hand does to them.

PORT is one of 127.0.0.1, or HOST:PORT.

  parts PORT list               their subjects, one a line
  parts PORT delete SUBJECT     takes one away
  parts PORT replace SUBJECT    stores standard input in its place
  parts PORT take CONSUMER N    is given jobs by a consumer of WSD_JOBS, and is never heard of again; prints their numbers
  parts PORT ask SUBJECT        asks the server's API with standard input as the request; prints the answer"""
import json
import socket
import sys


class Server:
    def __init__(self, where):
        host, _, port = where.rpartition(':')
        self.stream = socket.create_connection((host or '127.0.0.1', int(port)), 10).makefile('rwb')
        self.stream.readline()  # INFO
        self.stream.write(b'CONNECT {"verbose":false,"pedantic":false}\r\nSUB answer 1\r\n')

    def take(self, subject, n):
        """The numbers of n messages."""
        self.stream.write(b'PUB %s answer %d\r\n%d\r\n' % (subject.encode(), len(str(n)), n))
        self.stream.flush()
        while n > 0:
            line = self.stream.readline()
            if line.startswith(b'MSG'):
                yield int(line.split()[3].split(b'.')[5])
                self.stream.read(int(line.split()[-1]) + 2)
                n -= 1

    def ask(self, subject, body):
        """The answer, which is JSON and says nothing of an error."""
        self.stream.write(b'PUB %s answer %d\r\n%s\r\n' % (subject.encode(), len(body), body))
        self.stream.flush()
        for line in self.stream:
            if line.startswith(b'PING'):
                self.stream.write(b'PONG\r\n')
                self.stream.flush()
            if line.startswith(b'MSG'):
                answer = json.loads(self.stream.read(int(line.split()[-1])))
                if 'error' in answer:
                    sys.exit('%s: %s' % (subject, answer['error']))
                return answer
        sys.exit('%s: no answer' % subject)


def main():
    server = Server(sys.argv[1])
    if sys.argv[2] == 'list':
        state = server.ask('$JS.API.STREAM.INFO.WSD_PARTS', b'{"subjects_filter":">"}')['state']
        print('\n'.join(sorted(state.get('subjects') or {})))
    elif sys.argv[2] == 'delete':
        answer = server.ask('$JS.API.STREAM.PURGE.WSD_PARTS', json.dumps({'filter': sys.argv[3]}).encode())
        assert answer['purged'] == 1, answer
    elif sys.argv[2] == 'take':
        print('\n'.join(map(str, server.take('$JS.API.CONSUMER.MSG.NEXT.WSD_JOBS.' + sys.argv[3], int(sys.argv[4])))))
    elif sys.argv[2] == 'ask':
        print(server.ask(sys.argv[3], sys.stdin.buffer.read()))
    else:
        server.ask(sys.argv[3], sys.stdin.buffer.read())


main()
