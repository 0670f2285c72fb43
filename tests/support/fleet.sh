# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
#
# fleet.sh: NATS servers, and nodes: a wsd each, with its wsd-fleet. Sourced behind lib.sh. Exits the script, with a skip,
# where there is no nats-server, or wsd-fleet was not built.

FLEET=$BUILD/daemon/fleet/wsd-fleet
NATS_SERVER=$(command -v nats-server || echo /usr/sbin/nats-server)
if [ ! -x "$NATS_SERVER" ] || [ ! -x "$FLEET" ]; then
  skip "a fleet" "$([ -x "$FLEET" ] && echo "nats-server is not installed" || echo "wsd-fleet was not built: libnats or jansson is not there")"
  exit
fi
declare -A NATS_PIDS NATS_PORTS NODE_WSD NODE_FLEET
FLEET_PREFIX=()

# --- servers

# With its store, which it finds again.
start_nats() { # NAME [OPTION...]
  local name=$1
  shift
  : "${NATS_PORTS[$name]:=$(free_port)}"
  "$NATS_SERVER" -a 127.0.0.1 -p "${NATS_PORTS[$name]}" -js -sd "$WORK/nats-$name" -n "$name" "$@" >>"$WORK/nats-$name.log" 2>&1 &
  NATS_PIDS[$name]=$!
  note_started $!
  NATS_URL=nats://127.0.0.1:${NATS_PORTS[$name]}
  wait_until is_ready "$name"
}
is_ready() { [[ $(timeout 5 "$FLEET" -n "nats://127.0.0.1:${NATS_PORTS[$1]}" --status 2>&1) != *"start nats-server"* ]]; } # NAME
kill_nats() {
  kill -9 "${NATS_PIDS[$1]}"
  wait "${NATS_PIDS[$1]}" 2>/dev/null
  :
}

# So many lines of one text.
times() { # N TEXT
  for ((n = 0; n < $1; n++)); do echo "$2"; done
}

# --- nodes

on() { # NAME COMMAND...: with that node's wsd
  local WSD_SOCKET=$WORK/node-$1/wsd.sock
  export WSD_SOCKET
  shift
  "$@"
}
start_node_wsd() { # NAME
  local dir=$WORK/node-$1
  mkdir -p "$dir"
  export WSD_SOCKET=$dir/wsd.sock
  WSD_LOG=$dir/log
  run_wsd --state-dir "$dir/store" --plugin-dir "$TEST_PLUGINS" --workers 2 || return 1
  NODE_WSD[$1]=$WSD_PID
}
start_node_fleet() { # NAME [OPTION...]
  local name=$1 dir=$WORK/node-$1
  shift
  : >"$dir/fleet.log"
  run_node_fleet "$name" -n "$NATS_URL" -N "$name" -c /dev/null "$@"
}
start_node_fleet_by_file() { # NAME: told by $WORK/node-NAME/wsd.conf and nothing else
  : >"$WORK/node-$1/fleet.log"
  run_node_fleet "$1" -c "$WORK/node-$1/wsd.conf"
}
run_node_fleet() { # NAME OPTION...: behind what is in the array FLEET_PREFIX
  local name=$1 dir=$WORK/node-$1
  shift
  "${FLEET_PREFIX[@]}" "$FLEET" -s "$dir/wsd.sock" "$@" >>"$dir/fleet.log" 2>&1 &
  NODE_FLEET[$name]=$!
  note_started $!
  wait_until fleet_is_up "$name"
}
fleet_is_up() { grep -q 'connected to NATS' "$WORK/node-$1/fleet.log" || gone "${NODE_FLEET[$1]}"; }
start_node() { # NAME [OPTION of wsd-fleet...]
  start_node_wsd "$1" && start_node_fleet "$@"
}
kill_process() { # PID
  kill -9 "$1"
  wait "$1" 2>/dev/null
  :
}
# A counter of wsd-fleet: it writes all into its log when it is asked.
fleet_counter() { # NAME out|in|servers COUNTER
  local log=$WORK/node-$1/fleet.log before
  before=$(grep -c ' out: held' "$log")
  kill -USR1 "${NODE_FLEET[$1]}" && wait_until more_lines "$log" "$before" || return 1
  grep ' out: held' "$log" | tail -1 | sed "s/.* $2: //; s/;.*//" | sed -n "s/.*\b$3 \([0-9]*\).*/\1/p"
}
more_lines() { [ "$(grep -c ' out: held' "$1")" -gt "$2" ]; }
# At the end of a script: all leave in order, and none has said that it is broken.
end_fleet() {
  local name status
  for name in "${!NODE_FLEET[@]}"; do
    gone "${NODE_FLEET[$name]}" || kill "${NODE_FLEET[$name]}"
    wait_for_exit "${NODE_FLEET[$name]}"
    status=$?
    [ "$status" = 0 ] || [ "$status" = 137 ] || {
      echo "wsd-fleet of $name: exit status $status"
      cat "$WORK/node-$name/fleet.log"
      return 1
    }
    clean_log "$WORK/node-$name/fleet.log" || return 1
  done
}
