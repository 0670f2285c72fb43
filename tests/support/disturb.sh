# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# disturb.sh: what befalls a wsd while programs call it: it and its executors die, stand still and come again, at random
# moments. Sourced after lib.sh; `serve`, or what the array COME_BACK has, starts the next wsd on the same socket.

COME_BACK=(serve)
n_disturbed=0

pause() { # FROM TO: milliseconds
  local msec=$(($1 + RANDOM % ($2 - $1 + 1)))
  sleep "$((msec / 1000)).$(printf %03d $((msec % 1000)))"
}

executors() { # also those of wsd-spawn
  pgrep -f wsd-executor -P "$WSD_PID,$(pgrep -d , -P "$WSD_PID")"
}

disturb() { # once, and waits until wsd is there again
  local pids
  n_disturbed=$((n_disturbed + 1))
  case $((RANDOM % 6)) in
    0)
      kill_wsd
      pause 0 100
      "${COME_BACK[@]}"
      ;;
    1)
      kill -TERM "$WSD_PID"
      wait_for_exit "$WSD_PID" && "${COME_BACK[@]}"
      ;;
    2)
      kill -STOP "$WSD_PID"
      pause 10 300
      kill -KILL "$WSD_PID"
      wait "$WSD_PID" 2>/dev/null
      "${COME_BACK[@]}"
      ;;
    3)
      kill -STOP "$WSD_PID"
      pause 10 300
      kill -CONT "$WSD_PID"
      ;;
    4)
      mapfile -t pids < <(executors)
      kill -STOP "${pids[@]}" 2>/dev/null
      pause 10 300
      kill -CONT "${pids[@]}" 2>/dev/null
      :
      ;;
    *)
      mapfile -t pids < <(executors)
      kill -KILL "${pids[@]}" 2>/dev/null
      :
      ;;
  esac
}

disturb_while() { # PID...: until the last of them has ended
  local pid
  for pid in "$@"; do
    while ! gone "$pid"; do
      pause 10 250
      disturb || return 1
    done
  done
}
