#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# nginx.sh: the example client/examples/nginx in a real nginx, built as its reader would build it: answers, deadlines,
# clients that go away, a wsd that is killed, a reload. Each request gets an answer.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/disturb.sh"

NGINX=$(command -v nginx || echo /usr/sbin/nginx) NGINX_SRC=/usr/share/nginx/src
if [ -n "${WSD_SANITIZE:-}" ]; then
  skip nginx "a sanitizer must be the first library of a process"
  exit
fi
if [ ! -x "$NGINX" ] || [ ! -x "$NGINX_SRC/configure" ] || ! command -v curl >/dev/null; then
  skip nginx "nginx, nginx-dev or curl is not installed"
  exit
fi
WSD_SOCKET=$WORK/wsd.sock HTTP=$WORK/http.sock
export WSD_SOCKET HTTP

# --- the module and its nginx

# By links without blanks, which nginx's configure would take for the end of a word.
build_module() {
  mkdir "$WORK/src" && cp -rs "$NGINX_SRC/." "$WORK/src" && ln -s "$SRC/include" "$WORK/include" &&
    ln -s "$BUILD/client" "$WORK/lib" && ln -s "$SRC/client/examples/nginx" "$WORK/example" && cd "$WORK/src" &&
    ./configure --with-compat --with-threads --with-cc-opt="-I$WORK/include" \
      --with-ld-opt="-L$WORK/lib -Wl,-rpath,$WORK/lib" --add-dynamic-module="$WORK/example" &&
    make -f objs/Makefile modules
}
check "the module builds without a warning" build_module || exit

user=''
[ "$(id -u)" != 0 ] || user='user root;'
mkdir "$WORK/temp"
cat >"$WORK/nginx.conf" <<END
daemon off;
$user
worker_processes 2;
pid $WORK/nginx.pid;
error_log $WORK/nginx.log;
load_module $WORK/src/objs/ngx_http_wsd_module.so;
env WSD_SOCKET;
events {
  worker_connections 64;
}
http {
  access_log off;
  client_body_temp_path $WORK/temp/body;
  proxy_temp_path $WORK/temp/proxy;
  fastcgi_temp_path $WORK/temp/fastcgi;
  uwsgi_temp_path $WORK/temp/uwsgi;
  scgi_temp_path $WORK/temp/scgi;
  client_max_body_size 16m;
  wsd_calls 8;
  server {
    listen unix:$HTTP;
    location /fib { wsd fib; }
    location /echo { wsd echo; }
    location /stream { wsd echo:stream; }
    location /status { wsd echo:status; }
    location /big { wsd bigoutput; }
    location /wrong { wsd no-such-plugin; }
    location /spin { wsd spin; }
    location /short { wsd spin; wsd_timeout 300ms; }
    location /direct { wsd fib; wsd_output 64; }
    location /narrow { wsd echo; wsd_output 5; }
    location /direct-short { wsd spin; wsd_output 64; wsd_timeout 300ms; }
    location /in-time { wsd echo; wsd_timeout 300ms; }
    location /direct-in-time { wsd echo; wsd_output 64; wsd_timeout 300ms; }
  }
}
END
# As $NGINX_PID. A prefix such as valgrind goes into the array PREFIX.
PREFIX=()
start_nginx() { # OPTION...
  rm -f "$HTTP"
  "${PREFIX[@]}" "$NGINX" -p "$WORK" -e "$WORK/nginx.log" -c "$WORK/nginx.conf" "$@" >>"$WORK/nginx.out" 2>&1 </dev/null &
  NGINX_PID=$!
  note_started "$NGINX_PID"
  wait_until is_up && ! gone "$NGINX_PID" && return
  cat "$WORK/nginx.out" "$WORK/nginx.log"
  return 1
}
is_up() { gone "$NGINX_PID" || get /; }
# An nginx of one process that is told just before its epoll_wait() looks behind it only. So it is told again.
is_told() {
  kill -QUIT "$NGINX_PID"
  gone "$NGINX_PID"
}
stop_nginx() {
  wait_until -t 60 is_told || return 124
  wait "$NGINX_PID"
}

# --- a client

get() { # PATH [OPTION of curl]...: the body
  curl -sS -m $((60 * TIME_SCALE)) --unix-socket "$HTTP" "${@:2}" "http://nginx$1"
}
code_is() { # CODE PATH [OPTION]...
  expect_output "$1" get "${@:2}" -o "$WORK/body" -w '%{http_code}'
}
# A client of /spin in the background, $CLIENT. The status of its answer is a line of $WORK/codes.
spin() {
  curl -sS --unix-socket "$HTTP" -o "$WORK/body" -w '%{http_code}\n' http://nginx/spin >>"$WORK/codes" 2>>"$WORK/nginx.out" &
  CLIENT=$!
  note_started "$CLIENT"
}
# One that is not refused. Each process of nginx finds wsd on its own, and answers 503 until it has.
waits() {
  ! gone "$CLIENT" || {
    : >"$WORK/codes"
    spin
  }
  counter_is jobs_open 1
}
gives_back() { # PATH FILE [OPTION]...
  get "$1" --data-binary "@$2" "${@:3}" | cmp - "$2"
}
as_from_wsctl() {
  cmp <(get "/big?8000000") <(wsctl submit bigoutput 8000000)
}
comes_direct() {
  expect_output 6765 get "/direct?20" && ! counter_is direct_calls 0
}
says_why() { # WORDS
  grep -qE "\[error\] .* wsd: $1" "$WORK/nginx.log"
}
words=$WORK/words file=$WORK/file
echo "a few words" >"$words"
head -c 3000000 /dev/urandom >"$file"

answers_right() {
  check "a job's output" expect_output 6765 get "/fib?20"
  check "an escaped argument" expect_output "a b" get "/echo?a%20b"
  check "neither body nor argument" expect_output "" get /echo
  check "a body" gives_back /echo "$words"
  check "a body in pieces" gives_back /echo "$words" -H 'Transfer-Encoding: chunked'
  check "a body that nginx puts into a file" gives_back /echo "$file"
  check "a body that a function reads as it comes" gives_back /stream "$file"
  check "an output of 8 MB" as_from_wsctl
  check "HEAD" code_is 200 "/fib?20" -I
  check "a plugin that is not there" code_is 502 /wrong
  check "the log says why" says_why "no-such-plugin: not found"
  check "a job that fails" code_is 502 "/status?3"
  check "the log says so" says_why "echo: "
  check "a job that never ends" code_is 504 /short
  check "a small answer" expect_output 6765 get "/direct?20"
  check "comes by a direct lane once there is one" wait_until comes_direct
  check "one that is as large as it may be" expect_output "1234" get "/narrow?1234"
  check "one that is larger" code_is 502 "/narrow?12345"
  check "the log says why" says_why "echo: .*larger"
  check "a direct call that never ends" code_is 504 /direct-short
  check "it is cancelled" wait_until counter_is jobs_open 0
  spin
  check "a client waits" wait_until waits
  kill "$CLIENT"
  check "it goes away, and its job is cancelled" wait_until counter_is jobs_open 0
}

check "nginx starts without wsd" start_nginx || exit
check "and says so" code_is 503 "/fib?20"
check "wsd comes" serve
check "and is found" wait_until code_is 200 "/fib?20"
answers_right

# --- bounds: two processes, 8 calls each

clients=()
for ((i = 0; i < 17; i++)); do
  spin
  clients+=("$CLIENT")
done
refused_some() { grep -q 503 "$WORK/codes"; }
same_codes() { ! grep -vx 503 "$WORK/codes"; }
check "more calls than wsd_calls" wait_until refused_some
check "are refused, and no others" same_codes
kill "${clients[@]}" 2>/dev/null
check "the jobs of the others are cancelled" wait_until counter_is jobs_open 0

# --- many

many() { # LOCATION
  export WHERE=$1
  rm -f "$WORK"/many.*
  seq 500 | xargs -P 6 -n 25 sh -c 'curl -sS -m 60 --unix-socket "$HTTP" $(printf "http://nginx/$WHERE?%s " "$@") >"$WORK/many.$$"' - &&
    cmp <(sort -n "$WORK"/many.*) <(seq 500)
}
check "500 requests by six clients" many echo
check "500 by the lane" many narrow

# --- wsd is killed under load

load() { # FILE
  while [ ! -e "$WORK/enough" ]; do
    get "$2?20" -o "$1.body" -w '%{http_code}\n' || echo "curl exits $?"
  done >"$1" 2>&1
}
loads=()
for i in 1 2 3; do
  background load "$WORK/load.$i" "$([ $i = 3 ] && echo /direct || echo /fib)"
  loads+=("$BACKGROUND_PID")
done
n_codes() { # PATTERN
  cat "$WORK"/load.[123] | grep -cE "$1"
}
more_than() { # N PATTERN
  [ "$(n_codes "$2")" -gt "$1" ]
}
for i in 1 2; do
  check "requests are answered" wait_until more_than "$(($(n_codes 200) + 30))" 200
  kill_wsd
  check "and refused when wsd is gone" wait_until more_than "$(($(n_codes '50[23]') + 10))" '50[23]'
  check "wsd is there again ($i)" serve
done
check "requests are answered" wait_until more_than "$(($(n_codes 200) + 30))" 200
: >"$WORK/enough"
for pid in "${loads[@]}"; do
  check "a client ends" wait_for_exit "$pid"
done
only_answers() { ! grep -hvxE '200|502|503' "$WORK"/load.[123]; }
check "each request got an answer" only_answers

# --- wsd and its executors come and go

# Each request has its answer, no later than wsd_timeout and 50 ms, but for what the machine took from a process beside
# that slept 1 ms, again and again.
REQUESTS=100
[ -z "${WSD_THOROUGH:-}" ] || REQUESTS=10000
requests() { # FILE: until $WORK/enough is there
  local i path
  for ((i = 0; ; i++)); do
    case $((i % 60)) in
      0) path=/short ;;
      30) path=/direct-short ;;
      [1-9] | 1? | 2?) path="/in-time?$i" ;;
      *) path="/direct-in-time?$i" ;;
    esac
    [ ! -e "$WORK/enough" ] || return 0
    get "$path" -o "$1.body" -w "%{http_code} %{time_total}\n" || echo "curl exits $?"
  done >"$1" 2>&1
}
n_right() {
  cat "$WORK"/disturbed.[12] | grep -c '^200'
}
some_are_right() { # N
  [ "$(n_right)" -gt "$1" ]
}
disturbed() {
  local pids=() late limit i
  rm -f "$WORK/enough"
  background "$BUILD/tests/support/clients/rounds" -p "$WORK/enough" >"$WORK/lateness"
  late=$BACKGROUND_PID
  for i in 1 2; do
    background requests "$WORK/disturbed.$i"
    pids+=("$BACKGROUND_PID")
  done
  while [ "$(cat "$WORK"/disturbed.[12] | wc -l)" -lt "$REQUESTS" ]; do
    wait_until some_are_right "$(n_right)" || return 1 # it has found wsd
    pause 0 200
    disturb || return 1
  done
  : >"$WORK/enough"
  wait "${pids[@]}"
  wait "$late" || return 1
  limit=$((350 + $(cat "$WORK/lateness")))
  for i in 1 2; do
    awk -v limit="$limit" '
      !/^(200|502|503|504) [0-9.]+$/ || $2 * 1000 > limit { print; bad = 1 } END { exit bad }' "$WORK/disturbed.$i" || {
      echo "limit $limit ms"
      return 1
    }
  done
}
if [ -x "$BUILD/tests/support/clients/rounds" ]; then
  check "while wsd and executors come and go, each request of two clients has its answer in time" disturbed
  echo "    | disturbed $n_disturbed times; $(n_right) of $(cat "$WORK"/disturbed.[12] | wc -l) right, the longest" \
    "$(awk '{ print $2 }' "$WORK"/disturbed.[12] | sort -n | tail -1) s, lateness $(cat "$WORK/lateness") ms"
else
  skip "wsd and executors that come and go" "there is no C++ compiler, which the program beside needs"
fi
check "wsd is found" wait_until code_is 200 "/fib?20"

# --- reload

workers() { pgrep -P "$NGINX_PID" | sort; }
before=$(workers)
is_new() { [ "$(workers | wc -l)" -ge 3 ] && code_is 200 "/fib?20"; }
old_are_gone() { [ -z "$(comm -12 <(echo "$before") <(workers))" ]; }
cancel_all() { wsctl --json list | grep -o '"id":"[0-9a-f]*"' | grep -o '[0-9a-f]\{32\}' | xargs -n 1 wsctl cancel; }
: >"$WORK/codes"
spin
check "a client waits" wait_until waits
kill -HUP "$NGINX_PID"
check "nginx is reloaded" wait_until is_new
check "the client still waits" counter_is jobs_open 1
check "its job is cancelled" cancel_all
check "it gets an answer" wait_for_exit "$CLIENT"
check "which is 502" same 502 "$(cat "$WORK/codes")"
check "the old processes end" wait_until old_are_gone
check "and leave nothing in wsd" wait_until holds_nothing
check "the new ones answer" wait_until code_is 200 "/fib?20"
check "nginx stops" stop_nginx
check "and leaves nothing in wsd" wait_until holds_nothing

# --- valgrind, with one process

cat >"$WORK/suppressions" <<END
{
  nginx never frees its environment
  Memcheck:Leak
  ...
  fun:ngx_set_environment
}
{
  nor its connections, which a word on the stack may still point to at the end or not
  Memcheck:Leak
  fun:malloc
  fun:ngx_alloc
  obj:*/nginx
  fun:ngx_single_process_cycle
}
END
is_silent() {
  cat "$WORK/valgrind"
  [ ! -s "$WORK/valgrind" ]
}
if command -v valgrind >/dev/null; then
  PREFIX=(valgrind -q --error-exitcode=99 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite
    "--suppressions=$WORK/suppressions" "--log-file=$WORK/valgrind")
  check "nginx starts under valgrind" start_nginx -g 'master_process off;'
  check "it is connected" wait_until code_is 200 "/fib?20"
  answers_right
  kill_wsd
  check "wsd is gone" wait_until code_is 503 "/fib?20"
  check "wsd is there again" serve
  check "and found" wait_until code_is 200 "/fib?20"
  check "nginx stops" stop_nginx
  check "valgrind says nothing" is_silent
else
  skip "nginx under valgrind" "there is no valgrind here"
fi

no_alerts() { ! grep -E '\[(alert|crit|emerg)\]' "$WORK/nginx.log"; }
check "nginx has no alert" no_alerts
check "wsd stops" stop_wsd
