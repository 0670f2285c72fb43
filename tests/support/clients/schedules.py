#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""schedules.py SOCKET add|remove N: as many schedules, some hundred requests at a time."""
import sys

import protocol

AT_ONCE = 500


def request(peer, action, number):
    if action == 'remove':
        return peer.send('SCHEDULE', action=3, name=f's{number}')
    return peer.send('SCHEDULE', action=1, name=f's{number}', calendar='*-*-* 03:00', plugin='echo', args=['x'])


def main():
    path, action, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with protocol.Peer(path) as peer:
        for first in range(0, n, AT_ONCE):
            for tag in [request(peer, action, i) for i in range(first, min(first + AT_ONCE, n))]:
                peer.next('END', tag)


main()
