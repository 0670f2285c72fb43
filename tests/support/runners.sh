# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# runners.sh: processes that are runners. Sourced behind lib.sh. RUNNER is the command that begins one, RUNNER_NAME what it offers;
# a script may set others. RUNNER_AS goes before the command.

RUNNER=(python3 "$SRC/tests/support/clients/runner.py") RUNNER_NAME=pyrunner RUNNER_AS=()
declare -A RUNNERS # NAME: its process
run_runner() {     # KEY OPTION...
  local key=$1
  shift
  : >"$WORK/runner.$key"
  WSD_SOCKET=${RUNNER_SOCKET:-$WSD_SOCKET} "${RUNNER_AS[@]}" "${RUNNER[@]}" "$@" >"$WORK/runner.$key" 2>&1 &
  RUNNERS[$key]=$!
  note_started $!
  wait_until is_settled "$key"
  grep -q ready "$WORK/runner.$key" || {
    cat "$WORK/runner.$key"
    return 1
  }
}
is_settled() { grep -q ready "$WORK/runner.$1" || gone "${RUNNERS[$1]}"; } # KEY
end_runner() {                                                             # KEY
  kill -9 "${RUNNERS[$1]}" 2>/dev/null
  wait "${RUNNERS[$1]}" 2>/dev/null
  unset "RUNNERS[$1]"
}
closed() { grep -q "^closed" "$WORK/runner.$1"; } # KEY: wsd has ended its connection
is_queued() { [ "$(wsctl list --state queued --json | grep -c "\"$RUNNER_NAME\"")" = "$1" ]; }
is_running() { [ "$(wsctl list --state running --json | grep -c "\"$RUNNER_NAME\"")" = "$1" ]; }
n_connected() { wsctl plugin show "$RUNNER_NAME" | grep -q "^runners: $1"; }
# What a job in the background came to.
submit_behind() { # FILE ARGUMENT...
  local file=$1
  shift
  rm -f "$WORK/$file.exit"
  (
    wsctl submit "$@" >"$WORK/$file.out" 2>"$WORK/$file.err"
    echo $? >"$WORK/$file.exit"
  ) &
}
has_ended() { # FILE CODE
  wait_until test -s "$WORK/$1.exit" || return 1
  [ "$(cat "$WORK/$1.exit")" = "$2" ] || {
    echo "exit $(cat "$WORK/$1.exit") where $2 was expected"
    cat "$WORK/$1.err"
    return 1
  }
}

run_as() { # UID KEY OPTION...: another user's, after users.sh; `as` would be a shell between, which end_runner ends alone
  RUNNER_AS=(setpriv --reuid="$1" --regid="$1" --groups="$GROUP_ID" --inh-caps=-all --
    env LD_LIBRARY_PATH="$WORK/inst" TMPDIR="$WORK/tmp")
  shift
  run_runner "$@"
}

# The runner in Python for other users, after install_for_all.
install_runner() {
  cp "$SRC"/tests/support/clients/{runner,protocol}.py "$WORK/inst/" && mkdir -p "$WORK/inst/proto" && cp "$SRC/proto/wsd.proto" "$WORK/inst/"
  sed -i "s#os.path.join(HERE, '../../../proto/wsd.proto')#os.path.join(HERE, 'wsd.proto')#" "$WORK/inst/protocol.py"
  RUNNER=(python3 "$WORK/inst/runner.py")
}
