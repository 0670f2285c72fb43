#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# actions.sh: who has changed something in wsd of late, by `wsctl actions`: in which order, with which result, and who sees it.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/users.sh"

actions() { # COMMAND...: a line each, as USER ACTION OBJECT EXIT
  "$@" --json actions | sed 's/.*"uid":\([0-9]*\),"person":"\([^"]*\)","action":"\([^"]*\)","object":"\([^"]*\)","exit":\([0-9]*\)}/\1 \3 \4 \5/'
}
told() { # COMMAND... -- LINE...: these, and no others
  local command=()
  while [ "$1" != -- ]; do
    command+=("$1")
    shift
  done
  shift
  actions "${command[@]}" >"$WORK/told"
  printf '%s\n' "$@" | diff - "$WORK/told"
}
none() { # COMMAND...
  [ -z "$("$@" --json actions)" ]
}

# --- a wsd of one user: an administrator ------------------------------------------------------------------------------------

start_wsd --plugin-dir "$TEST_PLUGINS" || exit 1
me=$(id -u)
check "at first there is none" none wsctl
changes() {
  wsctl pause fib && wsctl limit --tag big 3 && wsctl limits max-run=1h && wsctl workers set 2 >/dev/null && wsctl plugin reload fib &&
    wsctl schedule add nightly --on yearly fib 3 && wsctl resume fib && refused 66 'neither paused' wsctl resume fib &&
    refused 64 'no limit' wsctl limits none=1 && wsctl schedule remove nightly
}
check "what changes something" changes
expected=("$me pause fib 0" "$me limit tag big = 3 0" "$me limit max-run = 1h 0" "$me set workers 2 0" "$me reload fib 0"
  "$me schedule add nightly 0" "$me resume fib 0" "$me resume fib 66" "$me limit none = 1 64" "$me schedule remove nightly 0")
check "is told in its order, with what became of it" told wsctl -- "${expected[@]}"
long=$(printf 'é%.0s' {1..150})
cut_off() {
  refused 66 'not found' wsctl plugin reload "$long" && expected+=("$me reload ${long:0:126}… 66") && told wsctl -- "${expected[@]}"
}
check "what is too long ends in a mark, between two characters" cut_off
asks() { # and cancels jobs of the same user
  local id
  wsctl limit && wsctl limits && wsctl workers && wsctl schedule list && wsctl dead list && id=$(wsctl submit --detach --delay 1h fib 3) &&
    wsctl cancel "$id" && id=$(wsctl map --detach sleep:sleep ::: 600000) && wsctl cancel "$id"
}
check "questions, and cancels of one's own jobs" asks
check "are not among them" told wsctl -- "${expected[@]}"
for_people() {
  wsctl actions >"$WORK/people" && [ "$(wc -l <"$WORK/people")" = 12 ] && grep -q '^WHEN  *USER  *RESULT  *ACTION$' "$WORK/people" &&
    sed -n 2p "$WORK/people" | grep -qE "^[A-Z][a-z]{2} $(date +%Y)-[0-9-]{5} [0-9:]{8}  *[^ ]+  *granted  *pause fib\$" &&
    sed -n 9p "$WORK/people" | grep -qE 'refused \(66\)  *resume fib$'
}
check "for people: when, who, and what became of it" for_people
newest() { # N LINE...: the newest N are these
  local n=$1
  shift
  told wsctl_newest -- "$@"
}
wsctl_newest() { wsctl "$@" --limit "$n"; }
check "only the newest one" newest 1 "${expected[@]: -1}"
check "only the newest ten" newest 10 "${expected[@]:1}"
check "as many as there are" newest 11 "${expected[@]}"
check "more than there are" newest 12 "${expected[@]}"
check "none is no number of them: 64" refused 64 'from 1 on' wsctl actions --limit 0
check "it takes no arguments: 64" refused 64 'too many' wsctl actions x
timed() { # of the last one
  local now usec
  now=$(date +%s) && usec=$(wsctl --json actions | tail -n 1 | sed 's/{"time_usec":\([0-9]*\),.*/\1/') &&
    [ $((usec / 1000000)) -le "$now" ] && [ $((usec / 1000000)) -gt $((now - 600 * TIME_SCALE)) ]
}
check "in JSON with its time" timed
stop_wsd

# --- a wsd of all users -----------------------------------------------------------------------------------------------------

need_users
CAROL=1003 DAN=1004
install_for_all echo
# shellcheck disable=SC2153 # lib.sh has it
printf '[daemon]\nsystem = yes\n[access]\nadminister = %s\nwatch = %s\ncancel = %s\n' $ALICE $CAROL $DAN >"$WSD_CONFIG"
start_wsd || exit 1
chmod 755 "$(dirname "$WSD_SOCKET")"
chmod 666 "$WSD_SOCKET"
alice() { as $ALICE "$CTL" "$@"; }
bob() { as $BOB "$CTL" "$@"; }
carol() { as $CAROL "$CTL" "$@"; }
dan() { as $DAN "$CTL" "$@"; }

id=$(bob submit --detach --delay 1h fib 3)
own=$(bob submit --detach --delay 1h fib 3)
several() {
  alice pause fib && refused 77 'administer in wsd.conf' bob pause 'bobs' && dan cancel "$id" && bob cancel "$own" &&
    bob schedule add bobs --on yearly fib 3 && bob schedule remove bobs && alice resume fib && refused 77 'administer' dan drain
}
check "of several users" several
all=("$ALICE pause fib 0" "$BOB pause bobs 77" "$DAN cancel job $id 0" "$ALICE resume fib 0" "$DAN drain  77")
check "root sees all, and what was refused; not what users do with their own jobs" told wsctl -- "${all[@]}"
check "an administrator sees all" told alice -- "${all[@]}"
check "a user sees the own ones" told bob -- "$BOB pause bobs 77"
check "so does who may cancel" told dan -- "$DAN cancel job $id 0" "$DAN drain  77"
check "who only watches sees all, and nothing that a user without rights wrote" told carol -- \
  "$ALICE pause fib 0" "$BOB pause  77" "$DAN cancel job $id 0" "$ALICE resume fib 0" "$DAN drain  77"
flood() { # of bob's
  local i
  for ((i = 0; i < 20; i++)); do bob pause "x$i" 2>/dev/null; done
  [ "$(actions wsctl | grep -c "^$BOB pause x")" = 20 ] && [ "$(actions wsctl | grep -vc "^$BOB pause x")" = 5 ]
}
check "each attempt is there" flood
check "it ends in order" stop_wsd
start_wsd || exit 1
check "the next wsd knows none" none wsctl
