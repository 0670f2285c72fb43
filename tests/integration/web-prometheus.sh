#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# web-prometheus.sh: a Prometheus reads the metrics of wsd-web while jobs run: what it has then is what wsd has counted.
# The alert rules and the dashboard of packaging/prometheus name metrics that there are. With --thorough it reads for a
# minute, and its rate() is within 1 % of what was submitted.
. "$(dirname "$0")/../support/lib.sh"

WEB=$BUILD/daemon/web/wsd-web
[ -x "$WEB" ] || {
  skip "Prometheus" "wsd-web was not built: jansson is not there"
  exit
}
if ! command -v prometheus >/dev/null || ! command -v curl >/dev/null; then
  skip "Prometheus" "there is no Prometheus here (packaging/install-deps page)"
  exit
fi

RULES=$SRC/packaging/prometheus
check "the alert rules are sound" promtool check rules "$RULES/wsd.rules.yml"
check "each alert comes when it should, and not before" promtool test rules "$RULES/wsd.rules.test.yml"

export WSD_SOCKET=$WORK/wsd.sock
WSD_OPTIONS=(--workers 2 --plugin-dir "$TEST_PLUGINS:$PLUGINS" --state-dir "$WORK/state")
serve || exit 1
"$WEB" --listen 127.0.0.1:0 >"$WORK/web.out" 2>&1 &
note_started $!
wait_until grep -q http "$WORK/web.out" || exit 1
URL=$(head -n 1 "$WORK/web.out")
PORT=${URL##*:}
PORT=${PORT%/}

port_is_free() { ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
start_prometheus() {
  local port
  cat >"$WORK/prometheus.yml" <<END
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: ["$RULES/wsd.rules.yml"]
scrape_configs:
  - job_name: wsd
    static_configs: [{targets: ["127.0.0.1:$PORT"]}]
END
  for ((port = 20000 + RANDOM % 10000; ; port++)); do
    port_is_free $port || continue
    prometheus --config.file="$WORK/prometheus.yml" --storage.tsdb.path="$WORK/tsdb" --web.listen-address="127.0.0.1:$port" \
      >"$WORK/prometheus.log" 2>&1 &
    PROMETHEUS=$!
    note_started $PROMETHEUS
    ASK=http://127.0.0.1:$port
    wait_until ready_or_gone && ! gone $PROMETHEUS && return
  done
}
ready_or_gone() { gone "$PROMETHEUS" || curl -sf "$ASK/-/ready"; }
ask() { # QUERY: the value of the one series that it gives
  curl -sf --data-urlencode "query=$1" "$ASK/api/v1/query" | /usr/bin/python3 -c '
import json, sys
found = json.load(sys.stdin)["data"]["result"]
assert len(found) == 1, found
print(found[0]["value"][1])'
}
start_prometheus
reads() { [ "$(ask wsd_up)" = 1 ]; }
check "Prometheus reads it" wait_until reads

# --- what it reads ----------------------------------------------------------------------------------------------------------

wsctl submit crash >/dev/null 2>&1
wsctl submit --durable fib 5 >/dev/null
seq 2000 | sed 's/.*/5/' | wsctl map fib >/dev/null
has_all() {
  same "$(counter jobs_submitted)" "$(ask wsd_jobs_submitted_total)" &&
    same "$(counter jobs_succeeded)" "$(ask 'wsd_jobs_total{outcome="succeeded"}')" &&
    same 2001 "$(ask 'sum(wsd_function_jobs_total{plugin="fib",outcome="succeeded"})')" &&
    same 2001 "$(ask 'wsd_function_run_seconds_count{plugin="fib"}')" && same 1 "$(ask 'wsd_function_jobs_total{outcome="crashed"} > 0')"
}
check "what it has is what wsd has counted" wait_until has_all
names() { grep -oh 'wsd_[a-z_]*' "$@" | sed 's/_\(bucket\|count\|sum\)$//' | sort -u; }
all_are_told() {
  curl -sf "${URL%/}/metrics" | sed -n 's/^# TYPE \([a-z_]*\) .*/\1/p' | sort -u >"$WORK/told"
  names "$@" >"$WORK/named"
  [ -s "$WORK/named" ] || return 1
  comm -23 "$WORK/named" "$WORK/told" >"$WORK/missing"
  cat "$WORK/missing"
  [ ! -s "$WORK/missing" ]
}
grep -o '"expr": ".*' "$RULES/wsd.grafana.json" >"$WORK/expressions"
check "the alerts are about metrics that there are" all_are_told <(sed -n '/expr:/,/for:\|labels:/p' "$RULES/wsd.rules.yml")
check "and so is the dashboard" all_are_told "$WORK/expressions"
dashboard_queries() { # Prometheus takes each, with its variables set
  local expression
  /usr/bin/python3 -c '
import json, sys
for panel in json.load(open(sys.argv[1]))["panels"]:
    for target in panel["targets"]:
        print(target["expr"].replace("$__rate_interval", "5s").replace("$instance", ".*").replace("$plugin", ".*"))' \
    "$RULES/wsd.grafana.json" >"$WORK/queries"
  while read -r expression; do
    curl -sf --data-urlencode "query=$expression" "$ASK/api/v1/query" | grep -q '"status":"success"' || {
      echo "$expression"
      return 1
    }
  done <"$WORK/queries"
}
check "Prometheus takes each query of the dashboard" dashboard_queries

# --- for a minute -----------------------------------------------------------------------------------------------------------

# 100 jobs each tenth of a second, whatever comes between.
cat >"$WORK/pace.py" <<'END'
import subprocess, sys, time
until, rate = time.monotonic() + float(sys.argv[1]), 100
start, sent = time.monotonic(), 0
while time.monotonic() < until:
    due = int((time.monotonic() - start) * 10) * rate
    if due > sent:
        subprocess.run(['wsctl', '--quiet', 'map', 'fib'], input='3\n' * (due - sent), text=True, stdout=subprocess.DEVNULL, check=True)
        sent = due
    time.sleep(0.01)
END
rate_agrees() {
  local rate submitted
  background /usr/bin/python3 "$WORK/pace.py" 70
  sleep 65 # the minute, and what is before its first look
  submitted=$(ask 'wsd_jobs_submitted_total - wsd_jobs_submitted_total offset 1m')
  rate=$(ask 'rate(wsd_jobs_submitted_total[1m])')
  echo "rate() $rate, submitted $submitted in 60 s"
  /usr/bin/python3 -c 'import sys; r, n = map(float, sys.argv[1:]); assert abs(r * 60 / n - 1) < 0.01 and abs(r / 1000 - 1) < 0.01' "$rate" "$submitted"
}
if [ -n "${WSD_THOROUGH:-}" ]; then
  check "over a minute its rate() is within 1 % of what was submitted" rate_agrees
fi
fires() { curl -sf "$ASK/api/v1/alerts" | grep -q "\"alertname\":\"$1\""; }
for _ in 1 2 3 4; do wsctl submit crash >/dev/null 2>&1; done
check "a function in quarantine is an alert, pending or firing" wait_until fires WsdFunctionQuarantined
kill_wsd
check "and so is a wsd that is gone" wait_until fires WsdDown
