#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# page.sh: wsd-web shows the other machines: what waits for them, what nobody takes, servers that are gone.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/fleet.sh"

WEB=$BUILD/daemon/web/wsd-web
if [ ! -x "$WEB" ] || ! command -v curl >/dev/null; then
  skip "the fleet on the page" "wsd-web was not built, or there is no curl"
  exit
fi

start_web() { # OPTION...: URL and TOKEN are its
  "$WEB" --socket "$WORK/node-here/wsd.sock" --listen 127.0.0.1:0 --token "$@" >"$WORK/web.out" 2>"$WORK/web.err" &
  WEB_PID=$!
  note_started $!
  wait_until grep -q token "$WORK/web.out" || return 1
  URL=$(sed -n '1{s/#.*//;p}' "$WORK/web.out")
  TOKEN=$(sed -n '1s/.*#token=//p' "$WORK/web.out")
}
stop_web() {
  kill "$WEB_PID"
  wait_for_exit "$WEB_PID" || return 1
  wait_until no_status
}
no_status() { # of ours is left
  ! pgrep -f -- "wsd-fleet --status --json --servers $NATS_URL" >"$WORK/left"
}
# The fleet of a look, as JSON on one line.
fleet() {
  curl -s -H "Authorization: Bearer $TOKEN" "${URL}api/look" |
    python3 -c 'import json, sys; print(json.dumps(json.load(sys.stdin).get("fleet"), sort_keys=True))' >"$WORK/fleet"
  cat "$WORK/fleet"
}
shows() { # PATTERN
  fleet | grep -q -- "$1"
}

start_nats one || exit 1
expect_exit 0 "$FLEET" -n "$NATS_URL" --init >/dev/null || exit 1
start_node here --no-in && start_node there --no-out --plugins echo || exit 1
start_web --fleet="$NATS_URL" --fleet-program "$FLEET" || exit 1
check "what the machines offer" wait_until shows '"class": "norm".*"plugin": "echo"'
expect_output hello on here wsctl submit @fleet/echo hello || fail "a job of another machine" "it has no answer"
check "nothing waits" wait_until shows '"jobs": {"bytes": 0, "messages": 0}'
waits() {
  kill_process "${NODE_FLEET[there]}"
  on here wsctl submit --detach @fleet/echo waits >"$WORK/id" && wait_until shows '"jobs": {"bytes": [0-9]*, "messages": 1}' &&
    wait_until shows '"plugin": "echo", "redelivered": 0, "requests": 0, "waiting": 1'
}
check "a job that no machine takes" waits
if [ -x /usr/bin/chromedriver ] && /usr/bin/python3 -c 'import selenium' 2>/dev/null; then
  check "the page says so" timeout $((120 * TIME_SCALE)) /usr/bin/python3 "$SRC/tests/support/clients/page-fleet.py" "$(cat "$WORK/web.out")" \
    echo norm 'jobs of all machines' Machines here '!1 job waits for echo, and no machine takes it'
else
  skip "the page says so" "there is no Chromium or Selenium here (packaging/install-deps page)"
fi
servers_go() {
  kill_nats one
  wait_until shows '"error": "[^"]*start nats-server'
}
check "servers that are gone" servers_go
check "wsd-web ends, and leaves no process" stop_web

start_web || exit 1
check "without --fleet there is none" shows null
stop_web
start_web --fleet --fleet-program "$WORK/none" || exit 1
check "a program that is not there" wait_until shows 'No such file or directory: install wsd-fleet'
stop_web
cat >"$WORK/odd" <<'EOF'
#!/bin/sh
echo '<img src=x onerror=alert(1)>'
EOF
chmod +x "$WORK/odd"
start_web --fleet --fleet-program "$WORK/odd" || exit 1
check "one that says something else" wait_until shows '"error": "<img'
stop_web
