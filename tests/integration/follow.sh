#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# follow.sh: jobs followed as they go, from other terminals: output, messages, progress, the end; and left, by Ctrl-C.
# shellcheck disable=SC2094 # both ends of the FIFO are ours
. "$(dirname "$0")/../support/lib.sh"

FIFO=$WORK/fifo
mkfifo "$FIFO"
exec 9<>"$FIFO"

tell() { echo "$*" >&9; }
has_line() { grep -qx "$2" "$1"; } # FILE LINE
runs_one() {                       # wsd may hear of it after the job has written to a file itself
  id=$(wsctl --json list --state running | sed 's/.*"id":"\([0-9a-f]*\)".*/\1/')
  [ -n "$id" ]
}

# long enough to see that nobody waits for it
printf '[limits]\ncancel-grace = 8s\n' >"$WSD_CONFIG"
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1

attached() {
  local id pid
  id=$(wsctl submit --detach teller "$FIFO") || return 1
  tell out first
  tell progress 1 3
  wait_until job_is running "$id" || return 1
  wsctl attach "$id" >"$WORK/a.out" 2>"$WORK/a.err" &
  pid=$!
  wait_until has_line "$WORK/a.out" first || return 1
  wsctl --json attach "$id" >"$WORK/b.out" 2>"$WORK/b.err" & # a second one
  wait_until grep -q '"output":"Zmlyc3QK"' "$WORK/b.out" || return 1
  tell out second && wait_until has_line "$WORK/a.out" second || return 1
  tell say 'half way' && wait_until has_line "$WORK/a.err" 'half way' || return 1
  tell progress 2 3 && wait_until grep -q '"event":"progress","id":"'"$id"'","done":2,"total":3' "$WORK/b.out" || return 1
  wait_until grep -q '"event":"message","id":"'"$id"'","level":6,"text":"half way"' "$WORK/b.out" || return 1
  tell end 7
  expect_exit 7 wait "$pid" && expect_exit 7 wait $! && same $'first\nsecond' "$(cat "$WORK/a.out")" &&
    same "$(printf 'half way\nwsctl: %s: failed with status 7' "$id")" "$(cat "$WORK/a.err")" &&
    grep -q '"event":"end","id":"'"$id"'".*"state":"failed","exit":7' "$WORK/b.out"
}
check "attach: output from its beginning, messages, progress, end and exit code, to several at once" attached

late() { # one that is not detached: from now on
  local id submitter pid
  "$BUILD/tests/support/clients/output-to" callback teller '' "$FIFO" >"$WORK/s.out" 2>/dev/null &
  submitter=$!
  tell out before
  wait_until has_line "$WORK/s.out" before || return 1
  wait_until runs_one || return 1
  wsctl --json attach "$id" >"$WORK/a.out" &
  pid=$!
  # output that comes before it is there it does not get: so it is told something again and again until it does
  wait_until sh -c "echo 'say there' >'$FIFO'; grep -q there '$WORK/a.out'" || return 1
  tell out after
  tell end 0
  expect_exit 0 wait "$submitter" && expect_exit 0 wait "$pid" && same $'before\nafter' "$(cat "$WORK/s.out")" &&
    same '"output":"YWZ0ZXIK"' "$(grep -o '"output":"[^"]*"' "$WORK/a.out")"
}
check "attach to a job that is not detached: what comes from now on" late

elsewhere() { # a job that writes into its submitter's file itself: followers are told so
  local id pid submitter
  wsctl submit teller "$FIFO" >"$WORK/s.out" 2>/dev/null &
  submitter=$!
  tell out before
  wait_until has_line "$WORK/s.out" before || return 1
  wait_until runs_one || return 1
  wsctl attach "$id" >"$WORK/a.out" 2>"$WORK/a.err" &
  pid=$!
  wait_until grep -q "its output goes to a file or pipe" "$WORK/a.err" || return 1
  tell end 0
  expect_exit 0 wait "$submitter" && expect_exit 0 wait "$pid" && [ ! -s "$WORK/a.out" ]
}
check "attach to a job that writes into its submitter's file" elsewhere

several() {
  local one two pid
  mkfifo "$WORK/other"
  one=$(wsctl submit --detach teller "$FIFO") && two=$(wsctl submit --detach teller "$WORK/other") || return 1
  exec 8<>"$WORK/other"
  wsctl attach "$one" "$two" >"$WORK/a.out" 2>"$WORK/a.err" &
  pid=$!
  tell out a1 && wait_until has_line "$WORK/a.out" a1 || return 1
  echo out b1 >&8 && wait_until has_line "$WORK/a.out" b1 || return 1
  tell out a2 && wait_until has_line "$WORK/a.out" a2 || return 1
  echo say hello >&8 && wait_until has_line "$WORK/a.err" "$two: hello" || return 1
  tell end 0
  echo end 3 >&8
  expect_exit 3 wait "$pid" &&
    same "$(printf '==> %s <==\na1\n\n==> %s <==\nb1\n\n==> %s <==\na2' "$one" "$two" "$one")" "$(cat "$WORK/a.out")"
}
check "several at once, each under its heading" several

ended() {
  local id
  id=$(wsctl submit --detach fib 10) && wsctl await "$id" >/dev/null && same 55 "$(wsctl attach "$id")" &&
    expect_exit 66 wsctl attach 00000000000000000000000000000000 && expect_exit 64 wsctl attach 12 && expect_exit 64 wsctl attach
}
check "one that has ended, or is not there" ended

detach() { # Ctrl-C leaves the job alone
  local id pid
  id=$(wsctl submit --detach teller "$FIFO") || return 1
  tell out here
  wsctl attach "$id" >"$WORK/a.out" 2>"$WORK/a.err" &
  pid=$!
  wait_until has_line "$WORK/a.out" here || return 1
  kill -INT "$pid"
  expect_exit 130 wait "$pid" && same 'wsctl: detached: the job goes on' "$(cat "$WORK/a.err")" && job_is running "$id" || return 1
  tell end 0
  expect_exit 0 wsctl attach "$id" >/dev/null
}
set -m # so that Ctrl-C is heard by those behind
check "Ctrl-C leaves, and the job goes on" detach

# --- Ctrl-C in submit -------------------------------------------------------------------------------------------------

cancel_once() {
  local pid id
  wsctl submit spin >"$WORK/a.out" 2>"$WORK/a.err" &
  pid=$!
  wait_until sh -c 'wsctl --json list --state running --plugin spin | grep -q id' || return 1
  kill -INT "$pid"
  expect_exit 130 wait "$pid" && grep -qx 'wsctl: cancelling; once more to detach at once' "$WORK/a.err" &&
    same '' "$(wsctl --json list --state running --plugin spin)"
}
check "Ctrl-C in submit cancels its job, and waits for its end" cancel_once

cancel_twice() { # the job heeds nothing, so that wsctl would wait for the grace time
  local pid id
  wsctl submit --key twice spin:deaf >"$WORK/a.out" 2>"$WORK/a.err" &
  pid=$!
  wait_until sh -c 'wsctl --json list --state running --plugin spin:deaf | grep -q id' || return 1
  id=$(wsctl --json list --plugin spin:deaf | sed 's/.*"id":"\([0-9a-f]*\)".*/\1/')
  kill -INT "$pid"
  wait_until grep -q cancelling "$WORK/a.err" || return 1
  kill -INT "$pid"
  expect_exit 130 wait "$pid" && job_is running "$id" || return 1 # nobody waited for it
  same "$(printf 'wsctl: cancelling; once more to detach at once\nwsctl: detached at once; the job was told to end: wsctl status %s' "$id")" \
    "$(cat "$WORK/a.err")" && wait_until -t 60 job_is cancelled "$id"
}
check "Ctrl-C twice: detached at once, and says so" cancel_twice
set +m

# --- the bar, as a person sees it ----------------------------------------------------------------------------------------

bar() { # CASE
  PYTHONPATH=$(dirname "$0")/../support python3 - "$1" "$FIFO" <<'END'
import os, re, sys
from terminal import Terminal

fifo = os.open(sys.argv[2], os.O_WRONLY)
def tell(text):
    os.write(fifo, (text + '\n').encode())

def bar(label, numbers):
    return r'^%s \[(#*)(\.*)\] %s$' % (label, re.escape(numbers))

def shares(t, label, numbers):
    m = re.search(bar(label, numbers), t.text(), re.M)
    return len(m.group(1)) / (len(m.group(1)) + len(m.group(2)))

def submit():
    with Terminal(['wsctl', 'submit', 'teller', sys.argv[2]], columns=100) as t:
        tell('progress 1 4')
        t.until(bar('teller', '1/4'))
        assert 0.2 < shares(t, 'teller', '1/4') < 0.3
        tell('out half')
        tell('progress 2 4')
        t.until(bar('teller', '2/4'))
        tell('say note')
        t.until('^note$')
        t.until(bar('teller', '2/4'))  # it is there again, below
        tell('progress 3 4')
        tell('say another')
        t.until(bar('teller', '3/4'))  # whatever comes right behind
        tell('end 0')
        assert t.end() == 0
        assert t.text().split() == ['half', 'note', 'another'], t.text()  # it is taken away, and the output stays

def maps():
    items = [sys.argv[2]] * 5
    with Terminal(['wsctl', 'map', '--keep-going', '--jobs', '1', 'teller', ':::'] + items, columns=100) as t:
        tell('end 0')
        t.until(bar('map', '1/5'))
        assert 0.15 < shares(t, 'map', '1/5') < 0.25
        tell('end 0')
        tell('end 7')  # right behind it, and its line takes the bar away
        t.until(bar('map', '3/5, 1 failed'))
        tell('out four')
        tell('end 0')
        t.until(bar('map', '4/5, 1 failed'))
        assert 'four' in t.text() and 'failed with status 7' in t.text()
        assert 0.75 < shares(t, 'map', '4/5, 1 failed') < 0.85
        tell('end 0')
        assert t.end() == 7
        assert not re.search(r'\[#', t.text()) and 'four' in t.text(), t.text()

def none():
    for options, env in ((['--no-progress'], {}), (['--quiet'], {}), ([], {'TERM': 'dumb'})):
        with Terminal(['wsctl'] + options + ['map', '--jobs', '1', 'teller', ':::', sys.argv[2], sys.argv[2]], columns=100, env=env) as t:
            tell('end 0')
            tell('out last')
            tell('end 0')
            assert t.end() == 0
            assert 'last' in t.raw and '1/2' not in t.raw and '[' not in t.raw, repr(t.raw)

globals()[sys.argv[1]]()
END
}
check "the bar of submit" bar submit
check "the bar of map: how many, and how many have failed" bar maps
check "no bar where none is wanted" bar none

# --- backpressure -----------------------------------------------------------------------------------------------------

standstill() {
  local a b
  a=$(wsctl --json list --state running --plugin teller | grep -o '"done":[0-9]*')
  wsctl submit fib 20 >/dev/null
  b=$(wsctl --json list --state running --plugin teller | grep -o '"done":[0-9]*')
  [ -n "$a" ] && [ "$a" = "$b" ]
}

backpressure() { # one who does not read makes the job wait, and its memory stays bounded
  local pid
  mkfifo "$WORK/slow"
  exec 7<>"$WORK/slow"
  wsctl submit teller "$FIFO" >"$WORK/slow" 2>/dev/null &
  pid=$!
  tell flood 67108864
  tell end 0
  # the output stands still below what the windows hold together, for as long as nobody reads
  wait_until sh -c 'wsctl --json list --state running --plugin teller | grep -q "\"done\":[1-9]"' || return 1
  wait_until standstill || return 1
  local left
  left=$(wsctl --json list --state running --plugin teller | grep -o '"done":[0-9]*' | cut -d : -f 2)
  [ "$left" -gt $((67108864 - 16777216)) ] || {
    echo "$left bytes were left when it stood still"
    return 1
  }
  head -c 67108864 <&7 | md5sum >"$WORK/sum"
  expect_exit 0 wait "$pid" && same "$(head -c 67108864 /dev/zero | tr '\0' x | md5sum)" "$(cat "$WORK/sum")"
}
check "output that nobody reads makes its job wait" backpressure
stop_wsd
