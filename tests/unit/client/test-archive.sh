#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The static library defines the names of the installed header and no other: a program that has functions of the same
# names as the library's own links with it, and runs. Arguments: archive, directory of the header, compiler.
set -eu
archive=$1 include=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
nm -g --defined-only "$archive" | awk 'NF == 3 && $3 !~ /^wsd_/ { print; bad = 1 } END { exit bad }'
cat >"$work/program.c" <<'END'
#include <stdio.h>
#include <string.h>
#include <wsd/client.h>
int connection_send(void);
int frame_parse(void);
int hash_insert(void);
int connection_send(void) { return 1; }
int frame_parse(void) { return 2; }
int hash_insert(void) { return 4; }
int main(void)
{
    struct wsd_client *client;
    int r = wsd_client_open(&client, "/nowhere/wsd", 0);

    printf("%s\n", wsd_client_error(client));
    wsd_client_free(client);
    return r < 0 && connection_send() + frame_parse() + hash_insert() == 7 ? 0 : 1;
}
END
"$@" -I "$include" "$work/program.c" "$archive" -lprotobuf-c -o "$work/program"
if readelf -d "$work/program" | grep libwsclient; then exit 1; fi
"$work/program" | grep -q '/nowhere/wsd'
