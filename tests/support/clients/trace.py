#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""trace.py: whether a trace is one that Perfetto shows as it is meant.

  trace.py FILE [WANTED...]       an error where the trace is not sane, or lacks what is wanted: `fib` (a job), `steals`,
                                  `ways` (arrows from wsd to a worker and back), `client`, `one` (a single job), `none`
  trace.py --otlp FILE [TRACEPARENT]
                                  an error where a line is no ExportTraceServiceRequest as the file exporter of
                                  OpenTelemetry writes it, or its spans do not belong to TRACEPARENT
"""
import collections
import json
import re
import sys

WSD, CLIENT = 1000000000, 1000000001


def nsec(usec):
    return round(usec * 1000)  # they are written with three decimals


def check_lanes(lanes):
    """What one lane shows is one thing within another, never across."""
    for spans in lanes.values():
        ends = []
        for e in sorted(spans, key=lambda e: (e['ts'], -e['dur'])):
            while ends and ends[-1] <= e['ts']:
                ends.pop()
            assert not ends or e['ts'] + e['dur'] <= ends[-1], e
            ends.append(e['ts'] + e['dur'])


def around(lanes, e):
    """The spans in which an end of an arrow is."""
    return [s for s in lanes[e['pid'], e['tid']] if s['ts'] <= e['ts'] <= s['ts'] + s['dur']]


def check_flows(events, lanes):
    flows = collections.defaultdict(list)
    for e in events:
        if e['ph'] in 'sf':
            flows[e['cat'], e['id']].append(e)
    for ends in flows.values():
        assert [e['ph'] for e in ends] == ['s', 'f'], ends
        begin, end = ends
        assert begin['ts'] <= end['ts'] and begin['name'] == end['name'] and end['bp'] == 'e', ends
        froms, tos = around(lanes, begin), around(lanes, end)
        assert froms and tos, ends
        if begin['cat'] == 'steal':  # from its spawner, that is from something of the same job
            stolen = [s for s in tos if s['cat'] == 'task' and s['ts'] == end['ts']]
            assert stolen and begin['tid'] == stolen[0]['args']['victim'], ends
            assert any(s['args'].get('job') == stolen[0]['args'].get('job') for s in froms), ends
    return collections.Counter(ends[0]['name'] for ends in flows.values())


def check_names(events):
    """One process a program, and a name for each lane."""
    processes = [(e['pid'], e['args']['name']) for e in events if e.get('name') == 'process_name']
    assert len(processes) == len({pid for pid, _ in processes}) == len({name for _, name in processes}), processes
    threads = [(e['pid'], e['tid']) for e in events if e.get('name') == 'thread_name']
    assert len(threads) == len(set(threads)), threads
    for e in events:
        assert e['pid'] in dict(processes), e
        assert 'tid' not in e or (e['pid'], e['tid']) in threads, e
    assert dict(processes).get(WSD, 'wsd') == 'wsd' and dict(processes).get(CLIENT, 'wsctl') == 'wsctl', processes


def check(events):
    lanes = collections.defaultdict(list)
    for e in events:
        assert e['ph'] in 'XMsfi', e
        if 'ts' in e:
            e['ts'] = nsec(e['ts'])
            assert e['ts'] > 0, e
        if e['ph'] == 'X':
            e['dur'] = nsec(e['dur'])
            assert e['dur'] >= 0, e
            lanes[e['pid'], e['tid']].append(e)
    check_names(events)
    check_lanes(lanes)
    return check_flows(events, lanes)


def check_file(path, wanted):
    with open(path, encoding='utf-8') as file:
        events = json.load(file)['traceEvents']
    arrows = check(events)
    kinds = collections.Counter((e['ph'], e.get('cat')) for e in events)
    jobs = {e['args']['job'] for e in events if e['ph'] == 'X' and 'job' in e['args']}
    assert all(len(j) == 32 and int(j, 16) for j in jobs), jobs
    print(len(events), dict(kinds), dict(arrows), len(jobs), 'jobs')
    held = {
        'fib': any(e['ph'] == 'X' and e['name'] == 'fib:fib' and e['pid'] < WSD for e in events),
        'steals': kinds['X', 'task'] > 0 and arrows['steal'] > 0,
        'ways': arrows['hand over'] > 0 and arrows['answer'] > 0,
        'client': arrows['submit'] == arrows['told'] == 1 and any(e['pid'] == CLIENT for e in events),
        'one': len(jobs) == 1 and all('job' in e['args'] or e['cat'] == 'join' for e in events if e['ph'] == 'X'),
        'none': not jobs,
    }
    for name in wanted:
        assert held[name], name


# --- OTLP: fields of opentelemetry/proto/{collector/trace,trace,resource,common}/v1 in protobuf's JSON, where 64 bits are
# texts and, by OTLP's exception, ids are hexadecimal ---------------------------------------------------------------------

def text(value):
    return isinstance(value, str)


def unsigned(value):
    return text(value) and re.fullmatch('0|[1-9][0-9]{0,19}', value) is not None and int(value) < 1 << 64


def hexadecimal(digits):
    return lambda value: re.fullmatch('[0-9a-f]{%d}' % digits, value) is not None and int(value, 16) != 0


def one_of(*numbers):
    return lambda value: value in numbers and isinstance(value, int)


def each(kind):
    return lambda value: isinstance(value, list) and all(message(v, kind) for v in value)


def of(kind):
    return lambda value: message(value, kind)


PROTO = {
    'ExportTraceServiceRequest': {'resourceSpans': each('ResourceSpans')},
    'ResourceSpans': {'resource': of('Resource'), 'scopeSpans': each('ScopeSpans'), 'schemaUrl': text},
    'Resource': {'attributes': each('KeyValue')},
    'ScopeSpans': {'scope': of('InstrumentationScope'), 'spans': each('Span'), 'schemaUrl': text},
    'InstrumentationScope': {'name': text, 'version': text},
    'Span': {'traceId': hexadecimal(32), 'spanId': hexadecimal(16), 'parentSpanId': hexadecimal(16), 'traceState': text,
             'name': lambda value: text(value) and value != '', 'kind': one_of(0, 1, 2, 3, 4, 5),
             'startTimeUnixNano': unsigned, 'endTimeUnixNano': unsigned, 'attributes': each('KeyValue'),
             'status': of('Status')},
    'Status': {'code': one_of(0, 1, 2), 'message': text},
    'KeyValue': {'key': text, 'value': of('AnyValue')},
    'AnyValue': {'stringValue': text, 'intValue': unsigned},
}
REQUIRED = {'Span': ('traceId', 'spanId', 'name', 'startTimeUnixNano', 'endTimeUnixNano')}


def message(value, kind):
    assert isinstance(value, dict), (kind, value)
    for name, part in value.items():
        assert name in PROTO[kind] and PROTO[kind][name](part), (kind, name, part)
    assert all(name in value for name in REQUIRED.get(kind, ())), (kind, value)
    return True


def check_otlp(path, traceparent=None):
    seen, names = set(), collections.Counter()
    with open(path, encoding='utf-8') as file:
        lines = [json.loads(line) for line in file]
    for line in lines:
        message(line, 'ExportTraceServiceRequest')
        spans = [s for r in line['resourceSpans'] for scope in r['scopeSpans'] for s in scope['spans']]
        own = {s['spanId']: s for s in spans}
        assert spans and len({s['traceId'] for s in spans}) == 1 and len(own) == len(spans), line
        for span in spans:
            assert span['spanId'] not in seen, span
            seen.add(span['spanId'])
            names[span['name'].split()[0]] += 1
            assert int(span['startTimeUnixNano']) <= int(span['endTimeUnixNano']), span
            parent = own.get(span.get('parentSpanId'))
            assert not parent or int(parent['startTimeUnixNano']) <= int(span['startTimeUnixNano']), span
            if traceparent:
                _, trace, outer, _ = traceparent.split('-')
                assert span['traceId'] == trace and (parent or span['parentSpanId'] == outer), span
    assert lines and names['queue'] and names['run'], names
    print(len(lines), 'jobs', dict(names))


if __name__ == '__main__':
    if sys.argv[1] == '--otlp':
        check_otlp(*sys.argv[2:])
    else:
        check_file(sys.argv[1], sys.argv[2:])
