#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# plugins-through-wsd-2.sh: some of the longest scripts of plugins/, through `wsctl submit` and a daemon.
exec "$(dirname "$0")/plugins-through-wsd.sh" archive image
