#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# many-plugins.sh: more plugins than a user may have in use: a look uses nothing, and what is not used gives way.
. "$(dirname "$0")/../support/lib.sh"

LIMIT=2048 # JOBS_PLUGINS
mkdir "$WORK/dir"
cp "$TEST_PLUGINS/echo.so" "$WORK/dir/p0.so"
for ((i = 1; i <= LIMIT + 50; i++)); do echo "$WORK/dir/p$i.so"; done | xargs -n 500 sh -c 'for f; do ln "$0" "$f"; done' "$WORK/dir/p0.so"

works() { # PLUGIN
  expect_output hello wsctl submit "$1:echo" hello
}
all_listed() { # nothing has an error
  wsctl --json plugin list >"$WORK/list" && [ "$(grep -c '"path":"'"$WORK/dir" "$WORK/list")" = $((LIMIT + 51)) ] &&
    ! grep -v '"error":""' "$WORK/list"
}
held() { # more than 256 at once, each with a job
  local i
  for ((i = 0; i < 300; i++)); do wsctl submit --detach --delay 1h "p$i:echo" $i >"$WORK/id" || return 1; done
}
one_after_the_other() { # each of its own number, as long as the last one is not forgotten
  local i
  for ((i = 400; i < 450; i++)); do works "p$i" || return 1; done
}

start_wsd --workers 1 --plugin-dir "$WORK/dir" || exit 1
check "one is used" works p1
check "all are listed" all_listed
check "and what was used still works" works p1
check "and what was not" works p$((LIMIT + 40))
check "all are listed again" all_listed
check "300 have jobs at the same time" held
check "others go on" one_after_the_other
check "a third look" all_listed
check "what has jobs stays" works p299
# the next executor loads what jobs use, and not what was looked at
kill_executor
check "after its executor was killed" works p1
check "the jobs are still there" test "$(wsctl --json list | wc -l)" = 300
wsctl cancel --all
stop_wsd
