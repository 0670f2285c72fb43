#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# access.sh: who may do what. A user who is in no rule reaches nothing of another's, by wsctl and by hand-written frames;
# rules of users and groups say otherwise; they are read again, and hold for the next request of an open connection.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/users.sh"

need_users

FRIENDS=2077 # a group of nobody but who is given it
install_for_all echo spin crash
cp "$BUILD/tests/support/clients/trespass" "$BUILD/tests/support/clients/direct" "$WORK/inst/"
TRESPASS=$WORK/inst/trespass

rules() { # LINES: the configuration
  printf '[daemon]\nsystem = yes\n%b' "$1" >"$WSD_CONFIG"
}
reload_rules() { # LINES
  rules "$1"
  reload_config
}
with_groups() { # GROUPS COMMAND...
  local GROUP_ID=$1
  shift
  "$@"
}
bob() {
  as $BOB "$CTL" "$@"
}
by_hand() { # REQUEST=CODE...: bob's frames about alice's job
  as $BOB "$TRESPASS" "$id" "$@"
}
still_runs() {
  "$WSCTL" --json status "$id" | grep -q '"running"'
}

rules ''
start_wsd --workers 2 || exit 1
chmod 755 "$(dirname "$WSD_SOCKET")"
chmod 666 "$WSD_SOCKET"
id=$(as $ALICE "$CTL" submit --detach spin:spin)
check "alice's job runs" wait_until still_runs

# --- a stranger ----------------------------------------------------------------------------------------------------------

stranger_by_wsctl() {
  refused 66 "no such job" bob status "$id" && refused 66 "no such job" bob cancel "$id" && refused 66 "no such job" bob await "$id" &&
    [ -z "$(bob --json list)" ] && [ -z "$(bob --json workers)" ]
}
traced_users() { # WANTED COMMAND...: whose jobs a trace of that user has
  local wanted=$1
  shift
  "$@" trace --start && as $ALICE "$CTL" submit echo x && bob submit echo y && "$@" trace --stop -q -o - >"$WORK/trace.json" &&
    expect_output "$wanted" sh -c "grep '\"cat\":\"job\"' '$WORK/trace.json' | grep -o '\"uid\":[0-9]*' | sort -u | tr '\n' ' '"
}
nothing_to_administer() {
  local key='\[access\] administer in wsd.conf'
  refused 77 "$key" bob pause && refused 77 "$key" bob resume && refused 77 "$key" bob drain && refused 77 "$key" bob pause spin &&
    refused 77 "$key" bob limit spin 1 && refused 77 "$key" bob workers set 3 && refused 77 "$key" bob limits max-run=1h &&
    refused 77 "$key" bob limits --user $BOB max-jobs-per-user=9 && refused 77 "$key" bob pause --tag t && refused 77 "$key" bob limit --tag t 1
}
check "a stranger sees, cancels and awaits nothing of alice's" stranger_by_wsctl
check "and administers nothing; each refusal names the key" nothing_to_administer
check "a trace has the own jobs only" traced_users "\"uid\":$BOB " bob
check "and those of all for an administrator" traced_users "$(printf '"uid":%s\n' $ALICE $BOB | sort | tr '\n' ' ')" "$WSCTL"
check "the same by hand-written frames" by_hand status=66 await=66 cancel=66 requeue=66 drop=66 list=66 dead=66 \
  pause=77 resume=77 drain=77 limit=77 pause-tag=77 limit-tag=77 set-limit=77 set-own-limit=77 set-workers=77 \
  list-all=66 cancel-all=66 after=66 after-any=66 array-after=66 submit=0 array=0 arena=0 input-file=0 limits=0 functions=0 stats=0 ping=0
check "the tag of an AWAIT that was refused cancels nothing" by_hand cancel-by-tag=0 ping=0
check "and the job runs on" still_runs

batch_of_alice() {
  local batch
  batch=$(as $ALICE "$CTL" map --detach spin:spin ::: 1 2) || return 1
  refused 66 "no such job or batch" bob status "$batch" && refused 66 "no such job or batch" bob cancel "$batch" &&
    refused 66 "no such job" bob await "$batch" && [ -z "$(bob --json list --batch "$batch")" ] &&
    [ "$(bob cancel --batch "$batch")" = "cancelled 0 jobs" ] &&
    as $BOB "$TRESPASS" "$batch" status=66 await=66 cancel=66 batch-status=66 batch-await=66 batch-cancel=66 list-batch=66 \
      cancel-of-batch=66 after=66 batch-open=0 ping=0 &&
    as $ALICE "$CTL" --json status "$batch" | grep -q '"done":0,' && as $ALICE "$CTL" cancel "$batch"
}
check "nor anything of a batch of hers, by frames neither" batch_of_alice

schedule_of_alice() { # names are each user's own
  as $ALICE "$CTL" schedule add nightly --on yearly spin:spin || return 1
  by_hand schedules=66 schedule-run=66 schedule-remove=66 schedule-add=0 schedules=0 && bob schedule remove bobs &&
    [ "$(as $ALICE "$CTL" --json schedule list | grep -c '"name":"nightly".*"runs":0,')" = 1 ] &&
    as $ALICE "$CTL" schedule remove nightly
}
check "nor of a schedule" schedule_of_alice

key_of_alice() { # the same key is another job for another user
  local keyed
  keyed=$(as $ALICE "$CTL" submit --detach --key report spin:spin) || return 1
  as 1003 "$TRESPASS" "$keyed" key=0 && as $ALICE "$TRESPASS" "$keyed" key=1 && as $ALICE "$CTL" cancel "$keyed"
}
check "nor by a key of hers" key_of_alice

# --- rights, each by itself ------------------------------------------------------------------------------------------------

reload_rules "[access]\nsee = $BOB\n"
check "see: bob sees all jobs" bob status "$id"
seer() {
  [ "$(bob --json list | grep -c "$id")" = 1 ] && by_hand status=0 cancel-by-tag=0 ping=0 cancel=66 pause=77
}
check "who may see may await, and not cancel: neither by id nor by the tag of his AWAIT" seer
seer_of_batch() {
  local batch
  batch=$(as $ALICE "$CTL" map --detach spin:spin ::: 1 2) || return 1
  as $BOB "$TRESPASS" "$batch" batch-status=0 list-batch=0 batch-cancel=66 cancel-of-batch=66 into-batch=64 ping=0 &&
    as $ALICE "$CTL" --json status "$batch" | grep -q '"done":0,' && as $ALICE "$CTL" cancel "$batch"
}
check "and so with a batch: nothing gets into it, or cancels it" seer_of_batch
check "and the job runs on" still_runs
reload_rules "[access]\nadminister = @$FRIENDS\n"
check "administer: not without the group" by_hand pause=77 status=66
sets_workers() { # it is the log's affair who it was
  as $BOB "$CTL" workers set 2 >/dev/null && wait_until grep -q "executors have 2 workers: set by user $BOB\$" "$WSD_LOG"
}
check "and the log says who has set the workers" with_groups $FRIENDS sets_workers
check "with it: pause and resume, others' jobs stay hidden" with_groups $FRIENDS by_hand pause=0 resume=0 status=66 cancel=66
check "a group of which bob's process was no more when it connected" with_groups 101 by_hand pause=77
check "his primary group counts, too" eval 'reload_rules "[access]\nadminister = @$BOB\n" && by_hand pause=0 resume=0'
reload_rules "[access]\ncancel = $BOB\n"
check "cancel: without seeing" by_hand status=66 cancel=0
check "alice's job is cancelled" expect_exit 130 as $ALICE "$CTL" await "$id"
logged_by_bob() { # WORDS: the log has them, of alice's job or batch, and who it was
  grep -q "$1 of user $ALICE: $2 by user $BOB\$" "$WSD_LOG" || {
    tail -n 5 "$WSD_LOG"
    return 1
  }
}
check "and the log says by whom" logged_by_bob "job $id" cancelled
others_actions() { # each of them, by one who is not root
  local batch dead
  batch=$(as $ALICE "$CTL" map --detach spin:spin ::: 1 2) && bob cancel "$batch" && logged_by_bob "batch $batch" cancelled || return 1
  reload_rules "[access]\ncancel = $BOB\nsee = $BOB\n"
  id=$(as $ALICE "$CTL" submit --detach spin:spin) && by_hand cancel-followed=130 ping=0 && expect_exit 130 as $ALICE "$CTL" await "$id" &&
    logged_by_bob "job $id" cancelled || return 1
  dead=$(as $ALICE "$CTL" submit --detach --durable --retries 1 --retry-delay 1ms echo:status 3)
  expect_exit 3 as $ALICE "$CTL" await "$dead" 2>/dev/null && wait_until bob dead requeue "$dead" && logged_by_bob "job $dead" "queued again" || return 1
  expect_exit 3 as $ALICE "$CTL" await "$dead" 2>/dev/null && wait_until bob dead drop "$dead" && logged_by_bob "job $dead" dropped
}
check "so it does of batches, followed jobs and dead ones" others_actions

# --- watch: what others do, and nothing that they wrote ----------------------------------------------------------------------

CAROL=1003
carol() {
  as $CAROL "$CTL" "$@"
}
carol_by_hand() { # REQUEST=CODE...: about alice's job
  as $CAROL "$TRESPASS" "$id" "$@"
}
of_job() { # ID: carol's line of it, by list
  carol --json list | grep "\"id\":\"$1\""
}
no_secret() { # COMMAND...: carol's output, in which alice wrote nothing, nor her job
  local said
  said=$("$@") && [ -n "$said" ] || return 1
  ! grep -E 'secret|backtrace|asked for|"batch"|Segmentation' <<<"$said"
}
watched_job() { # ID REGEX: carol sees it by list and by status, without texts, and it looks like that
  no_secret of_job "$1" && no_secret carol --json status "$1" && no_secret carol status "$1" && of_job "$1" | grep -E "$2" && carol --json status "$1" | grep -E "$2"
}
executors() { # COMMAND...: the numbers of those that it shows
  "$@" --json workers | sed 's/.*"executor":\([0-9]*\).*/\1/' | sort -u
}
reload_rules "[access]\nwatch = $CAROL\n"
# one after the other, since the crash takes along what else runs
fails=$(as $ALICE "$CTL" submit --detach --durable --retries 1 --retry-delay 1ms echo:status 3 'secret failure')
as $ALICE "$CTL" await "$fails" >"$WORK/fails" 2>&1
crashes=$(as $ALICE "$CTL" submit --detach crash:segv secret)
as $ALICE "$CTL" await "$crashes" >"$WORK/crashes" 2>&1
check "watch: a job that failed is seen, with its exit code" watched_job "$fails" '"state":"failed","exit":3,'
check "one that crashed, without its backtrace" watched_job "$crashes" '"state":"crashed"'
hers() { # and what is not there for carol is there
  as $ALICE "$CTL" --json status "$1" | grep -E "$2"
}
id=$(as $ALICE "$CTL" submit --detach --key secret-key --tag secret-tag spin:spin secret)
check "a job that runs" wait_until still_runs
check "is seen with what it does" watched_job "$id" '"plugin":"spin","function":"spin","state":"running".*"uid":'$ALICE
check "alice has the texts" eval 'hers "$id" "\"key\":\"secret-key\".*secret-tag" && hers "$fails" "secret failure.*asked for 3" && hers "$crashes" "Segmentation fault.*backtrace"'
check "dead jobs, likewise" wait_until eval 'no_secret carol --json dead list && carol --json dead list | grep "$fails"'
watched_batch() {
  local batch member
  batch=$(as $ALICE "$CTL" map --detach spin:spin ::: secret) && member=$(as $ALICE "$CTL" --json list --batch "$batch" | sed 's/.*"id":"\([^"]*\)".*/\1/') &&
    watched_job "$member" '"plugin":"spin"' &&
    as $CAROL "$TRESPASS" "$batch" batch-status=66 batch-await=66 batch-cancel=66 after=66 ping=0 && as $ALICE "$CTL" cancel "$batch"
}
check "no batches" watched_batch
watched_schedule() {
  as $ALICE "$CTL" schedule add secret-name --on yearly spin:spin secret && no_secret carol --json schedule list && no_secret carol schedule list &&
    [ "$(carol --json schedule list | grep -c "\"plugin\":\"spin\",\"function\":\"spin\",\"uid\":$ALICE,")" = 1 ] &&
    as $ALICE "$CTL" --json schedule list | grep '"name":"secret-name"' && as $ALICE "$CTL" schedule remove secret-name
}
check "schedules, without their names" watched_schedule
check "all executors" eval '[ "$(executors carol)" = "$(executors "$WSCTL")" ]'
watcher_by_hand() {
  carol_by_hand status=0 list=0 dead=0 await=66 cancel=66 requeue=66 drop=66 cancel-all=66 after=66 after-any=66 pause=77 drain=77 limit=77 set-workers=77 set-limit=77
}
check "a watcher awaits, cancels and administers nothing" watcher_by_hand
own_of_watcher() {
  local own
  own=$(carol submit --detach --key secret-key --tag mine spin:spin) && of_job "$own" | grep '"key":"secret-key".*"mine"' && carol cancel "$own"
}
check "of her own jobs she sees all" own_of_watcher
only_watches() { # no right to submit
  reload_rules "[access]\nsubmit = $ALICE\nwatch = $CAROL\n" && refused 77 '\[access\] submit in wsd.conf' carol submit echo x && watched_job "$id" '"state":"running"'
}
check "who may only watch is let in" only_watches
check "see besides: she reads all" eval 'reload_rules "[access]\nwatch = $CAROL\nsee = $CAROL\n" && of_job "$id" | grep secret-key'
check "the right is gone: so are the jobs" eval 'reload_rules "" && refused 66 "no such job" carol status "$id" && [ -z "$(of_job "$id")" ] && carol_by_hand status=66 dead=66 && [ "$(executors carol)" != "$(executors "$WSCTL")" ]'
check "alice cancels hers" as $ALICE "$CTL" cancel "$id"

# --- submit ---------------------------------------------------------------------------------------------------------------

reload_rules "[access]\nsubmit = $ALICE @$FRIENDS\n"
check "submit: who is in no rule is told at once, with the key" refused 77 '\[access\] submit in wsd.conf' bob submit echo x
check "by frames, too" by_hand ping=77
check "with the group he may" with_groups $FRIENDS bob submit echo x
check "alice may" as $ALICE "$CTL" submit echo x
check "root always" "$WSCTL" submit echo x

# an open connection, under rules that change
mkfifo "$WORK/go"
open_connection() {  # REQUEST... stop REQUEST...: runs until it has stopped
  rm -f "$WORK/said" # else it may still say of the last one that it has stopped
  as $BOB "$TRESPASS" "$id" "$@" <"$WORK/go" >"$WORK/said" 2>&1 &
  open=$!
  note_started "$open"
  exec 7>"$WORK/go"
  wait_until grep -q stopped "$WORK/said"
}
goes_on() {
  echo >&7
  exec 7>&-
  wait "$open" || {
    cat "$WORK/said"
    return 1
  }
}
reload_rules "[access]\nsubmit = $BOB\n"
taken_away() {
  open_connection submit=0 plugins=0 lane=0 array=0 arena=0 stop submit=77 plugins=77 reload=77 release=77 lane=77 array=77 \
    batch-open=77 arena=77 input-file=77 key=77 schedule-add=77 schedule-run=77 schedules=77 list=66 list-all=66 ping=0 &&
    reload_rules "[access]\nsubmit = $ALICE\nsee =\n" && goes_on
}
check "a right that is taken away is gone with the next request of an open connection" taken_away
reload_rules "[access]\nsubmit = $BOB\n"
given() {
  open_connection pause=77 stop pause=0 resume=0 && reload_rules "[access]\nsubmit = $BOB\nadminister = $BOB\n" && goes_on
}
check "one that is given is there" given
kept() {
  local before
  before=$(grep -c 'stays as it was' "$WSD_LOG")
  rules '[access]\nsubmit = nobody-has-this-name\n'
  kill -HUP "$WSD_PID"
  wait_until eval '[ "$(grep -c "stays as it was" "$WSD_LOG")" -gt '"$before"' ]' && bob submit echo x
}
check "rules that are wrong change nothing" kept

# --- plugins ----------------------------------------------------------------------------------------------------------------

reload_rules "[plugin echo]\nusers = $ALICE\n"
check "a plugin for alice alone: bob is refused with the key" refused 77 '\[plugin echo\] users in wsd.conf' bob submit echo x
check "by frames, too" by_hand submit=77 array=77 input-file=77 after=66 plugins=0
check "others he may use" expect_output 5 bob submit fib 5
check "alice may" as $ALICE "$CTL" submit echo x
check "detached, and gone before the answer" eval 'bob submit --detach echo x; [ $? = 77 ]'
reload_rules "[plugin echo]\nusers =\n"
check "for nobody: root may" "$WSCTL" submit echo x
check "nor by an array" refused 77 '\[plugin echo\] users' as $ALICE "$CTL" map echo ::: x
check "and alice may not" refused 77 '\[plugin echo\] users' as $ALICE "$CTL" submit echo x

# a schedule has nobody who is asked, when it is due: of a plugin that is for some it runs by the configuration, or as root's
reload_rules "[plugin echo]\nusers = $ALICE\n"
of_some() { # COMMAND...: adds a schedule, and runs it
  "$@" schedule add some --on yearly echo:echo x
}
refused_when_due() { # COMMAND...
  of_some "$@" && refused 77 '\[plugin echo\] users' "$@" schedule run some && "$@" --json schedule list | grep -q '"runs":0.*"last":"refused","exit":77' &&
    "$@" schedule remove some
}
check "a schedule of it does not run as bob" refused_when_due bob
check "nor as alice, who may" refused_when_due as $ALICE "$CTL"
roots() {
  of_some "$WSCTL" && expect_output x "$WSCTL" await "$("$WSCTL" schedule run some)" && "$WSCTL" schedule remove some
}
check "root's does" roots
configured() {
  reload_rules "[plugin echo]\nusers = $ALICE\n[schedule some]\non = yearly\njob = echo:echo x\nuser = $BOB\n" &&
    expect_output x bob await "$(bob schedule run some)"
}
check "and one of the configuration, as whoever it says" configured

# --- files that change under the check ---------------------------------------------------------------------------------------

# A file that others could have written, in each of its shapes, must never run, whenever it was put there: what is checked is
# the open descriptor.
swapped=$WORK/inst/plugins/file.so
make_files() {
  mkdir "$WORK/files" "$WORK/files/bob" && cp "$TEST_PLUGINS/hostile/file-one.so" "$WORK/files/good" &&
    cp "$TEST_PLUGINS/hostile/file-bad.so" "$WORK/files/bob/his" && cp "$TEST_PLUGINS/hostile/file-bad.so" "$WORK/files/open" &&
    chown $BOB:$BOB "$WORK/files/bob/his" && chmod 644 "$WORK/files/good" "$WORK/files/bob/his" && chmod 666 "$WORK/files/open" &&
    cp "$WORK/files/good" "$swapped"
}
neither() { # what each file by itself is: a refusal
  local bad
  for bad in "$WORK/files/bob/his" "$WORK/files/open"; do
    ln -sf "$bad" "$swapped" && refused 77 'could have written the file' as $ALICE "$CTL" plugin reload file || return 1
    ln -f "$bad" "$swapped" && refused 77 'could have written the file' as $ALICE "$CTL" plugin reload file || return 1
  done
}
under_races() {
  local n status refused=0 ran=0
  for ((n = 0; n < ${WSD_THOROUGH:+10}60; n++)); do
    as $ALICE "$CTL" plugin reload file >>"$WORK/reloads" 2>&1
    status=0
    as $ALICE "$CTL" submit file >"$WORK/out" 2>"$WORK/err" || status=$?
    case "$status $(cat "$WORK/out")" in
      '0 one') ran=$((ran + 1)) ;;
      77\  | 66\ ) refused=$((refused + 1)) ;;
      *)
        echo "exit $status"
        cat "$WORK/out" "$WORK/err"
        return 1
        ;;
    esac
  done
  gone "$swapping" && {
    echo "nobody swaps any more"
    return 1
  }
  echo "$ran ran, $refused refused, $(grep -c 'could' "$WORK/reloads") reloads refused"
  [ "$(grep -c 'could' "$WORK/reloads")" -gt 0 ] && [ "$ran" -gt 0 ]
}
check "a plugin file that others could have written is refused, by whatever link" eval 'make_files && neither'
background "$BUILD/tests/support/swap" "$swapped" "$WORK/files/good" "$WORK/files/bob/his" "$WORK/files/open"
swapping=$BACKGROUND_PID
check "swapped, linked and opened all the time: only the good one ever runs" under_races
kill -TERM "$swapping"
there_again() {
  wait_for_exit "$swapping" && as $ALICE "$CTL" plugin reload file && expect_output one as $ALICE "$CTL" submit file
}
check "and it is there when that is over" there_again

# In the same way: a directory of bob's, with a file of root's in it, over that of the plugins, and a file of bob's over the plugin.
mounts() {
  trap 'over=yes' TERM
  while [ -z "${over:-}" ] && mount --bind "$WORK/files/bob" "${swapped%/*}" && umount -l "${swapped%/*}" &&
    mount --bind "$WORK/files/bob/his" "$swapped" && umount -l "$swapped"; do
    :
  done
}
over_the_place() {
  cp "$WORK/files/bob/his" "$WORK/files/bob/file.so" && chmod 644 "$WORK/files/bob/file.so" && chown $BOB:$BOB "$WORK/files/bob" &&
    mount --bind "$WORK/files/bob" "${swapped%/*}" && says 77 'could write to' as $ALICE "$CTL" plugin reload file && umount -l "${swapped%/*}" &&
    mount --bind "$WORK/files/bob/his" "$swapped" && says 77 'could have written the file' as $ALICE "$CTL" plugin reload file && umount -l "$swapped"
}
if mount --bind "$WORK/files" "$WORK/files" 2>/dev/null && umount "$WORK/files"; then
  check "a mount over the plugins, or over one of them, that is another user's" over_the_place
  on_exit eval "umount -l '$swapped' '${swapped%/*}' 2>/dev/null"
  background mounts
  swapping=$BACKGROUND_PID
  : >"$WORK/reloads"
  check "mounted over all the time: only the good one ever runs" under_races
  kill -TERM "$swapping"
  check "and it is there when nothing is mounted" there_again
  umount -l "$swapped" "${swapped%/*}" 2>/dev/null
else
  skip "a mount over the plugins" "nothing can be mounted here"
fi
stop_wsd

# --- the words --------------------------------------------------------------------------------------------------------------

wrong() { # LINES WORDS
  rules "$1"
  expect_exit 64 wsd --config "$WSD_CONFIG" --check-config 2>"$WORK/err"
  cat "$WORK/err"
  grep -qF -e "$WSD_CONFIG:$2" "$WORK/err"
}
check "--check-config names a user that is not there" wrong '[access]\nsee = root nobody-has-this-name\n' \
  '4: see: nobody-has-this-name: there is no such user'
check "and a group" wrong '[access]\nsubmit = @no-such-group\n' '4: submit: @no-such-group: there is no such group'
check "and those of a plugin" wrong '[plugin x]\nusers = @no-such-group\n' '4: users: @no-such-group: there is no such group'
