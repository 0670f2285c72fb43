#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# corners.sh: what only a client meets that speaks the wire itself: readers that stand still, executors that die at the
# wrong moment, a drain while somebody still reads.
. "$(dirname "$0")/../support/lib.sh"

CORNER=$BUILD/tests/support/corner
export WSD_PID

one() { # CASE WORDS
    check "$2" "$CORNER" "$1"
}

start_wsd --workers 1 --plugin-dir "$TEST_PLUGINS" || exit 1
one a_path_longer_than_a_packet "a plugin path that is too long once it is whole is refused"
one await_from_the_middle "a second reader from the middle of a job: both get the rest"
one output_that_was_thrown_away "a job that runs again gives all of its output to each reader"
one a_streamed_job_that_was_not_begun "a streamed job that was not begun outlives its executor"
one kept_results_that_are_being_read "kept results that are being read stay"
stop_wsd
start_wsd --workers 1 --plugin-dir "$TEST_PLUGINS" || exit 1
one drain_waits_for_a_slow_reader "a drain waits for who still reads his answer"
check "and wsd ends" wait_for_exit "$WSD_PID"
clean_log "$WSD_LOG"
