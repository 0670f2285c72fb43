#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# web.sh: wsd-web by HTTP: what it tells is what wsd says, who is let in and who is not, what it does for wsd and does not
# do, and what connections cost that do nothing, go on for ever, or read nothing or slowly. The page itself: web-page.sh.
. "$(dirname "$0")/../support/lib.sh"

WEB=$BUILD/daemon/web/wsd-web
[ -x "$WEB" ] || {
  skip "wsd-web" "it was not built: jansson is not there"
  exit
}
command -v curl >/dev/null || {
  skip "wsd-web" "there is no curl here (packaging/install-deps page)"
  exit
}

# --- what it is told ------------------------------------------------------------------------------------------------------

export WSD_SOCKET=$WORK/wsd.sock
WSD_OPTIONS=(--workers 2 --plugin-dir "$TEST_PLUGINS:$PLUGINS")
check "an option that there is not: 64" says 64 "no such option" "$WEB" --nothing
check "an argument: 64" says 64 "no option" "$WEB" here
check "no place to listen: 64" says 64 "ADDRESS:PORT is wanted" "$WEB" --listen nowhere
check "no address: 64" says 64 "an address of this machine" "$WEB" --listen example:80
check "port 65535" says 64 "others of the network can reach that" "$WEB" --listen 0.0.0.0:65535
check "a port above: 64" says 64 "a port is at most 65535" "$WEB" --listen 127.0.0.1:65536
check "one of many digits: 64" says 64 "a port is at most 65535" "$WEB" --listen 127.0.0.1:18446744073709551616
check "no port: 64" says 64 "ADDRESS:PORT is wanted" "$WEB" --listen 127.0.0.1:
check "one that the network reaches, without a token: 64" says 64 "others of the network can reach that" "$WEB" --listen 0.0.0.0:0
check "a path that is too long: 64" says 64 "at most 107 bytes" "$WEB" --listen "/$(printf '%0108d' 0)"
check "to act without a token: 64" says 64 "it wants --token" "$WEB" --act
check "persons without a proxy: 64" says 64 "it wants --person-header" "$WEB" --person anna
of_persons() { # N
  local i persons=()
  for ((i = 0; i < $1; i++)); do persons+=(--person "p$i"); done
  says 64 "$2" "$WEB" "${persons[@]}"
}
check "64 persons" of_persons 64 "it wants --person-header"
check "and above: 64" of_persons 65 "64 persons are given already"
check "a history that has no directory: 66" says 66 "No such file" "$WEB" --history="$WORK/none/history"
check "a history that is no file: 74" says 74 "no regular file" "$WEB" --history=/dev/null
check "a token that is too short: 64" says 64 "16 to 64 characters" "$WEB" --token-file <(echo short)
check "one that is too long: 64" says 64 "16 to 64 characters" "$WEB" --token-file <(printf '%065d\n' 0)
check "no file of a token: 66" says 66 "No such file" "$WEB" --token-file "$WORK/none"
nine_places() {
  local i places=()
  for i in 1 2 3 4 5 6 7 8 9; do places+=(--listen "$WORK/$i"); done
  says 64 "8 places" "$WEB" "${places[@]}"
}
check "nine places: 64" nine_places
check "wsctl web: the same words" says 64 "ADDRESS:PORT is wanted" wsctl web --no-open --listen nowhere

# --- a wsd-web --------------------------------------------------------------------------------------------------------------

URL=''
start_web() { # [OPTION...]: URL and TOKEN are its
  rm -f "$WORK/web.out"
  "$WEB" --listen 127.0.0.1:0 --listen "$WORK/web.sock" "$@" >"$WORK/web.out" 2>"$WORK/web.err" &
  WEB_PID=$!
  note_started $!
  wait_until grep -q 'web.sock' "$WORK/web.out" || return 1
  URL=$(sed -n '1{s/#.*//;p}' "$WORK/web.out")
  TOKEN=$(sed -n '1s/.*#token=//p' "$WORK/web.out")
}
stop_web() {
  kill "$WEB_PID"
  wait_for_exit "$WEB_PID" && [ ! -s "$WORK/web.err" ]
}
n_open() { find "/proc/$WEB_PID/fd" -type l | wc -l; }
none_stays() { [ "$(n_open)" -le "$1" ]; }
events() { # FILE
  curl -sS -N -H "Authorization: Bearer $TOKEN" "${URL%/}/api/events" >"$1" &
  EVENTS=$!
  note_started $!
}
get() { # PATH [OPTION...]
  curl -sS --max-time $((20 * TIME_SCALE)) -H "Authorization: Bearer $TOKEN" "${@:2}" "${URL%/}$1"
}
status() { # PATH [OPTION...]: the code alone
  curl -sS --max-time $((20 * TIME_SCALE)) -o /dev/null -w '%{http_code}\n' "${@:2}" "${URL%/}$1"
}
with_token() { # CODE PATH [OPTION...]
  same "$1" "$(status "$2" -H "Authorization: Bearer $TOKEN" "${@:3}")"
}
act() { # JSON [OPTION...]
  get /api/act -X POST -H 'X-Wsd-Web: 1' -d "$@"
}

# Connections of strangers, who say `open' when all are under way, and `closed' when wsd-web has closed them all.
cat >"$WORK/strangers.py" <<'END'
import resource, socket, sys, time

host, port, kind, n, token = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), sys.argv[5]
MOST = 64 << 20  # bytes of one connection, beyond all that the kernel keeps
BEGINS = {
    'idle': b'GET / HTTP/1.1\r\nHost: loc',  # and no more
    'slow': b'GET / HTTP/1.1\r\nX: ',  # a byte each second
    'asks': b'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n',  # and again each second
    'ahead': b'GET /page.js HTTP/1.1\r\nHost: localhost\r\n\r\n' * 500,  # no answer is read
    'watches': b'GET /api/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n' % token.encode(),
}


def begin():
    s = socket.socket()
    if kind in ('ahead', 'watches'):
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect((host, port))
    else:
        s.setblocking(False)
        s.connect_ex((host, port))
    return s


def send(s, data):
    """False: it is closed."""
    try:
        s.send(data)
    except BlockingIOError:
        pass
    except OSError:
        return False
    return True


def reads(s):
    """False: it is closed."""
    try:
        while s.recv(65536):
            pass
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def goes_on(s):
    """Sends until it is closed, or so much was taken."""
    sent = 0
    while sent < MOST:
        if not send(s, bytes(65536)):
            return False
        sent += 65536
    return True


hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
all = [begin() for i in range(n)]
print('open', flush=True)
for s in all:
    send(s, BEGINS[kind])
if kind in ('ahead', 'watches'):
    all = [s for s in all if goes_on(s)]
while kind in ('slow', 'asks') and all:
    time.sleep(1)
    all = [s for s in all if send(s, b'x' if kind == 'slow' else BEGINS[kind]) and reads(s)]
if not all:
    print('closed', flush=True)
while all:
    time.sleep(3600)
END
strangers() { # KIND N FILE: what they say
  local port=${URL%/}
  /usr/bin/python3 "$WORK/strangers.py" 127.0.0.1 "${port##*:}" "$1" "$2" "$TOKEN" >"$3" 2>&1 &
  note_started $!
}

# A client that takes its answers slowly. It says `whole' when it has all of them, and `closed' if they end before.
cat >"$WORK/takes.py" <<'END'
import socket, sys, time

port, rate, n = (int(a) for a in sys.argv[1:])
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 88)
s.connect(('127.0.0.1', port))
s.sendall(b'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n' * n)
begin, got = time.monotonic(), b''
while got.count(b'</html>') < n:
    time.sleep(0.1)
    allowed = int(rate * (time.monotonic() - begin)) - len(got)
    if allowed > 0:
        more = s.recv(allowed)
        if not more:
            sys.exit('closed')
        got += more
print('whole', flush=True)
END
takes() { # BYTES-A-SECOND ANSWERS: from a wsd-web that there is no wsd for; IDLE is what that has open without it
  start_web || return 1
  IDLE=$(n_open)
  local port=${URL%/}
  /usr/bin/python3 "$WORK/../takes.py" "${port##*:}" "$1" "$2" >"$WORK/takes" 2>&1 &
  note_started $!
  wait_until eval '[ "$(n_open)" -gt "$IDLE" ]'
}
too_slow() { # it would have them all in a quarter of an hour, and takes some each second or so
  takes 600 300 && wait_until -t 90 none_stays "$IDLE" && [ ! -s "$WORK/takes" ] && stop_web
}
slow_enough() { # three times as long as a connection that does nothing is kept
  takes 3000 80 && wait_until -t 120 test -s "$WORK/takes" && same whole "$(cat "$WORK/takes")" && stop_web
}
watches_on() { # longer than a connection that does nothing is kept
  start_web || return 1
  events "$WORK/events"
  wait_until -t 60 eval '[ "$(grep -c "^event: away" "$WORK/events")" -ge 20 ]' && kill "$EVENTS"
}
beside "a client that takes less than 1 KiB a second is closed" too_slow
beside "one that takes 3,000 bytes a second has all that it wants" slow_enough
beside "a page that watches is no slow client" watches_on

start_web --token --act || exit 1
strangers slow 3 "$WORK/slow" # looked at below
check "where there is no wsd, it says so" eval "get /api/look | grep -q 'no wsd is there'"
check "and to Prometheus" expect_output 'wsd_up 0' eval "get /metrics | grep '^wsd_up'"
serve || exit 1
came() { get /api/look | grep -q '"counters"'; }
check "a wsd that comes is found" wait_until came

# --- what it tells ----------------------------------------------------------------------------------------------------------

json() { # EXPRESSION: of the JSON on stdin
  /usr/bin/python3 -c "import json, sys; a = json.load(sys.stdin); print($1)"
}
for i in 1 2 3; do wsctl submit fib 10 >/dev/null; done
wsctl submit crash >/dev/null 2>&1
counters_agree() {
  for name in jobs_submitted jobs_succeeded jobs_crashed executors_started; do
    same "$(counter $name)" "$(get /api/look | json "a['counters']['$name']")" || return 1
  done
}
check "counters are those of wsctl stats" wait_until counters_agree # a look may be a second old
metrics_agree() {
  same "$(counter jobs_succeeded)" "$(get /metrics | sed -n 's/^wsd_jobs_total{outcome="succeeded"} //p')" &&
    same "$(counter jobs_crashed)" "$(get /metrics | sed -n 's/^wsd_jobs_total{outcome="crashed"} //p')"
}
check "and so are metrics" metrics_agree
if command -v promtool >/dev/null; then
  prometheus_takes() { get /metrics "$@" | promtool check metrics; }
  check "promtool has nothing to say of them" prometheus_takes
else
  skip "promtool check metrics" "there is no promtool here (packaging/install-deps page)"
fi
check "OpenMetrics where it is wanted" expect_output '# EOF' eval "get /metrics -H 'Accept: application/openmetrics-text' | tail -n 1"
if [ -e "$TEST_PLUGINS/throws.so" ]; then
  crashed=$(wsctl submit --detach throws:faults)
  wsctl await "$crashed" 2>/dev/null
  check "where one of C++ crashed, as people write it" grep -q '#[0-9]* moon::crater<int>::fall(int volatile\*)+0x[0-9a-f]* in throws+0x' \
    <(get "/api/jobs/$crashed" | json "a['backtrace']")
else
  skip "where one of C++ crashed, as people write it" "there is no C++ compiler here"
fi
running=$(wsctl submit --detach sleep:sleep 600000)
is_listed() { get /api/look | json "[j['state'] for j in a['jobs'] if j['id'] == '$running']" | grep -q running; }
check "a job that runs is listed" wait_until is_listed
check "one job" same running "$(get "/api/jobs/$running" | json "a['state']")"
check "one that there is not: 404" with_token 404 /api/jobs/00000000000000000000000000000001
check "no id: 400" with_token 400 /api/jobs/x
check "one that is too long: 404" with_token 404 "/api/jobs/$(printf '%034d' 0)"
crashes() { get /api/look | json "[f['crashed'] for f in a['functions'] if f['plugin'] == 'crash']"; }
check "functions, with their crashes" same '[1]' "$(crashes)"
check "the history has what was seen" same True "$(get /api/history | json "len(a['samples']) > 0 and a['step'] == 1 and 'succeeded' in a['series']")"
check "and a week by the minute" same 60 "$(get '/api/history?span=week' | json "a['step']")"
check "another span: 400" with_token 400 '/api/history?span=year'
check "the page" with_token 200 /
check "its parts" with_token 200 /page.js
check "what there is not: 404" with_token 404 /nothing
check "by the other socket, too" expect_output 'wsd_up 1' eval "curl -sS --unix-socket $WORK/web.sock -H 'Authorization: Bearer $TOKEN' http://localhost/metrics | grep '^wsd_up'"

# --- looks that come by themselves -------------------------------------------------------------------------------------------

n_looks() { [ "$(grep -c '^event: look' "$WORK/events")" -ge "$1" ]; }
events "$WORK/events"
check "a look comes again and again" wait_until n_looks 4
asked() { # COMMAND...: units of what wsd is asked meanwhile, and by one question of this test
  local before
  before=$(counter request_units)
  "$@"
  echo $(($(counter request_units) - before))
}
is_silent() {
  kill "$EVENTS"
  wait "$EVENTS" 2>/dev/null
  sleep 2.5 # the look that was wanted last
  local own idle
  own=$(asked true)
  idle=$(asked sleep 3)
  echo "units: $own of a question, $idle in 3 s"
  [ "$idle" -lt $((2 * own)) ]
}
check "with no page open wsd is asked nothing" is_silent
many_pages() { # one more than may be, since a page that has gone may not be known to be
  local i pids=()
  for ((i = 0; i < 33; i++)); do
    events "$WORK/page-$i"
    pids+=("$EVENTS")
  done
  wait_until pages_have_come 32 && full
  local r=$?
  kill "${pids[@]}" 2>/dev/null # of one that was refused
  [ $r = 0 ] && wait_until not_full
}
pages_have_come() { same "$1" "$(grep -l '^event: look' "$WORK"/page-* | wc -l)"; }
full() { same 503 "$(status /api/events -H "Authorization: Bearer $TOKEN" --max-time 1 2>/dev/null)"; }
not_full() { same 200 "$(status /api/events -H "Authorization: Bearer $TOKEN" --max-time 1 2>/dev/null)"; }
check "32 pages, and no more" many_pages
check "a HEAD of events ends: 405" with_token 405 /api/events --head

# --- what it does -----------------------------------------------------------------------------------------------------------

cancelled() {
  act "{\"action\":\"cancel\",\"id\":\"$running\"}" && expect_exit 130 wsctl await "$running"
}
check "a job is cancelled" cancelled
paused() {
  same '{}' "$(act '{"action":"pause","plugin":"fib"}')" && wsctl --json limits | cat && wsctl limit | grep -q 'fib' &&
    same '{}' "$(act '{"action":"resume","plugin":"fib"}')" && expect_output 55 wsctl submit fib 10
}
check "a plugin is paused, and goes on" paused
check "wsd's log has who it was" grep -q "resume fib: asked for by user $UID, who says for the holder of the page's token" "$WSD_LOG"
n_actions() { get /api/look | json "len([b for b in a['actions'] if b['action'] == 'resume' and b['exit'] == 0 and b['object'] == 'fib' and b['person'] == 'the holder of the page\'s token'])"; }
is_noted() { [ "$(n_actions)" = 1 ]; }
check "and what was done is told" wait_until is_noted
check "what wsd refuses is said in its words" eval "act '{\"action\":\"resume\",\"plugin\":\"fib\"}' | grep -q 'not paused\|neither paused'"
n_refused() { get /api/look | json "len([b for b in a['actions'] if b['action'] == 'resume' and b['exit'] == 66 and b['object'] == 'fib'])"; }
is_told() { [ "$(n_refused)" = 1 ]; }
check "and is told, too" wait_until is_told
by_wsctl() {
  wsctl pause by-wsctl && wait_until eval '[ "$(get /api/look | json "[b[\"object\"] for b in a[\"actions\"]][-1]")" = by-wsctl ]' && wsctl resume by-wsctl
}
check "so is what is done by another way" by_wsctl
check "no action: 400" with_token 400 /api/act -X POST -H 'X-Wsd-Web: 1' -d '{"action":"dance"}'
check "no JSON: 400" with_token 400 /api/act -X POST -H 'X-Wsd-Web: 1' -d 'cancel'
long_name() { # N
  act "{\"action\":\"release\",\"plugin\":\"$(printf "%0$1d" 0)\"}"
}
check "a name of 255 characters is wsd's to judge" eval "! long_name 255 | grep -q 'too long'"
check "and above: a text is too long" eval "long_name 256 | grep -q 'a text is too long'"
says_no() { # WORDS JSON: nothing is done, and it says why
  act "$2" | grep -qF "$1" && ! grep -q paused <<<"$(wsctl limit)"
}
act '{"action":"resume","plugin":"no-such"}' >/dev/null # its words are not those of the next
check "no id: it says what is wanted" says_no "32 hexadecimal digits" '{"action":"cancel","id":"x"}'
check "a plugin that is no text is not all plugins" says_no "are texts" '{"action":"pause","plugin":5}'
check "a limit that is no whole number lifts none" says_no "0 takes the limit away" '{"action":"limit","plugin":"fib","limit":1.5}'
check "nor one that is not there" says_no "0 takes the limit away" '{"action":"limit","plugin":"fib"}'
of_bytes() { # N CODE
  with_token "$2" /api/act -X POST -H 'X-Wsd-Web: 1' -d "{\"action\":\"dance\",\"x\":\"$(printf "%0$(($1 - 25))d" 0)\"}"
}
check "4,096 bytes are read" of_bytes 4096 400
check "4,097 are not: 413" of_bytes 4097 413
check "another method: 405 or 501" eval "status / -X DELETE -H 'Authorization: Bearer $TOKEN' | grep -qE '405|501'"

# --- in the browser ---------------------------------------------------------------------------------------------------------

mkdir "$WORK/run"
printf '#!/bin/sh\necho "$*" >"%s"\n' "$WORK/opened" >"$WORK/bin/xdg-open"
chmod +x "$WORK/bin/xdg-open"
opened_privately() { # what xdg-open is given is a file for this user, with the address in it
  local file web
  DISPLAY=:0 XDG_RUNTIME_DIR=$WORK/run "$WEB" --listen 127.0.0.1:0 --token --open >"$WORK/open.out" 2>&1 &
  web=$!
  note_started $web
  wait_until test -s "$WORK/opened" || return 1
  file=$(cat "$WORK/opened")
  same 600 "$(stat -c %a "$file")" && grep -qF "url=$(cat "$WORK/open.out")\"" "$file" || return 1
  kill $web
  wait_for_exit $web && [ ! -e "$file" ]
}
check "the token is in no command line" opened_privately

# --- who is let in ----------------------------------------------------------------------------------------------------------

check "without the token: 401" same 401 "$(status /api/look)"
check "with another one: 401" same 401 "$(status /metrics -H "Authorization: Bearer ${TOKEN%?}x")"
check "not in the address" same 401 "$(status "/api/look?token=$TOKEN")"
check "another name for this host: 421" with_token 421 /api/look -H 'Host: evil.example'
check "a page of another site: 403" with_token 403 /api/act -X POST -H 'X-Wsd-Web: 1' -H 'Origin: http://evil.example' -d '{}'
check "a form of another site: 403" with_token 403 /api/act -X POST -d '{}'
check "it tells no other site" eval "! get /api/look -i -H 'Origin: http://evil.example' | grep -qi '^access-control'"
check "the page loads nothing from elsewhere" eval "get / -i | grep -q \"^Content-Security-Policy: default-src 'none'; script-src 'self'\""

# --- connections that do nothing --------------------------------------------------------------------------------------------

held_up() { # KIND N: strangers; those who come later are served as well
  local before strangers r
  before=$(n_open)
  strangers "$1" "$2" "$WORK/$1-$2"
  strangers=$!
  wait_until grep -q open "$WORK/$1-$2" && wait_until -t 60 served
  r=$?
  [ "$(n_open)" -le 1000 ] || r=1
  kill "$strangers"
  wait "$strangers" 2>/dev/null
  [ $r = 0 ] && wait_until served && wait_until none_stays "$before"
}
served() { same 200 "$(status /api/look -H "Authorization: Bearer $TOKEN" 2>/dev/null)"; }
check "some hundred that do nothing hold up nobody" held_up idle 300
check "a request that goes on for ever is cut off" wait_until -t 60 grep -q closed "$WORK/slow"
ahead() { # [HEADER]: what a client sends, and is not read, finds an end
  strangers "$1" 2 "$WORK/$1"
  wait_until grep -q closed "$WORK/$1"
}
check "so is who sends requests without an end and reads no answer" ahead ahead
check "and who watches, and sends without an end" ahead watches
if [ -n "${WSD_THOROUGH:-}" ]; then
  check "10,000 that do nothing: they are closed one day" held_up idle 10000
  check "and 1,000 whose requests go on for ever" held_up slow 1000
fi

# --- its end, and that of wsd -----------------------------------------------------------------------------------------------

away() { get /api/look | grep -q '"error"'; }
kill_wsd
check "a wsd that dies is told" wait_until away
serve || exit 1
check "and found when it comes again" wait_until came
killed() {
  kill -9 "$WEB_PID"
  wait "$WEB_PID" 2>/dev/null
  expect_output 55 wsctl submit fib 10
}
check "kill -9 of wsd-web costs wsd nothing" killed
start_web || exit 1
check "its socket is taken over by the next one, which wants no token on this machine" same 200 "$(status /api/look)"
check "and changes nothing: 403" same 403 "$(status /api/act -X POST -H 'X-Wsd-Web: 1' -d '{}')"
page_goes() { # a sanitizer tells at the end what is left of it
  events "$WORK/goes"
  wait_until grep -q '^event: look' "$WORK/goes"
  kill "$EVENTS"
  wait "$EVENTS" 2>/dev/null
  wait_until served
}
check "a page comes and goes" page_goes
with_strangers() { # KIND COMMAND...: with 100 such strangers, until it succeeds
  local strangers r=0
  strangers "$1" 100 "$WORK/$1"
  strangers=$!
  wait_until grep -q open "$WORK/$1" && wait_until "${@:2}" || r=1
  kill "$strangers"
  wait "$strangers" 2>/dev/null
  return $r
}
few_descriptors() { # the limit of the process is below that of connections: listeners rest, and complain of nothing
  prlimit --pid "$WEB_PID" --nofile=64 || return 1
  with_strangers idle is_full && wait_until served
}
is_full() { [ "$(n_open)" -ge 64 ]; }
check "no descriptors are left for more" few_descriptors
# They were there before, and would not end by themselves.
check "clients that ask again and again keep no place that another waits for" with_strangers asks served
check "it ends in order" stop_web

# --- behind a proxy, and with a history on disk ------------------------------------------------------------------------------

by_proxy() { # CODE ACTION [OPTION...]
  same "$1" "$(curl -sS --max-time $((20 * TIME_SCALE)) -o /dev/null -w '%{http_code}' --unix-socket "$WORK/web.sock" \
    -X POST -H 'X-Wsd-Web: 1' -d "{\"action\":\"$2\",\"plugin\":\"fib\"}" "${@:3}" http://localhost/api/act)"
}
start_web --act --person-header X-Remote-User --person anna --person otto --history="$WORK/history" || exit 1
check "a person whom the proxy names acts" by_proxy 200 pause -H 'X-Remote-User: anna'
check "and is in wsd's log" grep -q "pause fib: asked for by user $UID, who says for anna" "$WSD_LOG"
check "another one does not: 403" by_proxy 403 resume -H 'X-Remote-User: eve'
check "nor whoever is not named: 403" by_proxy 403 resume
check "nor whoever has two names, as of a proxy that passes on the header: 403" by_proxy 403 resume -H 'X-Remote-User: anna' -H 'x-remote-user: eve'
check "by TCP nobody is believed: 403" same 403 "$(status /api/act -X POST -H 'X-Wsd-Web: 1' -H 'X-Remote-User: anna' -d '{"action":"resume","plugin":"fib"}')"
check "the second one acts, too" by_proxy 200 resume -H 'X-Remote-User: otto'
check "the file of a history is one wsd-web's: 75" says 75 "another wsd-web keeps its history there" "$WEB" --listen 127.0.0.1:0 --history="$WORK/history"
n_samples() { curl -sS --unix-socket "$WORK/web.sock" http://localhost/api/history | json "len(a['samples'])"; }
has_samples() { [ "$(n_samples)" -ge "$1" ]; }
check "it looks by itself" wait_until has_samples 3
kept() {
  local before
  before=$(n_samples)
  kill -9 "$WEB_PID"
  wait "$WEB_PID" 2>/dev/null
  start_web --history="$WORK/history" && has_samples "$before"
}
check "what it has seen outlives kill -9" kept
check "and it ends in order" stop_web
passed_metrics() { expect_output 'wsd_up 1' eval "curl -sS --max-time $((20 * TIME_SCALE)) --unix-socket '$WORK/passed.sock' http://localhost/metrics | grep '^wsd_up'"; }
passed() { # a socket as systemd passes it: one that blocks
  python3 -c '
import os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen()
os.dup2(s.fileno(), 3)
os.set_inheritable(3, True)
os.execve(sys.argv[2], sys.argv[2:], os.environ | {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"})' "$WORK/passed.sock" "$WEB" >"$WORK/passed" 2>&1 &
  local pid=$!
  note_started $pid
  wait_until passed_metrics && passed_metrics && kill "$pid" && wait_for_exit "$pid" && [ ! -s "$WORK/passed" ]
}
check "a socket that systemd passes" passed
gather
stop_wsd
