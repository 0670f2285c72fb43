#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# many-plugins.sh: more plugins than a user may have in use: a look uses nothing, and what is not used gives way; and
# the list of their names.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/inject.sh"

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
# wsd is silent for 34 s, but never for the 30 s after which a client gives up.
larger() { [ "$(wc -c <"$WORK/slow")" -gt "$size" ]; }
listed_slowly() {
  local size
  : >"$WORK/slow"
  background sh -c 'exec wsctl --json plugin list >"$WORK/slow"'
  for _ in 1 2; do
    size=$(wc -c <"$WORK/slow")
    wait_until larger && kill -STOP "$WSD_PID" || return 1
    gone "$BACKGROUND_PID" && echo "it ended too early"
    sleep 17
    kill -CONT "$WSD_PID"
  done
  wait "$BACKGROUND_PID"
}
[ -z "${WSD_THOROUGH:-}" ] || check "wsd may take long, as long as plugins come" listed_slowly
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

# --- the list of their names ---

listed() { # N: so many
  [ "$(wsctl --json plugin list | grep -c .)" = "$1" ]
}
# What is there when the list is asked for is in it, and what is not, is not: each time the list has just been read before.
as_it_is() {
  local i n
  n=$(wsctl --json plugin list | grep -c .)
  for ((i = 0; i < 20; i++)); do
    listed "$n" || return 1
    cp "$TEST_PLUGINS/echo.so" "$WORK/few/.new" && mv "$WORK/few/.new" "$WORK/few/new.so" && listed $((n + 1)) || return 1
    rm "$WORK/few/new.so"
  done
}
# However often it is asked for, the directories are read once, and once more for each second that it takes.
seldom_read() {
  local n=0 from=$SECONDS
  strace -f -e trace=getdents64,stat,newfstatat -o "$WORK/calls" -p "$WSD_PID" 2>"$WORK/strace" &
  wait_until grep -q attached "$WORK/strace" || return 1
  while ((n++ < 50)); do wsctl plugin list >"$WORK/list" || return 1; done
  from=$((SECONDS - from))
  kill %% && wait %%
  n=$(grep -c "$WORK/few\|getdents64" "$WORK/calls")
  echo "$n looks in $from s"
  [ "$n" -le $((4 * (from + 2))) ]
}
mkdir "$WORK/few"
cp "$TEST_PLUGINS/echo.so" "$WORK/few/"
start_wsd --workers 1 --plugin-dir "$WORK/few" || exit 1
check "a plugin is listed as soon as it is there, and no longer" as_it_is
if can_inject; then
  check "the plugin directories are not read for each request" seldom_read
else
  skip "the plugin directories are not read for each request" "needs root and strace, and no sanitizer"
fi
stop_wsd
