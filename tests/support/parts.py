#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""parts: the parts of large inputs and outputs on a NATS server, in the server's own protocol: what a hostile or careless
hand does to them.

PORT is one of 127.0.0.1, or HOST:PORT.

  parts PORT list               their subjects, one a line
  parts PORT delete SUBJECT     takes one away
  parts PORT replace SUBJECT    stores standard input in its place
  parts PORT take CONSUMER N    is given jobs by a consumer of WSD_JOBS, and is never heard of again; prints their numbers
  parts PORT last SUBJECT       prints the bytes of the last job of a subject
  parts PORT publish SUBJECT [ID]  stores standard input as a message, under that id
  parts PORT ask SUBJECT        asks the server's API with standard input as the request; prints the answer"""
import base64
import json
import socket
import sys


class Server:
    def __init__(self, where):
        host, _, port = where.rpartition(':')
        self.stream = socket.create_connection((host or '127.0.0.1', int(port)), 10).makefile('rwb')
        self.stream.readline()  # INFO
        self.stream.write(b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\nSUB answer 1\r\n')

    def take(self, subject, n):
        """The numbers of n messages."""
        self.stream.write(b'PUB %s answer %d\r\n%d\r\n' % (subject.encode(), len(str(n)), n))
        self.stream.flush()
        while n > 0:
            line = self.stream.readline()
            if line.startswith((b'MSG', b'HMSG')):
                yield int(line.split()[3].split(b'.')[5])
                self.stream.read(int(line.split()[-1]) + 2)
                n -= 1

    def publish(self, subject, identity, body):
        head = b'NATS/1.0\r\n' + (b'Nats-Msg-Id: %s\r\n' % identity.encode() if identity else b'') + b'\r\n'
        self.stream.write(b'HPUB %s answer %d %d\r\n%s%s\r\n' % (subject.encode(), len(head), len(head) + len(body), head, body))
        return self.answer(subject)

    def ask(self, subject, body):
        """The answer, which is JSON and says nothing of an error."""
        self.stream.write(b'PUB %s answer %d\r\n%s\r\n' % (subject.encode(), len(body), body))
        return self.answer(subject)

    def answer(self, subject):
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
    elif sys.argv[2] == 'last':
        request = json.dumps({'last_by_subj': sys.argv[3]}).encode()
        sys.stdout.buffer.write(base64.b64decode(server.ask('$JS.API.STREAM.MSG.GET.WSD_JOBS', request)['message']['data']))
    elif sys.argv[2] == 'publish':
        server.publish(sys.argv[3], ''.join(sys.argv[4:]), sys.stdin.buffer.read())
    elif sys.argv[2] == 'ask':
        print(server.ask(sys.argv[3], sys.stdin.buffer.read()))
    else:
        server.ask(sys.argv[3], sys.stdin.buffer.read())


main()
