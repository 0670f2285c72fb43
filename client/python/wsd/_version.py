# SPDX-License-Identifier: Apache-2.0
"""The version of the package, which is that of wsd. meson.build and a test hold it against the others."""

VERSION = '0.1.0'
PROGRAM = b'python-wsd ' + VERSION.encode()
