#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# manual.sh: the manuals against the programs: every verb, option, exit code and key of the configuration has its place there,
# and nothing else has one.
. "$(dirname "$0")/../support/lib.sh"

cat >"$WORK/manual.py" <<'END'
import glob, os, re, subprocess, sys

SRC = os.environ['SRC']

def said(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout

def page(name):
    """[(heading, text, tags)] of its sections and their parts; a tag is what stands behind .TP."""
    parts, tag = [('', [], [])], False
    with open('%s/packaging/man/%s' % (SRC, name)) as f:
        for line in f:
            line = re.sub(r'\\f.', '', line.rstrip('\n')).replace('\\-', '-').replace('\\&', '')
            heading = re.match(r'\.S[SH] "?(.*?)"?$', line)
            if heading:
                parts.append((heading.group(1), [], []))
                tag = False
                continue
            macro = re.match(r'\.([A-Z]+) ?(.*)$', line)
            words = macro.group(2) if macro else line
            if macro and macro.group(1) != 'TP':  # one argument in one style, the next in another, without a blank
                words = ''.join(a or b for a, b in re.findall(r'"([^"]*)"|(\S+)', words)) if len(macro.group(1)) == 2 and \
                    macro.group(1) not in ('SM',) and macro.group(1)[1] in 'RBI' else words
            parts[-1][1].append(words)
            if tag:
                parts[-1][2].append(words)
            tag = bool(macro) and macro.group(1) == 'TP'
    return [(heading, '\n'.join(text), '\n'.join(tags)) for heading, text, tags in parts]

def options(text):
    """The long options of a --help: those that begin a line."""
    found = set()
    for line in text.splitlines():
        m = re.match(r'\s+((?:-\w, )?--[a-z][a-z-]*(?:[ =][A-Z]+)?(?:, --[a-z][a-z-]*)*)', line)
        found |= set(re.findall(r'--[a-z][a-z-]*', m.group(1))) if m else set()
    return found

def same(what, program, manual):
    wrong = [('the manual has no', sorted(program - manual)), ('the manual has, and nobody else:', sorted(manual - program))]
    for why, names in wrong:
        if names:
            print('%s: %s %s' % (what, why, ' '.join(names)))
    return not wrong[0][1] and not wrong[1][1]

def verbs():
    good, sections = True, page('wsctl.1')
    names = re.findall(r'^  ([a-z]{2,})  ', said('wsctl', '--help'), re.M)
    common = options(said('wsctl', '--help'))
    assert len(names) > 10
    (own,) = [tags for heading, _, tags in sections if heading == 'OPTIONS']
    good &= same('wsctl', common, set(re.findall(r'--[a-z][a-z-]*', own)))
    for verb in names:
        mine = [s for s in sections if re.search(r'\bwsctl %s\b' % verb, s[0])]
        if not mine:
            print('%s has no section' % verb)
            good = False
        tags = set(re.findall(r'--[a-z][a-z-]*', '\n'.join(heading + '\n' + tag for heading, _, tag in mine)))
        good &= same('wsctl ' + verb, options(said('wsctl', verb, '--help')) - common, tags - common)
    headed = set(re.findall(r'\bwsctl ([a-z]+)', '\n'.join(heading for heading, _, _ in sections)))
    return same('verbs', set(names), headed) and good

def taken():
    """What getopt takes is what --help says: completion, too, goes by that."""
    good = True
    for verb in re.findall(r'^  ([a-z]{2,})  ', said('wsctl', '--help'), re.M):
        for option in sorted(options(said('wsctl', verb, '--help')) - {'--help', '--version'}):
            r = subprocess.run(['wsctl', verb, option + '=', '--no-such-option'], capture_output=True, text=True)
            if 'no such option' in r.stderr.replace('--no-such-option: no such option', ''):
                print('wsctl %s does not take %s' % (verb, option))
                good = False
    helped = set()
    for verb in re.findall(r'^  ([a-z]{2,})  ', said('wsctl', '--help'), re.M):
        helped |= options(said('wsctl', verb, '--help')) | options(said('wsctl', '--help'))
    folder = SRC + '/client/wsctl/'
    for name in sorted(os.listdir(folder)):
        with open(folder + name) as f:
            for option in re.findall(r'\{"([a-z-]+)", (?:no|required|optional)_argument', f.read()):
                if '--' + option not in helped:
                    print('%s: --%s is in no --help' % (name, option))
                    good = False
    return good

def daemon():
    (tags,) = [tags for heading, _, tags in page('wsd.8') if heading == 'OPTIONS']
    return same('wsd', options(said('wsd', '--help')), set(re.findall(r'--[a-z][a-z-]*', tags)))

def configuration():
    with open(os.environ['WSD_CONFIG'], 'w') as f:
        f.write('[plugin x]\nusers = root\nenabled = yes\nisolation = own\nmax-run = 1s\nmax-running = 1\nworkers = 1\nexecutor-memory = 1G\nexecutor-tasks = 9\ncpu-weight = 9\n'
                '[tag x]\nmax-running = 1\n[runner x]\noffer = root\nusers = root\nwait = 1s\nmax = 1\n[domain x]\nusers = root\nworkers = 1\nexecutor-memory = 1G\nexecutor-tasks = 9\ncpu-weight = 9\n'
                '[schedule x]\non = daily\njob = fib 1\npersistent = yes\nuser = root\n')
    program, manual, section = set(), set(), ''
    for line in said('wsd', '--config', os.environ['WSD_CONFIG'], '--print-config').splitlines():
        if line.startswith('['):
            section = re.sub(r'^\[(plugin|tag|runner|domain|schedule) .*', r'[\1 NAME]', line)
        m = re.match(r'(?:# )?([a-z-]+) = ', line)
        if m:
            program.add(section + ' ' + m.group(1))
    for heading, _, tags in page('wsd.conf.5'):
        if heading.startswith('['):
            manual |= {heading + ' ' + key for key in re.findall(r'[a-z-]+', tags)}
    return len(program) > 20 and same('wsd.conf', program, manual)

def security():
    """Each line of wsd-security(7) stands before the checks that show it, and those are there."""
    good, n = True, 0
    with open(SRC + '/packaging/man/wsd-security.7') as f:
        text = f.read()
    for script, check in re.findall(r'^\.RI \[ (\S+) ": (.*)" \]$', text, re.M):
        script, check = (re.sub(r'\\(-|\(aq)', lambda m: {'-': '-', '(aq': "'"}[m.group(1)], x) for x in (script, check))
        path, n = SRC + '/tests/integration/' + script, n + 1
        helper = SRC + '/tests/support/clients/' + script.replace('.sh', '.c')  # which has cases of its own
        if not os.path.exists(path) or check + '"' not in open(path).read() and not (
                os.path.exists(helper) and re.search(r'CASE\(%s\)' % check.replace(' ', '_'), open(helper).read())):
            print('wsd-security.7: %s has no check "%s"' % (script, check))
            good = False
    for claim in re.split(r'^\.IP \\\(bu 2$', text.split('.SH A LOCAL CLIENT')[1], flags=re.M)[1:]:
        if '\n.RI [ ' not in claim.split('\n.SH')[0]:
            print('wsd-security.7: no test shows:%s' % claim.splitlines()[1])
            good = False
    return good and n > 40

def library():
    """Each call that libwsclient exports has a page, which has more than its name."""
    good, folder = True, os.environ['BUILD'] + '/client/'
    exported = set(re.findall(r'^\S+ T (wsd_\w+)@', said('nm', '-D', '--with-symbol-versions', '--defined-only', folder + 'libwsclient.so.0'), re.M))
    for name in sorted(exported):
        text = open(folder + name + '.3').read() if os.path.exists(folder + name + '.3') else ''
        told = re.search(r'\.SH DESCRIPTION\n(.*?)\n\.SH ', text, re.S)
        if not told or len(told.group(1)) < 40 or not re.search(r'Since\s+0', told.group(1)):
            print('%s(3) does not tell what it does, and since when' % name)
            good = False
    return good and len(exported) > 40

def exits():
    said_by_help = set(re.findall(r'\b(\d+)(?:-\d+)? [a-zA-Z]', said('wsctl', '--help').split('Exit codes:')[1].replace('\n', ' ')))
    (text,) = [text for heading, text, _ in page('wsctl.1') if heading == 'EXIT STATUS']
    return same('exit codes', said_by_help, set(re.findall(r'^(\d+)(?:-\d+)?;', text, re.M)))

def section(name, heading):
    (text,) = [text for head, text, _ in page(name) if head == heading]
    return text

def missing(what, names, text):
    """Names that the text has not, each a word of its own."""
    gone = sorted(n for n in names if not re.search(r'(?<![\w-])%s(?![\w-])' % re.escape(n), text))
    if gone:
        print('%s: the manual has no %s' % (what, ' '.join(gone)))
    return not gone and len(names) > 0

def sources(*folders):
    for folder in folders:
        for at, _, names in os.walk(SRC + '/' + folder):
            for name in names:
                if name.endswith('.c') and '/plugins' not in at:
                    with open(at + '/' + name) as f:
                        yield f.read()

def environment():
    """What the programs look for in it, or have libsystemd look for, and what executors are given of it."""
    asked = {folder: {v for text in sources(folder) for v in re.findall(r'getenv\("(\w+)"\)', text)} for folder in ('daemon', 'client')}
    asked['client'] |= {v for text in sources('client') for v in re.findall(r'"(WSD_TLS_\w+)"', text)}
    with open(SRC + '/daemon/supervisor/child-program.c') as f:
        given = set(re.findall(r'"(\w+)=?"', re.search(r'environment_passes.*?\{(.*?)\};', f.read(), re.S).group(1)))
    systemd = {'LISTEN_PID', 'LISTEN_FDS', 'LISTEN_FDNAMES', 'WATCHDOG_USEC', 'WATCHDOG_PID'}
    own, library = section('wsd.8', 'ENVIRONMENT'), section('libwsclient.3', 'ENVIRONMENT')
    web = {v for text in sources('daemon/web') for v in re.findall(r'getenv\("(\w+)"\)', text)}
    asked['daemon'] -= web
    good = missing('wsd-web', web, section('wsd-web.8', 'ENVIRONMENT'))
    good &= missing('wsd', asked['daemon'] | systemd | given, own.replace('MALLOC_*', 'MALLOC_'))
    good &= missing('wsctl', asked['client'], section('wsctl.1', 'ENVIRONMENT'))
    files = [SRC + '/client/' + name for name in os.listdir(SRC + '/client') if name.endswith('.c')]
    asked_there = {v for name in files for v in re.findall(r'(?:getenv\(|, )"((?:WSD|XDG)_\w+)"', open(name).read())}
    return missing('libwsclient', asked_there, library) and len(asked_there) > 5 and good

def signals():
    with open(SRC + '/daemon/ops/service.c') as f:
        numbers = re.search(r'numbers\[\] = \{(.*?)\};', f.read()).group(1)
    return missing('wsd', set(re.findall(r'SIG\w+', numbers)), section('wsd.8', 'SIGNALS'))

def states():
    with open(SRC + '/include/wsd/client.h') as f:
        names = {n.lower().replace('_', '-') for n in re.findall(r'^    WSD_JOB_(\w+) = \d+,', f.read(), re.M)}
    return len(names) == 10 and missing('states of a job', names, section('wsctl.1', 'JSON'))

def keys():
    """Each key of the JSON that wsctl prints. Those of otlp.c are OTLP's."""
    names = {k for text in sources('client/wsctl') if ' * otlp.c: ' not in text for k in re.findall(r'json_\w+\([^,;()]*, "([a-z][a-z0-9_]*)"', text)}
    return len(names) > 60 and missing('JSON of wsctl', names, '\n'.join(t for _, t, _ in page('wsctl.1')))

def own_files():
    """The text of the files beside main.c."""
    text = ''
    for name in sorted(os.listdir(SRC + '/daemon')):
        if name.endswith(('.c', '.h')):
            with open(SRC + '/daemon/' + name) as f:
                text += f.read()
    return text

def ends():
    """Exit codes of wsd, as the files of daemon/ itself have them."""
    with open(SRC + '/daemon/base/code.h') as f:
        number = dict(re.findall(r'(CODE_\w+) = (\d+),', f.read()))
    codes = {number[name] for name in re.findall(r'\bCODE_\w+', own_files())}
    return same('exit codes of wsd', codes, set(re.findall(r'\b(\d\d)\b', section('wsd.8', 'EXIT STATUS'))))

def files():
    """Sockets, configuration, state: where the files of daemon/ itself and the units have them."""
    wanted = {'/etc/wsd/wsd.conf', '/etc/wsd/wsd.conf.d/*.conf', '/etc/wsd/NAME.conf'}
    wanted |= {s.rstrip('/') for s in re.findall(r'"(/(?:run|var)/[\w./-]+)"', own_files())}
    with open(SRC + '/packaging/systemd/wsd.service.in') as f:
        unit = f.read()
    for path in re.findall(r'/run/wsd/@name@\.\w+', unit):
        wanted |= {path.replace('@name@', 'wsd'), path.replace('@name@', 'NAME')}
    wanted |= {{'State': '/var/lib/wsd', 'Cache': '/var/cache/wsd'}[d] for d in re.findall(r'^(State|Cache)Directory=', unit, re.M)}
    for text in sources('daemon/store'):
        wanted |= set(re.findall(r'"[^"\n]*\b(jobs\.db)"', text))
    gone = sorted(w for w in wanted if w not in section('wsd.8', 'FILES'))
    if gone:
        print('wsd.8: FILES has no', ' '.join(gone))
    return not gone and len(wanted) >= 10

def calls():
    """A call that a manual, a header or a README names is there."""
    there, good = set(), True
    for name in glob.glob(SRC + '/include/wsd/**/*.h', recursive=True):
        with open(name) as f:
            there |= set(re.findall(r'\b(wsd_\w+)\)?\s*\(', re.sub(r'/\*.*?\*/', '', f.read(), flags=re.S)))
    for folder, pattern in (('packaging/man', r'\.[1-8]$'), ('include/wsd', r'\.h$'), ('include/wsd/adapters', r'\.h$'), ('proto', r'\.md$'), ('.', r'README\.md$'), ('packaging/doc', r'\.md$')):
        for name in sorted(os.listdir(SRC + '/' + folder)):
            if re.search(pattern, name):
                with open(SRC + '/' + folder + '/' + name) as f:
                    gone = sorted(set(re.findall(r'\b(wsd_\w+) ?\(\)', f.read())) - there)
                if gone:
                    print('%s names what is not there: %s' % (name, ' '.join(gone)))
                    good = False
    return good and len(there) > 100

def guarantees():
    """Each promise has a test, and each test that is named is there."""
    n, good = 0, True
    with open(SRC + '/packaging/doc/guarantees.md') as f:
        rows = [line.rstrip('\n').strip('|').split(' | ') for line in f if re.match(r'\| (?!---|promise \| test)', line)]
    for promise, *tests in rows:
        names = re.findall(r'`([^`]+)`', tests[0]) if len(tests) == 1 else []
        there = {name: [p for folder in ('', 'tests/', 'tests/integration/', 'tests/neighbour/', 'tests/fuzz/')
                        for p in (folder + name, folder + name + '.c') if os.path.exists(SRC + '/' + p)]
                 for name in names if not name.startswith('-')}
        n += len(there)
        if not there or not all(there.values()):
            print('guarantees.md: %s: %s' % (promise.strip(), 'there is no ' + ' '.join(k for k in there if not there[k]) if there else 'names no test'))
            good = False
    return good and n > 80

def amount(text):
    """A number with a suffix of wsd.conf, in bytes or milliseconds; without one it is itself."""
    m = re.match(r'(\d+)(ms|s|min|h|d|[KMGT])?$', text)
    factors = {None: 1, 'ms': 1, 's': 1000, 'min': 60000, 'h': 3600000, 'd': 86400000, 'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30, 'T': 1 << 40}
    return int(m.group(1)) * factors[m.group(2)] if m else text

def defaults():
    """What the manual says of each key that has one number or word for its default."""
    in_force, heading, n, good = {}, '', 0, True
    for line in said('wsd', '--config', '/dev/null', '--print-config').splitlines():
        heading = line if line.startswith('[') else heading
        m = re.match(r'([a-z-]+) = ([\w-]+)$', line)
        if m:
            in_force[heading + ' ' + m.group(1)] = {'log-level = 6': 'info'}.get(line, m.group(2))
    for heading, text, tags in page('wsd.conf.5'):
        if not heading.startswith('[') or not tags:
            continue
        parts = re.split(r'^(%s)$' % '|'.join(re.escape(t) for t in tags.split('\n') if t), text, flags=re.M)
        for key, words in zip(parts[1::2], parts[2::2]):
            value, told = in_force.get(heading + ' ' + key), re.search(r'Default:\s+([\w-]+)\.\s*$', words.strip())
            if not value or not told:
                continue
            n += 1
            if amount(value) != amount(told.group(1)):
                print('%s %s: %s is in force, the manual says %s' % (heading, key, value, told.group(1)))
                good = False
    print(n, 'defaults')
    return good and n > 25

sys.exit(0 if globals()[sys.argv[1]]() else 1)
END
export PYTHONDONTWRITEBYTECODE=1
check "wsctl.1: verbs and their options" python3 "$WORK/manual.py" verbs
check "wsctl takes the options of --help, and no others" python3 "$WORK/manual.py" taken
check "wsctl.1: exit codes" python3 "$WORK/manual.py" exits
check "wsd.8: options" python3 "$WORK/manual.py" daemon
check "wsd-security.7: each line has a test that is there" python3 "$WORK/manual.py" security
check "libwsclient: a page for each call" python3 "$WORK/manual.py" library
check "wsd.conf.5: sections and keys" python3 "$WORK/manual.py" configuration
check "wsd.conf.5: defaults" python3 "$WORK/manual.py" defaults
check "wsd.8: exit codes" python3 "$WORK/manual.py" ends
check "wsd.8: signals" python3 "$WORK/manual.py" signals
check "wsd.8: files" python3 "$WORK/manual.py" files
check "environment variables of wsd, wsctl and libwsclient" python3 "$WORK/manual.py" environment
check "wsctl.1: states of a job" python3 "$WORK/manual.py" states
check "wsctl.1: keys of its JSON" python3 "$WORK/manual.py" keys
check "guarantees.md: each promise has a test that is there" python3 "$WORK/manual.py" guarantees
check "calls that are named are there" python3 "$WORK/manual.py" calls
clean() { # PAGE
  local warnings
  warnings=$(LC_ALL=C.UTF-8 MANROFFSEQ='t' man --warnings -l "$1" 2>&1 >/dev/null) || return 1
  [ -z "$warnings" ] || {
    echo "$warnings"
    return 1
  }
}
if command -v man >/dev/null; then
  for page in "$SRC"/packaging/man/*.[1-8]; do
    check "${page##*/} has no warnings" clean "$page"
  done
  clean_calls() {
    local page
    for page in "$BUILD"/client/*.3; do clean "$page" || return 1; done
  }
  check "nor have those of the calls" clean_calls
else
  skip "man --warnings" "no man here"
fi
