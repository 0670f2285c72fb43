#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# plugins-through-wsd.sh: the scripts of plugins/ again, this time through `wsctl submit` and a daemon. Plugins go by
# name, so that looking them up is part of it. As root the daemon serves all users, so that what `nobody` may not read
# is part of it, too: his files reach the executor as descriptors.
#   plugins-through-wsd.sh           all but those of plugins-through-wsd-2.sh and -3.sh, which run beside it
#   plugins-through-wsd.sh NAME...   these
. "$(dirname "$0")/../support/lib.sh"

# What the scripts take for run-plugin. Behind `--` no option is wsctl's own.
cat >"$WORK/bin/through-wsd" <<'END'
#!/bin/bash
options=()
while [[ $1 == -* ]]; do
  options+=("$1" "$2")
  shift 2
done
name=$1
shift
exec wsctl submit "${options[@]}" -- "$name" "$@"
END
chmod +x "$WORK/bin/through-wsd"

# wc's columns are as wide as stat() of a file that it may not read tells; a plugin gets no name of another user's file.
columns='s/^FAIL count (a file that may not be read)$/skip count \1: the width of the columns, by a descriptor/'

# What a pattern finds, how lines are sorted and how tables are joined, the scripts themselves show with all of them; here are fewer on the way
# through wsd, and all with --thorough.
[ -n "${WSD_THOROUGH:-}" ] || export RANDOM_PATTERNS=$((40 / TIME_SCALE + 1)) RANDOM_LINES=$((16 / TIME_SCALE + 1)) RANDOM_TABLES=4

one() { # SCRIPT
  local status=0 name=${1##*/} n
  # for that script alone: by name, not by path
  env -u PLUGINS RUN=through-wsd "$1" >"$WORK/said" 2>&1 || status=$?
  n=$(grep -c '^FAIL ' "$WORK/said")
  sed -E "s/^(ok|FAIL|skip) /\1 ${name%.sh} /; $columns" "$WORK/said" | tee "$WORK/told"
  n_failed=$((n_failed + $(grep -c '^FAIL ' "$WORK/told")))
  if [ "$status" != 0 ] && [ "$n" = 0 ]; then
    fail "$name" "exit status $status"
  fi
}

printf '[plugin exec]\nenabled = yes\n' >"$WSD_CONFIG"
start_wsd --workers 2 || exit
# calls its plugin by a path, which is for a user's own wsd
[ $# -gt 0 ] || one "$SRC/tests/integration/plugins/guide.sh"
if [ "$(id -u)" = 0 ]; then
  stop_wsd
  printf '[daemon]\nsystem = yes\nsocket-group = %s\n' "$(id -gn nobody)" >>"$WSD_CONFIG"
  chmod 755 "$WORK"
  chmod 1777 "$TMPDIR"
  start_wsd --workers 2 || exit
fi
for script in "$SRC"/tests/integration/plugins/*.sh; do
  case $script in
    */guide.sh) ;;
    */search.sh | */text.sh | */image.sh | */archive.sh) [[ " $* " != *" $(basename "$script" .sh) "* ]] || one "$script" ;;
    *) [ $# -gt 0 ] || [ ! -x "$script" ] || one "$script" ;;
  esac
done
stop_wsd
