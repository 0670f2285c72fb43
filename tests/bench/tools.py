#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
#
# tools.py [--size MIB] [--only big|small] [--check-outputs] FOLDER SOCKET WSCTL: each shipped plugin beside the tools that
# it equals, in turns, once. A line for each: "tools IMPL PARAMS ms VALUE". FOLDER keeps what is read: the system's C headers,
# repeated, and what was made of them (big), and many small files (small). With --check-outputs each output is compared
# instead of timed; what differs is no line, but a message, and ends with status 1. Output goes to /dev/null through a pipe,
# without a copy.
import argparse
import glob
import hashlib
import os
import random
import shutil
import subprocess
import sys
import time

PATTERNS = ['u?int[0-9]+_t', '(foo|bar).*(baz|qux)', 'zzz_not_there_[0-9]+', 'struct', '^#include', '[0-9]{5,}', '\\bint\\b', '[a-z]+;$',
            'static|inline|extern', 'TODO|FIXME|XXX', '0x[0-9A-Fa-f]{8}', '[[:space:]]+return ', '^$', 'if *\\(.*==', '"[^"]*"',
            '(a|b)*c(d|e)+f', '[A-Z_]{20,}', '#define +[A-Z]+_[A-Z]+', '\\w+\\(void\\)', 'a.b.c']
FILES = 64
SMALL_FOLDERS, SMALL_FILES, SMALL_LEAST, SMALL_MOST = 100, 1000, 100, 4096  # files of each folder, and their bytes
BYTES, LINES, PICTURE = range(3)


def corpus(folder, size):
    text = os.path.join(folder, 'text')
    if os.path.exists(text) and os.path.getsize(text) == size:
        return text
    os.makedirs(folder, exist_ok=True)
    headers = b''.join(open(name, 'rb').read() for name in sorted(glob.glob('/usr/include/**/*.h', recursive=True)) if os.path.isfile(name))
    headers = headers.replace(b'\0', b'')
    with open(text, 'wb') as f:
        for left in range(size, 0, -len(headers)):
            f.write(headers[:left])
    return text


def parts(folder, text):
    names = [os.path.join(folder, 'part-%02d' % i) for i in range(FILES)]
    if not os.path.exists(names[-1]):
        with open(text, 'rb') as f:
            for name in names:
                with open(name, 'wb') as part:
                    part.write(f.read(os.path.getsize(text) // FILES))
    return names


def made(name, command):
    if not os.path.exists(name):
        with open(name + '.new', 'wb') as f:
            subprocess.run(command, stdout=f, check=True)
        os.rename(name + '.new', name)
    return name


def tables(folder):
    """Two tables in order, of which some rows have partners."""
    some = []
    for name, step in (('left', 2), ('right', 3)):
        some.append(os.path.join(folder, name))
        if not os.path.exists(some[-1]):
            with open(some[-1] + '.new', 'w', encoding='ascii') as f:
                f.writelines('%08d %s row %d of a table\n' % (i, name, i * 7919 % 1000003) for i in range(0, 6000000, step))
            os.rename(some[-1] + '.new', some[-1])
    return some


def small_files(folder):
    """Returns the file that has their names, a line each."""
    names = os.path.join(folder, 'small-names')
    if os.path.exists(names):
        return names
    chance = random.Random(7)
    content = chance.randbytes(1 << 20)
    files = []
    for i in range(SMALL_FOLDERS):
        below = os.path.join(folder, 'small', '%02d' % i)
        os.makedirs(below, exist_ok=True)
        for j in range(SMALL_FILES):
            files.append(os.path.join(below, 'file-%03d' % j))
            at = chance.randrange(len(content) - SMALL_MOST)
            with open(files[-1], 'wb') as f:
                f.write(content[at:at + chance.randint(SMALL_LEAST, SMALL_MOST)])
    with open(names + '.new', 'w', encoding='utf-8') as f:
        f.writelines(name + '\n' for name in files)
    os.rename(names + '.new', names)
    return names


def small_cases(args):
    names = small_files(args.folder)
    by_stdin = ['sh', '-c', 'exec "$@" <"$0"', names]
    yield 'small', {'sha256sum': ['xargs', '-a', names, '-P', str(os.cpu_count()), '-n', '500', 'sha256sum'],
                    'wsd': by_stdin + [args.wsctl, '--socket', args.socket, 'map', 'checksum']}, LINES, None


def big_cases(args):
    text = corpus(args.folder, args.size << 20)
    names = parts(args.folder, text)
    submit = [args.wsctl, '--socket', args.socket, 'submit', '--']
    for i, pattern in enumerate(PATTERNS):
        tools = {'grep': ['grep', '-nE', '--', pattern, text], 'wsd': submit + ['search', pattern, text]}
        if shutil.which('rg'):
            tools['ripgrep'] = ['rg', '-n', '--', pattern, text]
        yield 'search=%d' % i, tools, BYTES, None
    one = made(os.path.join(args.folder, 'one.zst'), ['zstd', '-qc', text])
    many = made(os.path.join(args.folder, 'many.zst'), submit + ['compress', text])
    yield 'decompress=one', {'zstd': ['zstd', '-qdc', one], 'wsd': submit + ['decompress', one]}, BYTES, None
    yield 'decompress=many', {'zstd': ['zstd', '-qdc', many], 'wsd': submit + ['decompress', many]}, BYTES, None
    yield 'compress', {'zstd': ['zstd', '-qcT0', text], 'wsd': submit + ['compress', text]}, BYTES, ['zstd', '-qdc']
    tar = ['tar', '--format=posix', '--sort=name', '--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime',
           '--use-compress-program=zstd -qT%d' % os.cpu_count(), '-cf', '-', '-C', '/usr', 'include']
    yield 'archive', {'tar': tar, 'wsd': submit + ['archive', '-C', '/usr', 'include']}, BYTES, ['zstd', '-qdc']
    through = ['sh', '-c', 'cat "$0" "$0" | "$@"', text]  # more than 1 GiB
    yield 'pipe', {'cat': through + ['cat'],
                   'wsd': through + submit[:-1] + ['--input', '-', '--output', '/dev/stdout', 'work:copy']}, BYTES, None
    yield 'sort', {'sort': ['sort', '--parallel=%d' % os.cpu_count(), names[0]], 'wsd': submit + ['sort', names[0]]}, BYTES, None
    photo = os.path.join(args.folder, 'photo.jpg')
    if not os.path.exists(photo):
        subprocess.run(['convert', '-seed', '7', '-size', '4000x3000', 'plasma:', '-attenuate', '0.2', '+noise', 'Gaussian',
                        '-quality', '92', photo], check=True)
    for name, size in ('resize', 800), ('thumbnail', 200):
        scale = ['-filter', 'Lanczos', '-resize', '%dx%d' % (size, size), '-quality', '85']
        more = ['--width', '800', '--height', '800'] if name == 'resize' else ['200']
        yield 'image=' + name, {'convert': ['convert', photo] + scale + ['jpg:-'],
                                'wsd': submit + ['image:' + name] + more + [photo]}, PICTURE, None
    count = 'sort --parallel=%d "$1" | uniq -c' % os.cpu_count()
    yield 'frequency', {'sort': ['sh', '-c', count, 'sh', names[0]], 'wsd': submit + ['text:frequency', names[0]]}, BYTES, None
    yield 'unique', {'uniq': ['uniq', text], 'wsd': submit + ['text:unique', text]}, BYTES, None
    left, right = tables(args.folder)
    yield 'join', {'join': ['join', left, right], 'wsd': submit + ['text:join', left, right]}, BYTES, None
    xargs = ['xargs', '-a', os.path.join(args.folder, 'names'), '-n', '8', '-P', str(os.cpu_count())]
    with open(xargs[2], 'w', encoding='utf-8') as f:
        f.writelines(name + '\n' for name in names)
    yield 'checksum', {'sha256sum': xargs + ['sha256sum'], 'wsd': submit + ['checksum', 'sha256'] + names}, LINES, None
    if shutil.which('xxhsum'):
        yield 'checksum=xxh3', {'xxhsum': xargs + ['xxhsum', '-H3'], 'wsd': submit + ['checksum', 'xxh3'] + names}, LINES, None
    yield 'count', {'wc': xargs + ['wc', '-l'], 'wsd': submit + ['count', '-l'] + names}, LINES, None


def cases(args):
    """(params, {impl: command}, how outputs are compared, command that undoes)"""
    if args.only != 'small':
        yield from big_cases(args)
    if args.only != 'big':
        yield from small_cases(args)


def timed(command):
    begin = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process, open('/dev/null', 'wb') as null:
        while os.splice(process.stdout.fileno(), null.fileno(), 1 << 20):
            pass
    return (time.monotonic() - begin) * 1000


def size_of_picture(command):
    """Pixels are compared by tests/integration/plugins/image.sh."""
    return subprocess.run(['identify', '-format', '%m %w %h', '-'], input=subprocess.run(command, capture_output=True, check=True).stdout,
                          capture_output=True, check=True).stdout


def digest(command, way, undo):
    if way == PICTURE:
        return size_of_picture(command)
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        undone = subprocess.Popen(undo, stdin=process.stdout, stdout=subprocess.PIPE) if undo else process
        if way == LINES:  # in any order, columns of any width, and no totals
            lines = sorted(b' '.join(line.split()) for line in undone.stdout if not line.endswith(b' total\n'))
            return hashlib.sha256(b'\n'.join(lines)).digest()
        return hashlib.file_digest(undone.stdout, 'sha256').digest()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--size', type=int, default=610)
    parser.add_argument('--only', choices=('big', 'small'))
    parser.add_argument('--check-outputs', action='store_true')
    parser.add_argument('folder')
    parser.add_argument('socket')
    parser.add_argument('wsctl')
    args = parser.parse_args()
    os.environ['LC_ALL'] = 'C'
    differ = False
    for params, tools, way, undo in cases(args):
        if args.check_outputs:
            if len({digest(command, way, undo) for command in tools.values()}) != 1:
                print('tools.py: %s: the outputs differ' % params, file=sys.stderr)
                differ = True
            continue
        for name, command in tools.items():
            print('tools', name, params, 'ms', '%.2f' % timed(command), flush=True)
    sys.exit(differ)


main()
