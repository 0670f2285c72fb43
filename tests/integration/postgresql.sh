#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# postgresql.sh: the extension of client/examples/postgresql in a PostgreSQL of its own: answers, errors, statements that
# are cancelled or time out, a wsd that is killed and started again, and many sessions. With WSD_THOROUGH it shows what a
# call takes in 100 sessions that take turns, beside one session.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/users.sh"
. "$(dirname "$0")/../support/disturb.sh"

if [ -n "${WSD_SANITIZE:-}" ]; then
  skip "the extension of PostgreSQL" "a sanitizer has to be the first library of a process"
  exit
fi
PG_CONFIG=${PG_CONFIG:-pg_config}
bin=$("$PG_CONFIG" --bindir 2>/dev/null)
makefile=$("$PG_CONFIG" --pgxs 2>/dev/null)
if [ ! -x "$bin/postgres" ] || [ ! -x "$bin/initdb" ] || [ ! -f "$makefile" ]; then
  skip "the extension of PostgreSQL" "there is no pg_config, or no server or headers of it (postgresql-15, postgresql-server-dev-15)"
  exit
fi
become=() # PostgreSQL does not run as root
if [ "$(id -u)" = 0 ]; then
  if ! id postgres >/dev/null 2>&1 || ! command -v setpriv >/dev/null; then
    skip "the extension of PostgreSQL" "there is no user postgres, or no setpriv"
    exit
  fi
  become=(setpriv --reuid=postgres --regid=postgres --init-groups)
fi

# --- the extension, in a copy of the server's tree ------------------------------------------------------------------------

# A server finds its libraries and extensions from where its program is: links to all that is installed, and ours beside.
tree=$WORK/tree
build_extension() {
  local dir
  for dir in "$bin" "$("$PG_CONFIG" --pkglibdir)" "$("$PG_CONFIG" --sharedir)"; do
    mkdir -p "$tree$dir" && cp -rs "$dir/." "$tree$dir" || return 1
  done
  cp --remove-destination "$bin/postgres" "$tree$bin/postgres" && cp -r "$SRC/client/examples/postgresql" "$WORK/extension" &&
    PKG_CONFIG_PATH=$BUILD/meson-uninstalled make -C "$WORK/extension" PG_CONFIG="$PG_CONFIG" with_llvm=no COPT=-Werror \
      DESTDIR="$tree" all install
}
install_for_all echo spin ends bigoutput direct
check "the extension is built" build_extension || exit 1

WSD_SOCKET=$WORK/wsd.sock
export WSD_SOCKET
[ ${#become[@]} = 0 ] || printf '[daemon]\nsystem = yes\nsocket-group = postgres\n' >"$WSD_CONFIG"
begin_wsd() {
  WSD_LOG=$WORK/log
  run_wsd --state-dir "$WORK/store" --workers 2
}
check "wsd is there" begin_wsd || exit 1

mkdir -m 700 "$WORK/pg"
[ ${#become[@]} = 0 ] || chown postgres "$WORK/pg"
as_server=("${become[@]}" env LD_LIBRARY_PATH="$WORK/inst" WSD_SOCKET="$WSD_SOCKET" TMPDIR="$WORK/tmp")
check "a database" "${as_server[@]}" "$bin/initdb" -D "$WORK/pg/data" -U postgres -A trust -E UTF8 --no-locale --no-sync || exit 1
cd / || exit
background "${as_server[@]}" "$tree$bin/postgres" -D "$WORK/pg/data" -c listen_addresses= -c unix_socket_directories="$WORK/pg" \
  -c fsync=off >"$WORK/server.log" 2>&1 </dev/null
SERVER=$BACKGROUND_PID
end_server() {
  gone "$SERVER" || kill -QUIT "$SERVER"
}
on_exit end_server

psql=("${as_server[@]}" "$bin/psql" -h "$WORK/pg" -U postgres -d postgres -XAtq -v VERBOSITY=terse)
sql() { # STATEMENTS
  "${psql[@]}" -v ON_ERROR_STOP=1 <<<"$1" 2>&1
}
sql_refused() { # WORDS STATEMENTS: the last line has these words
  local said
  said=$(sql "$2") && return 1
  echo "$said"
  [[ ${said##*$'\n'} == "ERROR:  "*"$1"* ]]
}

wait_until sql "SELECT 1" || { fail "start PostgreSQL" "it does not answer" && show "$WORK/server.log" && exit 1; }
check "the extension is created" sql "CREATE EXTENSION wsd_call"

# --- answers and errors -----------------------------------------------------------------------------------------------------

FIB="SELECT rtrim(convert_from(wsd_call('fib', '', '20'), 'UTF8'), E'\n');"
check "an answer" expect_output 6765 sql "$FIB"
check "bytes as they are" expect_output '\x00ff5c' sql "SELECT wsd_call('echo', '\x00ff5c')"
check "a shipped plugin, as the example shows it" expect_output text \
  sql "SELECT convert_from(wsd_call('decompress', wsd_call('compress', 'text'::bytea)), 'UTF8')"
check "no output" expect_output '\x' sql "SELECT wsd_call('echo:echo', '')"
check "NULL" expect_output "" sql "SELECT wsd_call('echo', NULL)"
check "a large input and output" expect_output t \
  sql "SELECT wsd_call('echo', x) = x FROM convert_to(repeat('0123456789', 500000), 'UTF8') x"
check "a large output" expect_output 5000000 sql "SELECT length(wsd_call('bigoutput', '', '5000000'))"
parallel() { # in another process, which has a handle of its own
  sql "SELECT FROM pg_settings, set_config(name, 'on', false) WHERE name IN ('force_parallel_mode', 'debug_parallel_query');
    EXPLAIN (ANALYZE) $FIB $FIB" >"$WORK/plan"
  cat "$WORK/plan"
  grep -q "Workers Launched: 1" "$WORK/plan" && [ "$(tail -n 1 "$WORK/plan")" = 6765 ]
}
check "in a parallel worker" parallel
check "a wrong name has the words of wsd" sql_refused "wsd: nothing: not found in " "SELECT wsd_call('nothing', '')"
check "a wrong function, too" sql_refused "wsd: echo: " "SELECT wsd_call('echo:nothing', '')"
check "a path with a colon is no function" sql_refused "wsd: /no:where/x.so: " "SELECT wsd_call('/no:where/x.so', '')"
check "a job that fails" sql_refused "wsd: ends: the job has failed, exit 7: as was wanted" "SELECT wsd_call('ends', '', '7')"
check "an argument that is null" sql_refused "argument 2 of the job is null" "SELECT wsd_call('echo', '', 'a', NULL)"
small() {
  expect_output 'direct' sql "SELECT convert_from(wsd_call_small('direct', '', 'name'), 'UTF8')"
}
comes_direct() {
  [ "$(counter direct_calls)" -gt 0 ] || ! sql "SELECT count(wsd_call_small('echo', '')) FROM generate_series(1, 100)"
}
check "a small answer" small
if "$BUILD/tests/support/clients/direct" -x >/dev/null; then
  check "comes by a direct lane once there is one" wait_until comes_direct
else
  skip "direct lanes" "this kernel has no futex_waitv (Linux 5.16)"
fi
check "one that is as large as it may be" expect_output 2048 sql "SELECT length(wsd_call_small('bigoutput', '', '2048'))"
check "one that is larger" sql_refused "wsd: bigoutput: " "SELECT wsd_call_small('bigoutput', '', '2049')"
check "a user to whom it is not granted" sql_refused "permission denied for function wsd_call" \
  "CREATE ROLE somebody; SET ROLE somebody; SELECT wsd_call('echo', '')"

# --- a session, whose statements are ended ------------------------------------------------------------------------------------

coproc SESSION { exec "${psql[@]}" 2>&1; }
note_started "$SESSION_PID"
SPIN="SELECT wsd_call('spin:spin', '');"
begin() { # STATEMENTS
  printf '%s\n' "$1" >&"${SESSION[1]}"
}
told() { # WORDS: the next line has them
  local line
  IFS= read -r -t $((20 * TIME_SCALE)) line <&"${SESSION[0]}" && echo "$line" && [[ $line == *"$1"* ]]
}
asked() { # WORDS STATEMENTS
  begin "$2" && told "$1"
}
goes_on() { # the same process answers, and nothing is left of its jobs
  asked 6765 "$FIB" && asked "$pid" "SELECT pg_backend_pid();" && wait_until counter_is jobs_open 0
}
ask_pid() {
  begin "SELECT pg_backend_pid();" && IFS= read -r -t $((20 * TIME_SCALE)) pid <&"${SESSION[0]}"
}
ask_pid || fail "a session" "it does not answer"

check "a statement that never ends has its timeout" asked "canceling statement due to statement timeout" \
  "SET statement_timeout = '300ms'; $SPIN SET statement_timeout = 0;"
check "the session goes on" goes_on
check "a small answer that never comes, too" asked "canceling statement due to statement timeout" \
  "SET statement_timeout = '300ms'; SELECT wsd_call_small('spin:spin', ''); SET statement_timeout = 0;"
check "the session goes on" goes_on

check "a job runs" begin "$SPIN"
check "in wsd" wait_until jobs_are running 1
memory_is_told() { # something else than a cancel: the server's process does it, and waits on
  sql "SELECT pg_log_backend_memory_contexts($pid)" && wait_until grep "logging memory contexts of PID $pid" "$WORK/server.log" &&
    jobs_are running 1
}
[ "$(sql "SELECT current_setting('server_version_num')::int >= 140000")" = f ] || check "its process hears what is no cancel" memory_is_told
check "it is cancelled" expect_output t sql "SELECT pg_cancel_backend($pid)"
check "and told so" told "canceling statement due to user request"
check "the session goes on" goes_on

# --- wsd killed -----------------------------------------------------------------------------------------------------------------

kill_wsd
check "while there is no wsd, the timeout ends the statement" asked "canceling statement due to statement timeout" \
  "SET statement_timeout = '300ms'; $FIB SET statement_timeout = 0;"
check "wsd was killed, and is there again" begin_wsd
check "the session goes on" goes_on
kill_wsd
check "wsd was killed once more, and is there again" begin_wsd
check "a session that has not noticed goes on" goes_on
check "a job runs" begin "$SPIN"
check "in wsd" wait_until jobs_are running 1
kill_wsd
check "wsd was killed, and is there again" begin_wsd
check "a job that has begun is not repeated" told "ERROR:  wsd: spin: "
check "the session goes on" goes_on

check "a job runs" begin "$SPIN"
check "in wsd" wait_until jobs_are running 1
check "its session is ended" expect_output t sql "SELECT pg_terminate_backend($pid)"
check "and its job" wait_until counter_is jobs_open 0

# --- many sessions ----------------------------------------------------------------------------------------------------------------

many() {
  local i programs=()
  for ((i = 1; i <= 20; i++)); do
    sql "SELECT count(*) FROM generate_series(1, 200) n, convert_to('$i ' || n, 'UTF8') x WHERE wsd_call('echo', x) = x" >"$WORK/many.$i" &
    programs+=($!)
  done
  wait "${programs[@]}"
  [ "$(sort -u "$WORK"/many.*)" = 200 ] || {
    head "$WORK"/many.*
    return 1
  }
}
check "20 sessions, each with 200 calls" many
check "nothing is left in wsd" wait_until holds_nothing

# --- sessions that take turns -----------------------------------------------------------------------------------------------------

SESSIONS=40 CALLS=50 TURNS=1
[ -z "${WSD_THOROUGH:-}" ] || SESSIONS=100 CALLS=1000 TURNS=5
in_fds=() out_fds=()
open_session() { # I
  local i=$1 in out
  mkfifo "$WORK/in.$i" "$WORK/out.$i" || return 1
  "${psql[@]}" <"$WORK/in.$i" >"$WORK/out.$i" 2>&1 &
  note_started $!
  exec {in}>"$WORK/in.$i" {out}<"$WORK/out.$i"
  in_fds+=("$in") out_fds+=("$out")
}
# Its turn: so many calls, each right. Their mean in us is in TOOK.
turn_of() { # I
  local i=$1
  echo "WITH r AS MATERIALIZED (SELECT count(*) AS n FROM generate_series(1, $CALLS) n, convert_to(n::text, 'UTF8') x
    WHERE wsd_call_small('direct', x) = x)
    SELECT round(extract(epoch FROM clock_timestamp() - statement_timestamp()) * 1e6 / $CALLS, 2) FROM r WHERE n = $CALLS;" \
    >&"${in_fds[i]}" && IFS= read -r -t $((60 * TIME_SCALE)) TOOK <&"${out_fds[i]}"
  [[ $TOOK =~ ^[0-9.]+$ ]] && return
  echo "session $i: $TOOK"
  return 1
}
# Each fourth session goes on for a second turn, with the lane that it has then.
take_turns() {
  local turn i
  for ((i = 0; i < SESSIONS; i++)); do open_session "$i" || return 1; done
  turn_of 0 || return 1 # the function is known to be brief, and its executor is there
  for ((turn = 0; turn < TURNS; turn++)); do
    for ((i = 0; i < SESSIONS; i++)); do
      turn_of "$i" || return 1
      echo "$TOOK" >>"$WORK/turns"
      [ $((i % 4)) = 0 ] || continue
      turn_of "$i" || return 1
      echo "$TOOK" >>"$WORK/second-turns"
    done
  done
}
spread() { # FILE
  sort -n "$1" | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)], "(nine of ten " a[int(NR * 9 / 10)] ", all " a[NR] ")" }'
}
check "$SESSIONS sessions take turns of $CALLS calls, each of them right" take_turns
echo "    | us a call: $(spread "$WORK/turns") in a turn, $(spread "$WORK/second-turns") if a session goes on for a second one"
for i in "${in_fds[@]}" "${out_fds[@]}"; do exec {i}>&-; done

# --- wsd and its executors come and go ---------------------------------------------------------------------------------------------

# Each statement has its end, an answer or an error, and none comes later than its timeout and 50 ms, but for what the
# machine took from a process beside that slept 1 ms, again and again.
COME_BACK=(begin_wsd)
STATEMENTS=120
[ -z "${WSD_THOROUGH:-}" ] || STATEMENTS=10000
statements() { # N
  local i
  printf 'SET statement_timeout = 300;\n\\timing on\n'
  for ((i = 0; i < $1; i++)); do
    case $((i % 60)) in
      0) echo "SELECT wsd_call('spin:spin', '');" ;;
      30) echo "SELECT wsd_call_small('spin:spin', '');" ;;
      [1-9] | 1? | 2?) echo "SELECT wsd_call('echo', '$i') = '$i';" ;;
      *) echo "SELECT wsd_call_small('direct', '$i') = '$i';" ;;
    esac
  done
}
disturbed() {
  local i pids=() late limit
  rm -f "$WORK/enough"
  "$BUILD/tests/support/clients/rounds" -p "$WORK/enough" >"$WORK/lateness" &
  note_started $!
  late=$!
  statements "$STATEMENTS" >"$WORK/statements"
  for i in 1 2; do
    "${psql[@]}" <"$WORK/statements" >"$WORK/disturbed.$i" 2>&1 &
    note_started $!
    pids+=($!)
  done
  disturb_while "${pids[@]}" || return 1
  wait "${pids[@]}"
  : >"$WORK/enough"
  wait "$late" || return 1
  limit=$((350 + $(cat "$WORK/lateness")))
  for i in 1 2; do
    if [ "$(grep -cE '^(t|ERROR:  (wsd: .*|canceling statement due to statement timeout))$' "$WORK/disturbed.$i")" != "$STATEMENTS" ] ||
      ! awk -v limit="$limit" '/^Time:/ && $2 > limit { print; bad = 1 } END { exit bad }' "$WORK/disturbed.$i"; then
      grep -vE '^(t$|Time:|ERROR:  wsd:|ERROR:  canceling)' "$WORK/disturbed.$i" | head
      awk '/^Time:/ { print $2 }' "$WORK/disturbed.$i" | sort -n | tail -3
      echo "limit $limit ms"
      return 1
    fi
  done
}
if [ -x "$BUILD/tests/support/clients/rounds" ]; then
  check "while wsd and executors come and go, each of $STATEMENTS statements of two sessions ends in time" disturbed
  echo "    | disturbed $n_disturbed times; $(grep -hc '^t$' "$WORK/disturbed.1") of $STATEMENTS right," \
    "the longest $(awk '/^Time:/ { print $2 }' "$WORK"/disturbed.? | sort -n | tail -1) ms, lateness $(cat "$WORK/lateness") ms"
else
  skip "wsd and executors that come and go" "there is no C++ compiler, which the program beside needs"
fi
check "nothing is left in wsd" wait_until holds_nothing

check "PostgreSQL stops" kill -INT "$SERVER"
check "in order" wait_for_exit "$SERVER"
stop_wsd
