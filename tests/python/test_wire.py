# SPDX-License-Identifier: Apache-2.0
"""The tables of messages against proto/wsd.proto, and reading what is no message."""
import os
import random
import re
import struct

import pytest

from conftest import SRC
from wsd import ProtocolError, _protocol, _wire

KINDS = {'uint32': 'u', 'uint64': 'u', 'sint32': 's', 'bytes': 'b', 'bool': 't'}


def proto():
    with open(os.path.join(SRC, 'proto/wsd.proto'), encoding='utf-8') as f:
        text = re.sub(r'//[^\n]*', '', f.read())
    return {name: {field: (int(n), KINDS.get(kind, kind), bool(repeated))
                   for repeated, kind, field, n in re.findall(r'(repeated )?(\w+) (\w+) = (\d+);', body)}
            for name, body in re.findall(r'message (\w+) \{(.*?)\}', text, re.S)}


def test_tables_are_those_of_wsd_proto():
    schema = proto()
    assert len(schema) > 30
    for name, fields in _wire.MESSAGES.items():
        assert fields == schema[name], name


def test_types_of_frames_are_those_of_protocol_md():
    with open(os.path.join(SRC, 'proto/PROTOCOL.md'), encoding='utf-8') as f:
        rows = re.findall(r'^\| ([A-Z_]+) (?:\*.*?\* )?\| (\d+) \|', f.read(), re.M)
    numbers = {name: int(n) for name, n in rows}
    assert len(numbers) > 50
    ours = {name: value for name, value in vars(_wire).items() if name.isupper() and isinstance(value, int) and name in numbers}
    assert len(ours) >= 29
    assert ours == {name: numbers[name] for name in ours}


def test_messages_come_back_as_they_went():
    values = {'plugin': b'echo', 'function': b'', 'args': [b'', b'a', b'x' * 300], 'priority': -100, 'timeout_usec': 2**63, 'flags': 5}
    got = _wire.decode('Submit', _wire.encode('Submit', values))
    assert {name: got[name] for name in values} == values
    assert got['key'] == b'' and got['retries'] == 0


def test_unknown_fields_are_passed_over():
    data = _wire.varint(900 << 3) + _wire.varint(2**40) + _wire.text_field(901, b'abc') + struct.pack('<BI', 14 << 3 | 5, 1)
    assert _wire.decode('Error', data + _wire.encode('Error', {'code': 75}))['code'] == 75


@pytest.mark.parametrize('data', [b'\x08', b'\x08\xff', b'\x12\x05ab', b'\x12\xff\xff\xff\xff\x0f', b'\x0b', b'\x00\x00',
                                  b'\x08' + b'\xff' * 10 + b'\x01', b'\x0d\x00', b'\x09\x00'])
def test_what_is_no_message_is_refused(data):
    with pytest.raises(ProtocolError):
        _wire.decode('Error', data)


def core():
    made = _protocol.Core(b'', b'test', lambda path, args: -1)
    made.receive(_wire.frame(_wire.WELCOME, 0, _wire.encode('Welcome', {'version': 1, 'features': _protocol.FEATURES, 'window': 1 << 20})))
    made.outgoing.clear()
    return made


def job_of(c):
    job = _protocol.JobCall()
    c.submit(job, _wire.encode('Submit', {'plugin': b'echo'}), 0, b'', b'')
    return job


@pytest.mark.parametrize('data', [
    b'X' * 16, struct.pack('<HHIII', 0x0257, 70, 1, 0, 0), struct.pack('<HHIII', 0x0157, 70, 1, 0, 65521),
    _wire.frame(_wire.OUTPUT, 1, _wire.encode('Chunk', {'offset': 1}), b'x'),  # a wrong offset
    _wire.frame(_wire.DONE, 1, _wire.encode('Job', {'id': bytes(15), 'state': 5})),
    _wire.frame(_wire.DONE, 1, _wire.encode('Job', {'id': bytes(16), 'state': 4})),
    _wire.frame(_wire.ACCEPTED, 1, b'\x0a\x05abcde'), _wire.frame(_wire.JOB, 1), _wire.frame(99, 1), _wire.frame(99, 0),
    _wire.frame(_wire.WELCOME, 0), _wire.frame(_wire.PROGRESS, 1, b'\x08'), _wire.frame(_wire.ENDS, 1)])
def test_a_frame_that_breaks_a_rule(data):
    c = core()
    job_of(c)
    with pytest.raises(ProtocolError):
        c.receive(data)


def test_output_beyond_the_window():
    c = core()
    job_of(c)
    chunk = bytes(60 << 10)
    with pytest.raises(ProtocolError):
        for i in range(20):
            c.receive(_wire.frame(_wire.OUTPUT, 1, _wire.encode('Chunk', {'offset': i * len(chunk)}), chunk))


def test_half_frames_wait():
    c = core()
    job = job_of(c)
    data = _wire.frame(_wire.FINISHED, 1, _wire.encode('Finished', {'id': bytes(16), 'plugin': b'echo'}), b'hello')
    for n in range(len(data)):
        assert c.receive(data[:n]) == 0
    assert c.receive(data + data[:5]) == len(data)
    assert job._ended and job._outcome() is None and job._chunks == [b'hello'] and not c.calls


def test_noise_never_raises_anything_else():
    rng = random.Random(1)
    good = [_wire.frame(kind, 1, _wire.encode(message, values), body) for kind, message, values, body in (
        (_wire.ACCEPTED, 'Accepted', {'id': bytes(16)}, b''), (_wire.OUTPUT, 'Chunk', {}, b'abc'),
        (_wire.PROGRESS, 'Progress', {'done': 3, 'total': 300}, b''), (_wire.MESSAGE, 'Message', {'level': 6, 'text': b'x' * 20}, b''),
        (_wire.OPEN, 'Open', {'serial': 1, 'path': b'/etc/passwd'}, b''), (_wire.CREDIT, 'Credit', {'bytes': 10}, b''),
        (_wire.DONE, 'Job', {'id': bytes(16), 'state': 9, 'backtrace': b'#0', 'exit': 70}, b''),
        (_wire.ERROR, 'Error', {'code': 75, 'text': b'no', 'retry_usec': 5}, b''))]
    for _ in range(2000):
        data = bytearray(b''.join(rng.sample(good, 3)))
        for _ in range(rng.randrange(1, 8)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        c = core()
        job = job_of(c)
        try:
            c.receive(bytes(data))
        except ProtocolError as error:
            c.fail(error)
            assert not c.calls and job._ended
        if job._ended:
            job._outcome()


def test_records_of_an_array_that_lie(monkeypatch):
    from wsd import _map
    monkeypatch.setattr(_map, 'BATCH_TIME', 1000)  # both inputs in one ARRAY, however slow this is
    rng = random.Random(2)
    record = struct.Struct('<IIBBHHHHHIQQQ')
    good = record.pack(0, 1, 5, 0, 1, 3, 0, 0, 0, 2, 1, 2, 3) + b'1.0ab' + record.pack(1, 1, 6, 5, 1, 3, 2, 0, 0, 0, 1, 2, 3) + b'1.0no'
    header = _wire.encode('Ends', {'id': bytes(16), 'plugin': b'echo', 'records': 2, 'last': True})

    def plan_of(c):
        plan = _map.Mapping('echo', b'', (), [b'a', b'b'], True, 10, True, False)
        plan.next_batch(c)(c)
        return plan
    c = core()
    plan = plan_of(c)
    c.receive(_wire.frame(_wire.ENDS, 1, header, good))
    first, second = list(plan.results())
    assert first == b'ab' and second.status == 5 and second.job.id == '00' * 8 + '01' + '00' * 7
    for _ in range(1500):
        data = bytearray(good)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.choice((0, 1, 2, 4, 5, 255, rng.randrange(256)))
        c = core()
        plan = plan_of(c)
        try:
            c.receive(_wire.frame(_wire.ENDS, 1, header, bytes(data)))
        except ProtocolError as error:
            c.fail(error)
            assert len(plan._done) + len(plan._again) == 2


def test_everything_public_has_a_docstring_with_its_version():
    import inspect
    import wsd
    import wsd.aio
    missing = []
    for owner in (wsd, wsd.aio):
        for name in owner.__all__:
            one = getattr(owner, name)
            members = [(name, one)] if inspect.isclass(one) or inspect.isfunction(one) else []
            if inspect.isclass(one):
                members += [(f'{name}.{n}', m) for n, m in vars(one).items()
                            if not n.startswith('_') and (inspect.isfunction(m) or isinstance(m, property))]
            missing += [n for n, m in members if 'Since 0.1' not in (m.__doc__ or '')]
    assert [n for n in missing if not n.startswith('Call')] == []
