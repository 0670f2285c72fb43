#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# plugins-through-wsd-3.sh: the other ones of the longest scripts of plugins/, through `wsctl submit` and a daemon.
exec "$(dirname "$0")/plugins-through-wsd.sh" search text
