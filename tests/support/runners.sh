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

# A storm: $JOBS jobs go over four runners, and $KILLS times one of them is killed and begun anew, in the middle of jobs. Each
# fifth time it is stopped for a while instead, so that each of the four has both. Before each, a part of the jobs is submitted,
# and about a random number of these has ended. The runners have the options of the array STORMY.
#
# LEDGER gets a line of each job that a runner begins. FUNCTION gives its last argument, a number, back as a line, and takes a
# while: as long as the file LEDGER.hold is there with a smaller number. While it waits for that, LEDGER.held has `PID NUMBER`.
storm() { # once|again LEDGER FUNCTION ARGUMENT...
  local how=$1 ledger=$2 part=$((JOBS / KILLS)) before ended i pid key items
  shift 2
  rm -f "$ledger"{,.hold,.held} "$WORK/items"
  mkfifo "$WORK/items"
  for key in w0 w1 w2 w3; do run_runner $key "${STORMY[@]}" || return 1; done
  before=$(n_ended)
  wsctl --json map --keep-going "$@" <"$WORK/items" >"$WORK/storm.out" 2>"$WORK/storm.err" &
  pid=$!
  note_started $pid
  background sleep infinity >"$WORK/items" # or the first part would be all
  items=$BACKGROUND_PID
  for ((i = 0; i < KILLS; i++)); do
    key=w$((i % 4))
    ended=$((i * part + RANDOM % (part / 2)))
    [ $((i % 5)) = 4 ] || echo "$ended" >"$ledger.hold"
    seq $((i * part + 1)) $(((i + 1) * part)) >"$WORK/items"
    if [ $((i % 5)) = 4 ]; then
      wait_until have_ended $((before + ended)) && stop_process "${RUNNERS[$key]}" && wait_until have_ended $((before + i * part + part * 3 / 4)) || return 1
      kill -CONT "${RUNNERS[$key]}"
    else
      wait_until holds "$ledger.held" "${RUNNERS[$key]}" "$ended" || return 1
      end_runner $key
      rm "$ledger.hold"
      run_runner $key "${STORMY[@]}" || return 1
    fi
  done
  kill "$items"
  wait "$items" "$pid"
  for key in w0 w1 w2 w3; do end_runner $key; done
  storm_judged "$how" $((KILLS * part)) "$ledger" <"$WORK/storm.out"
}
holds() { # FILE PID NUMBER: that process is in the middle of a job behind that one
  awk -v pid="$2" -v number="$3" '$1 == pid && $2 > number { found = 1 } END { exit !found }' "$1"
}
n_ended() {
  wsctl --json stats | sed -E 's/.*"jobs_succeeded":([0-9]+).*"jobs_interrupted":([0-9]+).*/\1 + \2/' | xargs expr
}
have_ended() { # N
  [ "$(n_ended)" -ge "$1" ]
}
# Each job has one answer, and the right one. once: no job was begun twice; one whose runner died is interrupted. again: such a
# job has run again, up to three times.
storm_judged() { # once|again JOBS LEDGER
  python3 -c '
import base64, collections, json, sys
how, n, ledger = sys.argv[1], int(sys.argv[2]), sys.argv[3]
answers = [json.loads(line) for line in sys.stdin]
asked = [str(i) for i in range(1, n + 1)]
assert sorted(a["item"] for a in answers) == sorted(asked), "lost or doubled answers"
with open(ledger) as f:
    begun = collections.Counter(line.split()[-1] for line in f)
bad = [a for a in answers if a["state"] != "succeeded"]
for a in answers:
    if a["state"] == "succeeded":
        assert base64.b64decode(a["output"]).decode() == a["item"] + "\n" and begun[a["item"]], a
for a in bad:
    assert a["state"] == "interrupted" and a["attempts"] == (1 if how == "once" else 3), a
twice = sum(1 for count in begun.values() if count > 1)
print(n, "jobs,", len(bad), "interrupted,", twice, "begun again")
assert twice == 0 and bad if how == "once" else twice > 0, twice
' "$@"
}
