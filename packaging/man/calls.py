#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""calls.py: writes a manual page for each call of libwsclient, from an installed header.

The text of a page is the comment before the call. The page also has the types that the call takes.
So each promise of the header is written once.

  calls.py --names HEADER              the calls, a line each
  calls.py HEADER VERSION DIRECTORY    DIRECTORY/CALL.3 for each

Calls that share a comment have a page each, with all of them."""
import os
import re
import sys


def read(header):
    """Returns a list of ([declarations], comment), one for each group in order, and {name: text} of the types."""
    with open(header, encoding='utf-8') as f:
        text = f.read()
    types = {}
    for m in re.finditer(r'(/\*(?:(?!\*/).)*?\*/\n)?((?:struct|enum) (wsd_\w+) \{.*?^\};)', text, re.S | re.M):
        types[m.group(3)] = (m.group(1) or '') + m.group(2)
    groups = []
    for m in re.finditer(r'/\*((?:(?!\*/).)*)\*/\n((?:WSD_EXPORT [^;]*;\n)+)', text, re.S):
        declarations = [d.strip() for d in m.group(2).replace('WSD_EXPORT ', '').split(';\n') if d.strip()]
        groups.append((declarations, re.sub(r'^ ?\* ?', '', m.group(1).strip(), flags=re.M)))
    missing = set(re.findall(r'^WSD_EXPORT [^;(]*?(\w+)\(', text, re.M)) - {name_of(d) for ds, _ in groups for d in ds}
    if missing:
        sys.exit('calls.py: %s: no comment before %s' % (header, ' '.join(sorted(missing))))
    return groups, types


def name_of(declaration):
    return re.search(r'(\w+)\(', declaration).group(1)


def roff(text):
    return re.sub(r"^(?=[.'])", r'\\&', text.replace('\\', '\\e').replace('-', '\\-'), flags=re.M)


def used(declarations, types):
    """Returns the types that the declarations name, and the types that these name in turn."""
    found, rest = [], ' '.join(declarations)
    while True:
        new = [t for t in types if t not in found and re.search(r'\b(?:struct|enum) %s\b' % t, rest)]
        if not new:
            return [t for t in types if t in found]
        found += new
        rest = ' '.join(types[t] for t in new)


def page(name, declarations, comment, types, version, header):
    names = [name_of(d) for d in declarations]
    first = re.match(r'.*?(?=[.;:]\s|\.?$)', ' '.join(re.sub(r'\s\([^)]*\)', '', comment).split())).group(0)
    what = first[0].lower() + first[1:] if first[1:2].islower() else first
    lines = ['.\\" SPDX-License-Identifier: Apache-2.0', '.\\" by packaging/man/calls.py from wsd/' + header,
             '.TH %s 3 "" "wsd %s" "Library functions"' % (name.upper(), version), '.SH NAME',
             '%s \\- %s' % (', '.join([name] + [n for n in names if n != name]), roff(what)), '.SH SYNOPSIS', '.nf', '#include <wsd/%s>' % header, '']
    lines += [roff(d) + ';' for d in declarations]
    lines += ['.fi', '.SH DESCRIPTION', roff(re.sub(r'\n\s*\n', '\n.PP\n', comment)).replace('\\&.PP', '.PP')]
    defined = used(declarations, types)
    if defined:
        lines += ['.SH TYPES', '.EX', '\n\n'.join(roff(types[t]) for t in defined), '.EE']
    lines += ['.SH SEE ALSO', '.BR libwsclient (3)' if header == 'client.h' else '.BR wsd\\-runner (7)']
    return '\n'.join(lines) + '\n'


def main(argv):
    if argv[0] == '--names':
        groups, _ = read(argv[1])
        print('\n'.join(name_of(d) for ds, _ in groups for d in ds))
        return
    header, version, directory = argv
    groups, types = read(header)
    for declarations, comment in groups:
        for d in declarations:
            with open(os.path.join(directory, name_of(d) + '.3'), 'w', encoding='utf-8') as f:
                f.write(page(name_of(d), declarations, comment, types, version, os.path.basename(header)))


if __name__ == '__main__':
    main(sys.argv[1:])
