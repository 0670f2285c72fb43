#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# fresh.sh: the suite `fresh`. Makes a Debian 12 root with nothing but git, bash and apt, clones the repository into it,
# and runs the README's two commands there as root: packaging/quickstart and tests/run. Both must exit 0.
# The bare root is kept under /var/tmp/wsd-fresh; what runs works on a copy, in namespaces of its own that end with
# this script and take every mount with them. Needs root.
#   fresh.sh [COMMAND]     runs only that command in a fresh root (for a person who looks into something)
if [ "${1:-}" != --inside ]; then
  # shellcheck source=../lib.sh
  . "$(dirname "$0")/../lib.sh"
fi
set -u -o pipefail

packages=git
cache=${WSD_FRESH_CACHE:-/var/tmp/wsd-fresh}

# --- in the namespaces ---------------------------------------------------------------------------------------------------

inside() { # ROOT LOG COMMAND: mounts what a machine has, runs, copies out nothing but the log
  local root=$1 log=$2 command=$3
  mount -t proc proc "$root/proc" || exit 125
  mount -t sysfs -o ro sysfs "$root/sys" 2>/dev/null
  mount -t tmpfs -o mode=755 tmpfs "$root/dev" || exit 125
  mkdir "$root/dev/pts" "$root/dev/shm"
  local node
  for node in null zero full random urandom tty; do
    : >"$root/dev/$node"
    mount --bind "/dev/$node" "$root/dev/$node" || exit 125
  done
  ln -s /proc/self/fd "$root/dev/fd"
  ln -s /proc/self/fd/0 "$root/dev/stdin"
  ln -s /proc/self/fd/1 "$root/dev/stdout"
  ln -s /proc/self/fd/2 "$root/dev/stderr"
  mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts" && ln -s pts/ptmx "$root/dev/ptmx"
  mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm" || exit 125
  mount -t tmpfs -o mode=755 tmpfs "$root/run" || exit 125
  # nothing of this machine's environment, and no terminal
  exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root WSD_TESTS_FRESH=1 \
    chroot "$root" /bin/bash -c "$command" >"$log" 2>&1 </dev/null
}
if [ "${1:-}" = --inside ]; then
  shift
  inside "$@"
fi

# --- the bare root -----------------------------------------------------------------------------------------------------------

if [ "$(id -u)" != 0 ]; then
  skip fresh "needs root"
  exit
fi
if ! "$SRC/packaging/install-deps" fresh >"$WORK/deps" 2>&1; then
  skip fresh "packages are missing: $(tail -n 1 "$WORK/deps")"
  exit
fi
if ! unshare --mount --pid --fork true 2>/dev/null; then
  skip fresh "no namespaces of its own here"
  exit
fi
if ! git -C "$SRC" rev-parse >/dev/null 2>&1; then
  skip fresh "this is no clone"
  exit
fi

# This machine's own Debian sources: wherever it gets its packages from, the fresh root does.
uri() { # ORIGIN'S LABEL
  # shellcheck disable=SC2016 # apt's own names
  apt-get indextargets --format '$(REPO_URI) $(LABEL) $(SUITE) $(CODENAME)' 'Created-By: Packages' 'Origin: Debian' |
    awk -v label="$1" '$2 == label { print $1; exit }'
}
make_root() {
  local to=$1 main security keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  main=$(uri Debian)
  if [ -z "$main" ]; then
    apt-get -qq update
    main=$(uri Debian)
  fi
  security=$(uri Debian-Security)
  [ -n "$main" ] || {
    echo "apt knows no Debian source here"
    return 1
  }
  local sources=("deb [signed-by=$keyring] $main bookworm main")
  [ -z "$security" ] || sources+=("deb [signed-by=$keyring] $security bookworm-security main")
  # the lists are left out on purpose: the first install has to fetch them
  mmdebstrap -q --variant=apt --mode=root --include="$packages" --aptopt='Acquire::Languages "none"' \
    --aptopt='Acquire::Check-Valid-Until "false"' bookworm "$to" "${sources[@]}"
}
base=$cache/bookworm-$(printf '%s' "1 $packages" | sha256sum | cut -c 1-12)
mkdir -p "$cache"
if [ ! -d "$base" ]; then
  made=$(mktemp -d "$cache/making.XXXXXX")
  on_exit rm -rf --one-file-system "$made"
  check "a bare Debian root with $packages" make_root "$made/root" || exit
  mv -T "$made/root" "$base"
fi

# --- the two commands --------------------------------------------------------------------------------------------------------

limit=2100
run_inside() { # LOG COMMAND
  local status=0
  timeout --kill-after=10 "$limit" unshare --mount --pid --fork --kill-child --propagation private \
    "$0" --inside "$root" "$1" "$2" || status=$?
  [ "$status" = 0 ] || tail -n 80 "$1"
  return "$status"
}
root=$WORK/root
# a copy, so that the next run starts from the bare one again
cp -a --reflink=auto "$base" "$root"
cp -L /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null
[ ! -f /etc/apt/apt.conf.d/99proxy ] || cp /etc/apt/apt.conf.d/99proxy "$root/etc/apt/apt.conf.d/"
check "it is bare" test ! -e "$root/usr/bin/gcc" -a ! -e "$root/usr/bin/sudo" -a ! -e "$root/usr/bin/python3"
# the work tree as it is: committed or not
snapshot() {
  local tree commit
  tree=$(GIT_INDEX_FILE=$WORK/index sh -c 'git -C "$SRC" add -A && git -C "$SRC" write-tree') &&
    commit=$(GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@t \
      git -C "$SRC" commit-tree -m fresh "$tree") &&
    git init -q --bare "$root/root/wsd.git" && git -C "$SRC" push -q "$root/root/wsd.git" "$commit:refs/heads/main" &&
    git -C "$root/root/wsd.git" symbolic-ref HEAD refs/heads/main
}
check "the work tree, as a repository in there" snapshot || exit
check "git clone" run_inside "$WORK/clone.log" 'cd /root && git clone -q wsd.git wsd' || exit
if [ -n "${1:-}" ]; then
  check "$1" run_inside "$WORK/log" "cd /root/wsd && $1"
  cat "$WORK/log"
  exit
fi
check "packaging/quickstart" run_inside "$WORK/quickstart.log" 'cd /root && wsd/packaging/quickstart'
tail -n 3 "$WORK/quickstart.log" | sed 's/^/  /'
check "tests/run" run_inside "$WORK/run.log" 'cd /root && wsd/tests/run'
sed -n '/^skipped:/,$p' "$WORK/run.log" | sed 's/^/  /'
