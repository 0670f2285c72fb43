# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# inside.sh: what the scripts that run in a box share. Sourced after lib.sh.

as() { # USER COMMAND...: with that user's groups
  local user=$1
  shift
  runuser -u "$user" -- env HOME="/home/$user" "$@"
}

main_pid() { # [UNIT]
  systemctl show --value -p MainPID "${1:-wsd.service}"
}

spawner() { # the main pid of wsd-spawn
  main_pid wsd-spawn.service
}
