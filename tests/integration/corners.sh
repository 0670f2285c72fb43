#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# corners.sh: what only a client meets that speaks the wire itself, and what an executor may do that lies: readers that
# stand still, executors that die at the wrong moment, a drain while somebody still reads, limits.
. "$(dirname "$0")/../support/lib.sh"

CORNER=$BUILD/tests/support/clients/corner
LIAR=$BUILD/tests/support/shims/liar
export WSD_PID

one() { # CASE WORDS
  check "$2" "$CORNER" "$1"
}

# Each with an executor of its own: what one leaves behind is its own.
lie() { # CASE WORDS
  start_wsd --workers 1 || return 1
  one "$1" "$2"
  stop_wsd
}

start_wsd --workers 1 --plugin-dir "$TEST_PLUGINS" || exit 1
one a_path_longer_than_a_packet "a plugin path that is too long once it is whole is refused"
one await_from_the_middle "a second reader from the middle of a job: both get the rest"
one output_that_was_thrown_away "a job that runs again gives all of its output to each reader"
one a_streamed_job_that_was_not_begun "a streamed job that was not begun outlives its executor"
one what_is_gone_is_not_charged "of a detached job that has ended only its output is charged"
one names_that_are_no_plugins "hundreds of wrong names: the right ones go on"
one an_end_in_one_frame "output and end in one frame, for who knows it"
one an_end_without_a_beginning "no ACCEPTED where none is wanted"
one an_end_that_does_not_fit_the_window "the last output heeds the window too"
one a_job_that_is_left "a job whose call ends when it is accepted"
one a_job_that_is_cancelled_before_it_begins "a job that is cancelled before it begins, by its tag: the call ends"
one kept_results_that_are_being_read "kept results that are being read stay"
stop_wsd
start_wsd --workers 1 --plugin-dir "$TEST_PLUGINS" || exit 1
one drain_waits_for_a_slow_reader "a drain waits for who still reads his answer"
check "and wsd ends" wait_for_exit "$WSD_PID"
clean_log "$WSD_LOG"

WSD_PREFIX=(prlimit --nofile=512:512)
start_wsd --workers 1 --plugin-dir "$TEST_PLUGINS" || exit 1
WSD_PREFIX=()
one inputs_without_end "inputs without end leave descriptors for others"
stop_wsd

printf '[limits]\nmax-unread-per-user = 64K\nexecutor-answer = 1h\n' >"$WSD_CONFIG"
start_wsd --workers 1 --plugin-dir "$TEST_PLUGINS" || exit 1
one a_job_that_was_held_back "a job that was held back runs as soon as there is room for its answer"
stop_wsd
: >"$WSD_CONFIG"

mkdir "$WORK/many"
for i in {1..100}; do
  ln -s "$TEST_PLUGINS/echo.so" "$WORK/many/echo-$i.so"
done
start_wsd --workers 1 --plugin-dir "$WORK/many" || exit 1
one questions_of_one_who_does_not_read "small questions with large answers, and nobody reads: wsd stays small"
one questions_of_one_who_reads_late "they are all answered where somebody reads in the end"
stop_wsd

printf '[limits]\nexecutor-idle = 200ms\ncancel-grace = 300ms\nmax-result = 1K\n' >"$WSD_CONFIG"
start_wsd --workers 1 --plugin-dir "$TEST_PLUGINS" || exit 1
one an_executor_that_was_only_asked "an executor that was only asked for plugins is ended when idle"
stop_wsd
EXECUTOR=$LIAR
lie state_that_changes_all_the_time "a liar: the state of a slot that changes all the time"
lie output_that_is_announced_for_ever "a liar: the same output again and again"
lie answers_that_are_not_read "a liar: answers that it does not read"
lie files_asked_for_without_end "a liar: files asked for without end"
lie a_child_that_goes_on_writing "a liar: its child goes on writing completions"
lie a_message_without_text "a liar: a message without text"

# Its executor says that the file is where a file system answers nothing.
a_file_by_an_executors_word() {
  expect_output "" timeout 20 "$WSCTL" submit elsewhere && timeout 20 "$WSCTL" plugin show elsewhere && timeout 20 "$WSCTL" ping
}
mkdir -p "$WORK/word/never"
background "$SRC/tests/support/boxes/never.py" "$WORK/word/never" >"$WORK/mounted"
wait_until test -s "$WORK/mounted"
if grep -q mounted "$WORK/mounted"; then
  on_exit umount -l "$WORK/word/never"
  start_wsd --workers 1 --plugin-dir "$WORK/word" || exit 1
  check "a liar: no look for a file where only the executor says that it is" a_file_by_an_executors_word
  kill -KILL "$BACKGROUND_PID"
  stop_wsd
else
  skip "a liar: no look for a file where only the executor says that it is" "$(cat "$WORK/mounted")"
fi
lie executors_that_die_at_once "executors that die at once: pauses, then an end"
lie an_executor_that_does_not_end "an executor that does not end when it is told to"
an_answer_that_does_not_come() { # its time limit and an order to cancel it hold all the same
  local id
  start_wsd --workers 1 --plugin-dir "$TEST_PLUGINS" || return 1
  expect_exit 124 timeout $((30 * TIME_SCALE)) "$WSCTL" submit --timeout 100ms seals && counter_is executors_distrusted 1 || return 1
  id=$(wsctl submit --detach seals) && wait_until counter_is jobs_handed_over 1 && wsctl cancel "$id" &&
    expect_exit 130 wsctl await "$id" && counter_is executors_distrusted 2 && stop_wsd
}
check "a liar: an answer that does not come" an_answer_that_does_not_come
printf '[limits]\nplugin-load = %sms\n' $((2000 * TIME_SCALE)) >"$WSD_CONFIG"
lie plugins_that_load_slowly_one_after_the_other "the time to load a plugin is its own"
