#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# leaves.sh: what a job leaves behind in its thread and process costs no other job. One worker, so that the next job has its place.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/users.sh"

sanitized() {
  [ -n "${WSD_SANITIZE:-}" ]
}

crashed() { # FUNCTION WORDS
  local status=0
  wsctl submit "leaves:$1" >"$WORK/out" 2>"$WORK/err" || status=$?
  cat "$WORK/err"
  [ "$status" = 70 ] && grep -q -- "$2" "$WORK/err" && expect_output 6765 wsctl submit fib 20
}

# FUNCTION CRASH WORDS: after the one, the other is told as ever. A worker looks before it begins a job and before it sleeps, but
# not each time.
crashed_after() {
  local before
  before=$(wc -l <"$WSD_LOG")
  expect_exit 0 wsctl submit "leaves:$1" && wait_until is_mended "$before" && crashed "$2" "$3"
}
is_mended() { # LINES-BEFORE
  wsctl submit leaves:state && tail -n "+$(($1 + 1))" "$WSD_LOG" | grep -q 'a job has left .* changed: it is as before'
}

# FUNCTION WORDS: of what a thread of a worker ends by; also as a job of many, and SIGTERM is heeded.
left() {
  crashed "$1" "$2" && wsctl --json submit fib 20 >"$WORK/json" && grep -q '"attempts":1' "$WORK/json" &&
    expect_exit 70 wsctl map --keep-going "leaves:$1" ::: a && expect_output 6765 wsctl submit fib 20
}

as_new="files=yes limit=high space=high umask=077 directory=/ nice=$(nice)"

state_is_new() {
  wsctl submit leaves:state | tee "$WORK/state.now" | grep -q "^$as_new cpus=$(nproc)\$"
}

# FUNCTION WORDS [ARGUMENT]: what it has done is told in the log once, and soon is no other job's.
replaced() {
  local before n
  before=$(wc -l <"$WSD_LOG")
  expect_exit 0 wsctl submit "leaves:$1" "${@:3}" || return 1
  wait_until is_replaced "$before" "$2" || {
    cat "$WORK/since" "$WORK/state.now"
    return 1
  }
  cat "$WORK/since"
  n=$(grep -c "executor [0-9]*: .*$2.*: a fresh one takes its place" "$WORK/since")
  [ "$n" = 1 ] && ! grep -q 'executor [0-9]* ended' "$WORK/since"
}

is_replaced() { # LINES-BEFORE WORDS
  state_is_new
  tail -n "+$(($1 + 1))" "$WSD_LOG" >"$WORK/since"
  grep -q 'takes the place of executor' <(sed -n "/$2/,\$p" "$WORK/since") && state_is_new
}

# FUNCTION: put back on the thread.
put_back() {
  expect_exit 0 wsctl submit "leaves:$1" || return 1
  wait_until state_is_new || {
    cat "$WORK/state.now"
    return 1
  }
}

# FUNCTION: a plugin that was not there before is loaded all the same: in the next executor.
loads_elsewhere() {
  wsctl submit fib 20 && expect_exit 0 wsctl submit "leaves:$1" && expect_output hello wsctl submit echo:echo hello && wait_until state_is_new
}

# MILLISECONDS MILLISECONDS CODE COMMAND...: it ends so, and has run and computed for at least so long.
has_cost() {
  local ran=$1 computed=$2 code=$3
  shift 3
  expect_exit "$code" wsctl --json submit "$@" >"$WORK/json"
  cat "$WORK/json"
  [ "$(sed 's/.*"run_usec":\([0-9]*\).*/\1/' "$WORK/json")" -ge $((ran * 1000)) ] && [ "$(sed 's/.*"cpu_usec":\([0-9]*\).*/\1/' "$WORK/json")" -ge $((computed * 1000)) ]
}

tls_has_room() {
  for i in 1 2 3 4 5 6; do
    expect_output there wsctl submit "tls-$i:run" || return 1
  done
}

tls_has_an_end() {
  local status=0
  wsctl submit tls-large:run 2>"$WORK/err" || status=$?
  cat "$WORK/err"
  [ "$status" = 66 ] && grep -q 'static TLS block; raise \[executor\] static-tls in wsd.conf$' "$WORK/err"
}

named() {
  wsctl submit fib 20 && [ "$(cat /proc/"$(pgrep -P "$WSD_PID" -f wsd-executor | head -n 1)"/comm)" = wsd-executor ]
}

lines() { # PATTERN
  grep -c "$1" "$WSD_LOG"
}

# 5,000 lines: marked, limited, and the rest is counted by the next line.
speech_is_limited() {
  local before
  before=$(lines 'wsd: executor [0-9]*: line [0-9]* of nobody$')
  expect_exit 0 wsctl submit leaves:says 5000 || return 1
  wait_until grep -q 'wsd: executor [0-9]*: this one is for stdout$' "$WSD_LOG" || return 1
  wsctl submit fib 20 || return 1
  echo "$before before, now $(lines 'of nobody$')"
  [ "$(lines 'of nobody$')" -gt "$before" ] && [ "$(lines 'of nobody$')" -le $((before + 45)) ] && ! grep -v 'wsd: executor' "$WSD_LOG" | grep -q 'of nobody$'
}

# FUNCTION WORDS: stand in the error and in JSON.
last_words() {
  crashed "$1" "$2" && ! wsctl --json submit "leaves:$1" >"$WORK/json" && grep -q "\"error\":\"[^\"]*$2" "$WORK/json"
}

late='in a thread that its job has left behind'

# FUNCTION [ARGUMENT]: what the thread that it leaves says is no part of the next job, whatever it says; the log has the plugin's name.
is_no_other_jobs() {
  local before json
  before=$(wc -l <"$WSD_LOG")
  expect_output mine wsctl submit "leaves:$1" "${@:2}" || return 1
  json=$(wsctl --json submit leaves:listen 2>&1) || return 1
  echo "$json"
  [[ $json == *'"output":"bWluZQo="'* && $json != *your* && $json == *'"done":0,"total":0'* ]] || return 1
  wait_until says_late "$before" "leaves:$1" 'not your error' || return 1
  says_late "$before" "leaves:$1" 'not for you' && says_late "$before" "leaves:$1" 'not your status' && says_late "$before" "leaves:$1" 'not your line'
}

says_late() { # LINES-BEFORE FUNCTION WORDS
  tail -n "+$(($1 + 1))" "$WSD_LOG" | grep -q "executor [0-9]*: $2, $late: $3\$"
}

# The jobs of a bundle have one place.
in_a_bundle() {
  expect_output "$(printf 'mine\n%.0s' {1..40})" wsctl map leaves:thread ::: {1..40} && expect_output mine wsctl submit leaves:listen
}

# The thread of one job has the struct of another, which has made none.
lent() {
  local before
  before=$(wc -l <"$WSD_LOG")
  expect_output mine wsctl submit leaves:thread && wsctl submit leaves:lend && expect_output mine wsctl submit leaves:listen &&
    wait_until says_late "$before" leaves:lend 'not for you'
}

alone() {
  for _ in {1..20}; do
    expect_output mine wsctl submit --local "$TEST_PLUGINS/leaves.so:at-the-end" 2>/dev/null || return 1
  done
}

gone_alone() {
  local status=0
  wsctl submit --local "$TEST_PLUGINS/leaves.so:thread-gone" 2>"$WORK/err" || status=$?
  cat "$WORK/err"
  [ "$status" = $((128 + 6)) ] && grep -q 'ended the thread of its worker (the exit system call)' "$WORK/err"
}

# FUNCTION WORDS: a plugin in C++; the same in the error and in JSON.
threw() {
  local status=0 words="Aborted: terminate called after throwing an instance of $2"
  wsctl submit "throws:$1" 2>"$WORK/err" || status=$?
  cat "$WORK/err"
  [ "$status" = 70 ] && grep -qF -- "$words" "$WORK/err" || return 1
  wsctl --json submit "throws:$1" >"$WORK/json" && return 1
  cat "$WORK/json"
  grep -qF "\"error\":\"$words" "$WORK/json" && expect_output caught wsctl submit throws:caught
}

# The one that is there when it is found out hangs until it is cancelled; those after it are served.
left_locked() {
  local id
  expect_exit 0 wsctl submit leaves:locks && id=$(wsctl submit --detach leaves:prints) || return 1
  wait_until grep -q 'executor [0-9]*: a job holds the lock of stderr, or has left it held (flockfile): a fresh one takes its place' "$WSD_LOG" || return 1
  wait_until grep -q 'executor [0-9]* takes the place of' "$WSD_LOG" && expect_exit 0 wsctl submit leaves:prints && wsctl cancel "$id"
}

# What another job has said before is none of its.
silent() {
  wsctl submit leaves:says 1 && crashed silent ': Aborted' && ! grep -q nobody "$WORK/err"
}

printf '[limits]\nquarantine-after = 1000\ncancel-grace = 200ms\n' >"$WSD_CONFIG"
start_wsd --workers 1 --plugin-dir "$TEST_PLUGINS" || exit 1
check handlers_are_put_back crashed_after handlers segv 'Segmentation fault at address 0x1238'
check a_mask_is_put_back crashed_after mask segv 'Segmentation fault at address 0x1238'
sanitized || check a_signal_stack_is_put_back crashed_after altstack overflow 'stack overflow'
sanitized || check a_death_without_a_note_is_the_only_jobs crashed unnoted 'Segmentation fault'
check pthread_exit_is_told left thread-exit 'ended the thread of its worker'
check a_cancelled_thread_is_told left cancel 'ended the thread of its worker'
check an_exception_is_told last_words last-words "Aborted: terminate called after throwing an instance of 'std::runtime_error'; what():  the moon is no cheese"
if [ -e "$TEST_PLUGINS/throws.so" ]; then
  check an_exception_of_a_job_is_told threw job "'moon::no_cheese'; what():  the moon is no cheese"
  check one_that_is_a_number_is_told threw number "'int'"
  check one_of_a_task_is_told threw task "'std::out_of_range'; what():  no such crater: 5"
  check one_of_a_thread_is_told threw thread "'moon::no_cheese'; what():  nor is the thread"
else
  skip an_exception_of_a_job_is_told "there was no C++ compiler"
fi
check a_forgotten_sync_is_told last_words forgets-sync 'returned without joining its tasks'
check one_that_says_nothing_has_no_words silent
check a_crash_has_run_and_cpu_time has_cost 40 40 70 leaves:works
check one_that_is_ended_has_run_and_cpu_time has_cost 40 1 124 --timeout 200ms leaves:deaf
stop_wsd

# A wsd that has seen no crash: a plugin that has crashed runs apart until enough of its jobs have gone well, then
# elsewhere, where the next job does not meet what the one before has left.
start_wsd --workers 1 --plugin-dir "$TEST_PLUGINS" || exit 1
if ! sanitized; then
  check what_a_plugin_writes_is_marked_and_limited speech_is_limited
  check a_lowered_limit_is_left_behind replaced limit 'RLIMIT_NOFILE'
  check leaked_descriptors_are_left_behind replaced files 'descriptors open'
  check an_umask_is_left_behind replaced umask 'umask'
  check a_directory_is_left_behind replaced directory 'working directory'
  check a_lowered_address_space_is_left_behind replaced space 'RLIMIT_AS'
  for name in NOFILE NPROC FSIZE CPU STACK MEMLOCK DATA; do
    check "a_lowered_RLIMIT_${name}_is_left_behind" replaced lower "RLIMIT_$name" "$name"
  done
  check cpus_are_put_back put_back affinity
  check a_nice_value_is_put_back_or_left_behind put_back nice
  check a_plugin_loads_after_leaked_descriptors loads_elsewhere files
  check a_plugin_loads_after_a_lowered_limit loads_elsewhere limit
  check a_plugin_loads_without_address_space loads_elsewhere space
fi
check an_executor_is_called_so named
check plugins_have_room_for_thread_locals tls_has_room
check beyond_it_the_key_is_named tls_has_an_end
stop_wsd

printf '[executor]\nstatic-tls = 200K\n' >"$WSD_CONFIG"
start_wsd --workers 1 --plugin-dir "$TEST_PLUGINS" || exit 1
check with_that_it_is_loaded expect_output there wsctl submit tls-large:run
stop_wsd

printf '[limits]\nquarantine-after = 1000\ncancel-grace = 200ms\nexecutor-answer = 4s\n' >"$WSD_CONFIG" # looked at every two seconds
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
check a_stolen_task_that_ends_its_thread_is_told crashed stolen-exit 'ended the thread of its worker'
check one_whose_thread_is_gone_is_told crashed thread-gone 'ended the thread of its worker (the exit system call)'
check a_lock_of_stderr_is_left_behind left_locked
check a_stolen_task_whose_thread_is_gone_is_told crashed stolen-gone 'ended the thread of its worker (the exit system call)'
stop_wsd

# A wsd of its own, whose log has room for what they say.
start_wsd --workers 1 --plugin-dir "$TEST_PLUGINS" || exit 1
check a_thread_is_its_own_jobs expect_output 'from a thread' wsctl submit leaves:joined
check a_fault_of_a_thread_is_its_jobs crashed thread-segv 'Segmentation fault at address 0x1238'
check a_thread_left_behind_writes_into_no_other_job is_no_other_jobs thread
check nor_one_of_c11 is_no_other_jobs thread c11
check nor_a_threads_thread is_no_other_jobs grandchild
check nor_a_destructor_of_a_thread_that_ends is_no_other_jobs destructor
check nor_one_that_another_job_has_lent_its_own lent
check nor_in_a_bundle in_a_bundle
check a_thread_left_behind_alone alone
check a_thread_that_is_gone_alone gone_alone
stop_wsd

# What a job has used up is there again for the next one, in the next executor.
memory_comes_back() {
  seq 500000 >"$WORK/numbers"
  expect_exit 0 wsctl submit leaves:memory || return 1
  wait_until sorts && grep -q 'executor 1: its jobs have left less than [0-9]* MiB of memory, of [0-9]* (\[limits\] executor-memory): a fresh one' "$WSD_LOG" &&
    ! grep -q 'executor [0-9]* ended' "$WSD_LOG"
}
memory_is_in_use() { # while the other worker has jobs and sleeps in turn
  "$BUILD/tests/support/clients/direct" -x >/dev/null || return 0
  background "$BUILD/tests/support/clients/direct" -w -n 1 leaves:borrows "$WORK/enough" >"$WORK/borrower"
  wait_until has_little_memory || {
    cat "$WORK/borrower"
    return 1
  }
  for _ in {1..30}; do
    wsctl submit fib 5 || return 1
  done
  : >"$WORK/enough"
  wait_for_exit "$BACKGROUND_PID" && cat "$WORK/borrower" && grep -q 'direct=1 ' "$WORK/borrower" && ! grep 'its jobs have left' "$WSD_LOG"
}
has_little_memory() { # the executor, in pages: of 64 MiB
  [ "$(cut -d ' ' -f 6 "/proc/$(pgrep -P "$WSD_PID" -x wsd-executor)/statm")" -gt 15000 ]
}
sorts() {
  [ "$(wsctl submit sort "$WORK/numbers" | tail -n 1)" = 99999 ]
}
if ! sanitized; then
  printf '[limits]\nexecutor-memory = 64M\n' >"$WSD_CONFIG"
  start_wsd --workers 1 --plugin-dir "$TEST_PLUGINS" || exit 1
  check memory_that_is_used_up_is_left_behind memory_comes_back
  stop_wsd
  start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
  check memory_that_a_direct_call_uses_is_in_use memory_is_in_use
  stop_wsd
fi

# So many threads that the user can have no other process: the executor ends, and the next job starts one.
threads_come_back() {
  expect_exit 0 wsctl submit leaves:idlers || return 1
  wait_until has_a_thread && grep -q 'executor 1: its jobs have left [0-9]* threads, and it can have no more .*: a fresh one' "$WSD_LOG" &&
    expect_output 6765 wsctl submit fib 20
}
has_a_thread() {
  wsctl submit fib 20 && [ "$(wsctl submit leaves:joined)" = 'from a thread' ]
}
if [ "$(id -u)" = 0 ] && ! sanitized; then
  install_for_all leaves
  : >"$WSD_CONFIG"
  umask 0
  WSD_PREFIX=("$BUILD/tests/support/boxes/inherit" user=61234 limit=NPROC:100 --) # of whom nothing else runs here
  start_wsd --workers 1 || exit 1
  check threads_that_are_used_up_are_left_behind threads_come_back
  stop_wsd
else
  skip threads_that_are_used_up_are_left_behind "root has no limit of processes to take away, and a sanitizer has threads of its own"
fi
