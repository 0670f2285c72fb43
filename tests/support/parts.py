#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""parts: the parts of large inputs and outputs on a NATS server, in the server's own protocol: what a hostile or careless
hand does to them.

PORT is one of 127.0.0.1, or HOST:PORT, or USER:PASSWORD@HOST:PORT.

  parts PORT list               their subjects, one a line
  parts PORT delete SUBJECT     takes one away
  parts PORT replace SUBJECT    stores standard input in its place
  parts PORT take CONSUMER N    is given jobs by a consumer of WSD_JOBS, and is never heard of again; prints their numbers
  parts PORT last SUBJECT       prints the bytes of the last job of a subject
  parts PORT publish SUBJECT [ID]  stores standard input as a message, under that id
  parts PORT spoil SUBJECT HOW  puts another one in the place of the last job of a subject, with its header: cut in the
                                middle, of another version, for another plugin, without the name of its sender
  parts PORT ask SUBJECT        asks the server's API with standard input as the request; prints the answer
  parts PORT listen SUBJECT     prints the subject and size of each message that comes, a line each
  parts PORT tell SUBJECT       publishes standard input, without an answer
  parts PORT answer SUBJECT     answers the next question of a subject with each line of standard input, and ends;
                                prints `ready` when it can
  parts PORT may pub|sub SUBJECT  prints yes, or no where the permissions of the user do not have it
  parts PORT read SUBJECT INBOX  asks a subject with standard input, to be answered there; prints what came, "no" or nothing"""
import base64
import json
import re
import socket
import sys


class Server:
    def __init__(self, where):
        who, _, where = where.rpartition('@')
        host, _, port = where.rpartition(':')
        user, _, password = who.partition(':')
        login = {'verbose': False, 'pedantic': False, 'headers': True, 'no_responders': True}
        if who:
            login.update(user=user, **{'pass': password})
        self.stream = socket.create_connection((host or '127.0.0.1', int(port)), 10).makefile('rwb')
        self.stream.readline()  # INFO
        self.stream.write(b'CONNECT %s\r\n' % json.dumps(login).encode() + (b'' if who else b'SUB answer 1\r\n'))

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

    def publish_as(self, subject, head, body):
        self.stream.write(b'HPUB %s answer %d %d\r\n%s%s\r\n' % (subject.encode(), len(head), len(head) + len(body), head, body))
        answer = self.answer(subject)
        assert not answer.get('duplicate'), answer

    def publish(self, subject, identity, body):
        head = b'NATS/1.0\r\n' + (b'Nats-Msg-Id: %s\r\n' % identity.encode() if identity else b'') + b'\r\n'
        self.stream.write(b'HPUB %s answer %d %d\r\n%s%s\r\n' % (subject.encode(), len(head), len(head) + len(body), head, body))
        return self.answer(subject)

    def ask(self, subject, body):
        """The answer, which is JSON and says nothing of an error."""
        self.stream.write(b'PUB %s answer %d\r\n%s\r\n' % (subject.encode(), len(body), body))
        return self.answer(subject)

    def lines(self):
        """What comes, a line each and the message behind it. Answers the server's pings."""
        self.stream.flush()
        for line in self.stream:
            if line.startswith(b'PING'):
                self.stream.write(b'PONG\r\n')
                self.stream.flush()
            yield line, self.stream.read(int(line.split()[-1]) + 2)[:-2] if line.startswith((b'MSG', b'HMSG')) else b''

    def listen(self, subject):
        self.stream.write(b'SUB %s 2\r\n' % subject.encode())
        for line, body in self.lines():
            if body:
                yield line.split()[1].decode(), len(body)

    def replies(self, subject, bodies):
        """Answers one question."""
        self.stream.write(b'SUB %s 2\r\nPING\r\n' % subject.encode())
        for line, _ in self.lines():
            if line.startswith(b'PONG'):
                print('ready', flush=True)
            if line.startswith((b'MSG', b'HMSG')) and line.split()[1] == subject.encode():
                for body in bodies:
                    self.stream.write(b'PUB %s %d\r\n%s\r\n' % (line.split()[3], len(body), body))
                self.stream.flush()
                return

    def permits(self, line):
        """Whether that is permitted, and what came before the answer to a ping: the server answers in order."""
        came = b''
        self.stream.write(line + b'PING\r\n')
        for line, body in self.lines():
            if line.startswith(b'PONG'):
                return True, came
            if line.startswith(b'-ERR'):
                assert b'ermissions Violation' in line, line
                return False, came
            came += body
        sys.exit('the connection is over')

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
    elif sys.argv[2] == 'spoil':
        request = json.dumps({'last_by_subj': sys.argv[3]}).encode()
        job = server.ask('$JS.API.STREAM.MSG.GET.WSD_JOBS', request)['message']
        server.ask('$JS.API.STREAM.MSG.DELETE.WSD_JOBS', json.dumps({'seq': job['seq']}).encode())
        body = base64.b64decode(job['data'])
        body = {'cut': body[:len(body) // 2 + 7], 'version': body[:1] + b'\xff' + body[2:]}.get(sys.argv[4], body)
        subject = job['subject'] if sys.argv[4] != 'plugin' else 'wsd.job.00.norm.fib'
        # the server remembers the id of what it has removed, so it has to be another one that says the same
        head = re.sub(rb'(Nats-Msg-Id: \w+-)', rb'\g<1>0', base64.b64decode(job['hdrs']))
        head = re.sub(rb'(Nats-Msg-Id: \w+)\r', rb'\g<1>0\r', head)
        if sys.argv[4] == 'nameless':
            head = re.sub(rb'Wsd-Home: \w+\r\n', b'', head)
        server.publish_as(subject, head, body)
    elif sys.argv[2] == 'publish':
        server.publish(sys.argv[3], ''.join(sys.argv[4:]), sys.stdin.buffer.read())
    elif sys.argv[2] == 'answer':
        server.replies(sys.argv[3], sys.stdin.buffer.read().split(b'\n'))
    elif sys.argv[2] == 'listen':
        for subject, size in server.listen(sys.argv[3]):
            print(subject, size, flush=True)
    elif sys.argv[2] == 'tell':
        body = sys.stdin.buffer.read()
        server.permits(b'PUB %s %d\r\n%s\r\n' % (sys.argv[3].encode(), len(body), body))
    elif sys.argv[2] == 'may':
        subject = sys.argv[4].encode()
        line = b'PUB %s 0\r\n\r\n' % subject if sys.argv[3] == 'pub' else b'SUB %s 2\r\n' % subject
        print('yes' if server.permits(line)[0] else 'no')
    elif sys.argv[2] == 'read':
        body = sys.stdin.buffer.read()
        line = b'SUB %s 2\r\nPUB %s %s %d\r\n%s\r\n' % (sys.argv[4].encode(), sys.argv[3].encode(), sys.argv[4].encode(), len(body), body)
        permitted, came = server.permits(line)
        while permitted and not came: # JetStream answers later
            came = next(body for line, body in server.lines() if body)
        sys.stdout.buffer.write(came if permitted else b'no')
    elif sys.argv[2] == 'ask':
        print(server.ask(sys.argv[3], sys.stdin.buffer.read()))
    else:
        server.ask(sys.argv[3], sys.stdin.buffer.read())


main()
