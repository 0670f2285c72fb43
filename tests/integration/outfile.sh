#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# outfile.sh: a file that a user names for output keeps its content until the output is complete; what it is read for by the same
# job is not lost.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/users.sh"

printf '[plugin exec]\nenabled = yes\n[limits]\ncancel-grace = 200ms\n' >"$WSD_CONFIG"
start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
mkdir "$WORK/d"
cd "$WORK/d" || exit 1

no_siblings() {
  [ -z "$(find "$WORK/d" -name '.wsctl-*')" ] || {
    find "$WORK/d" -name '.wsctl-*'
    false
  }
}
holds() { # FILE TEXT
  [ "$(cat "$1")" = "$2" ] || {
    echo "$1 has: $(head -c 200 "$1")"
    return 1
  }
}
old() { # FILE: as it is before a case
  rm -f "$1" && echo old >"$1" && chmod 640 "$1" && was=$(stat -c '%i %a %u %g %h' "$1")
}
untouched() { # FILE
  holds "$1" old && [ "$(stat -c '%i %a %u %g %h' "$1")" = "$was" ] && no_siblings
}
leaves() { # CODE COMMAND...: with --output f in it; f is as it was before
  old f
  expect_exit "$@" && untouched f || return 1
  rm f
  expect_exit "$@" && [ ! -e f ]
}
replaced() { # FILE TEXT: with mode and owner
  holds "$1" "$2" && [ "$(stat -c '%a %u %g %h' "$1")" = "${was#* }" ] && no_siblings
}

HALF=(exec sh -c 'echo half; exit 3')
check "no such plugin" leaves 66 wsctl submit --output f no-such-plugin
check "a usage error of wsctl" leaves 64 wsctl submit --output f --priority 1000 fib 2
check "a usage error of the plugin" leaves 2 wsctl submit --output f fib many
check "input that is not there" leaves 66 wsctl submit --input no-such-file --output f echo
check "a job that fails half way" leaves 3 wsctl submit --output f "${HALF[@]}"
check "the same with --json" leaves 3 wsctl --json submit --output f "${HALF[@]}"
check "the same with --local" leaves 5 wsctl submit --output f --local --plugin-dir "$TEST_PLUGINS" echo:status 5
check "no such plugin, with --local" leaves 66 wsctl submit --output f --local no-such-plugin
check "a job that crashes" leaves 70 wsctl submit --output f crash:segv
check "a job whose time is up" leaves 124 wsctl submit --timeout 50ms --output f sleep:sleep 60000
check "no output of what is detached" leaves 64 wsctl submit --detach --output f fib 2
check "no daemon" leaves 69 wsctl --socket "$WORK/nobody" submit --output f fib 2

untouched_by_refusal() {
  wsctl drain --no-wait
  leaves 75 wsctl submit --output f fib 2
  local r=$?
  wsctl resume
  return $r
}
check "a refusal" untouched_by_refusal

interrupted() { # SIGNAL WAY...
  local pid
  old f
  background env --default-signal=INT "$WSCTL" submit --output f "${@:2}" exec sh -c 'echo half; exec sleep 1000'
  pid=$BACKGROUND_PID
  wait_until said || return 1
  kill "-$1" "$pid"
  wait_for_exit "$pid" # of --local by the signal
  [ $? -ge 128 ] && untouched f
}
said() { # the half is there, or goes into a sibling
  [ -n "$(find . -name '.wsctl-*' -size +0)" ]
}
twice() {
  local pid
  old f
  background env --default-signal=INT "$WSCTL" submit --output f --timeout 1min spin:deaf 2>err
  pid=$BACKGROUND_PID
  wait_until sh -c 'ls .wsctl-* && wsctl list --state running | grep spin' || return 1
  kill -INT "$pid"
  wait_until grep -q cancelling err && kill -INT "$pid"
  wait_for_exit "$pid"
  [ $? = 130 ] && untouched f
}
for signal in INT TERM HUP; do
  check "SIG$signal half way" interrupted $signal
done
check "SIGINT, with --local" interrupted INT --local
check "SIGINT, twice" twice

into() {
  old f
  wsctl submit --output f fib 20 && replaced f 6765 && old f && wsctl submit --output f echo:status 0 && replaced f '' &&
    old f && wsctl submit --output f --local fib 20 && replaced f 6765 &&
    old f && wsctl --json submit --output f fib 20 >/dev/null && replaced f 6765
}
new_one() {
  rm -f n
  (umask 027 && wsctl submit --output n fib 20) && holds n 6765 && [ "$(stat -c %a n)" = 640 ] && no_siblings
}
check "a job that succeeds: its output, with mode and owner" into
check "a file that was not there: the umask" new_one

seq 20000 -1 1 >numbers
sort numbers >sorted
same_file() { # COMMAND...: with f as input and output
  rm -f f g
  cp numbers f
  chmod 604 f
  "$@" && cmp f sorted && [ "$(stat -c %a f)" = 604 ] && no_siblings
}
linked() { # COMMAND...: the same, f is a hard link, a symbolic one
  rm -f f g
  cp numbers g && ln g f && "$@" && cmp f sorted && cmp g sorted && [ "$(stat -c %h g)" = 2 ] || return 1
  cp numbers g && ln -sf g f && "$@" && cmp g sorted && [ -L f ] && no_siblings
}
both_ways() {
  same_file "$@" && linked "$@"
}
check "the same file is input and output" both_ways wsctl submit --input f --output f sort
check "the same file is argument and output" both_ways wsctl submit --output f sort f
check "the same file as stdin" both_ways sh -c 'wsctl submit --input - --output f sort <f'
check "the same file, with --local" both_ways wsctl submit --local --output f sort f

special() {
  local words
  mkfifo p && {
    wsctl submit --output p fib 20 &
    words=$(cat p)
    wait $!
  } && [ "$words" = 6765 ] && [ -p p ] &&
    wsctl submit --output /dev/null fib 20 && [ -c /dev/null ] && expect_output 6765 sh -c 'wsctl submit --output /dev/stdout fib 20 | cat' &&
    expect_exit 74 wsctl submit --output /dev/full fib 20
}
links() {
  printf 'a long old content\n' >t && ln -sf t s && ln t h && wsctl submit --output s fib 20 && holds t 6765 && [ -L s ] &&
    wsctl submit --output h fib 21 && holds t 10946 && [ "$(stat -c %h t)" = 2 ] || return 1
  for f in s h; do # nothing comes, or a part
    expect_exit 2 wsctl submit --output $f fib many && holds t 10946 &&
      expect_exit 66 wsctl submit --output $f no-such-plugin && holds t 10946 || return 1
  done
  expect_exit 3 wsctl submit --output s "${HALF[@]}" && holds t half && ln -sf nowhere-yet s && wsctl submit --output s fib 20 &&
    holds nowhere-yet 6765 && no_siblings
}
attributes() {
  old f
  if ! setfattr -n user.mine -v 1 f || ! setfacl -m u:12345:r f; then return 0; fi # not here
  was=$(stat -c '%i %a %u %g %h' f)
  wsctl submit --output f fib 20 && replaced f 6765 && [ "$(getfattr --only-values -n user.mine f)" = 1 ] && getfacl f | grep -q 12345
}
inherited_acl() {                                                  # what the directory gives to new files does not open an old one
  if ! mkdir a || ! setfacl -d -m u:12345:rwx a; then return 0; fi # not here
  old a/f
  setfacl -b a/f && was=$(stat -c '%i %a %u %g %h' a/f) && wsctl submit --output a/f fib 20 && replaced a/f 6765 && ! getfacl a/f | grep 12345
}
names_of_all_lengths() {
  local long
  long=$(printf '%255s' '' | tr ' ' n)
  wsctl submit --output "$long" fib 20 && holds "$long" 6765 && expect_exit 74 wsctl submit --output "n$long" fib 20 &&
    expect_exit 74 wsctl submit --output . fib 20 && expect_exit 74 wsctl submit --output no/such fib 20
}
check "FIFO, device, stdout by name" special
check "symbolic and hard links stay what they are" links
check "attributes and ACLs are kept" attributes
check "and no others are got" inherited_acl
check "names of 255 bytes, a directory, nowhere" names_of_all_lengths

run_graph() {
  cat >graph.json <<'EOF'
{"nodes": [{"name": "good", "plugin": "fib", "args": ["20"]}, {"name": "bad", "plugin": "exec", "args": ["sh", "-c", "echo half; exit 3"]},
 {"name": "sorted", "plugin": "sort", "input": "out/sorted"}]}
EOF
  mkdir -p out && echo old >out/good && echo old >out/bad && cp numbers out/sorted && echo old >drawn
  expect_exit 3 wsctl run --keep-going --output-dir out --dot-to drawn graph.json && holds out/good 6765 && holds out/bad old && cmp out/sorted sorted &&
    grep -q digraph drawn || return 1
  rm out/* && ln -s ../g out/sorted && cp numbers g && echo old >drawn && expect_exit 3 wsctl run -k --output-dir out graph.json &&
    cmp g sorted && [ ! -e out/bad ] && holds drawn old && no_siblings &&
    mkdir e && expect_exit 3 wsctl run -k --dot-to e graph.json >out/all 2>err && grep -q 'e: Is a directory' err
}
trace() {
  old f
  wsctl submit fib 20 && expect_exit 66 wsctl trace --stop --output f && untouched f && wsctl trace --seconds 10ms --output f && grep -q traceEvents f &&
    [ "$(stat -c %a f)" = 640 ] && rm f && expect_exit 66 wsctl trace --stop --output f && [ ! -e f ] && no_siblings
}
check "run: each file when its job has succeeded" run_graph
check "trace: the file as it was before there is a trace" trace
stop_wsd

if [ "$(id -u)" != 0 ] || ! command -v setpriv >/dev/null; then
  skip "files of others" "only root can act as somebody else"
  exit 0
fi
printf '[daemon]\nsystem = yes\nsocket-group = %s\n' "$(getent group $GROUP_ID | cut -d: -f1)" >"$WSD_CONFIG"
chmod 644 "$WSD_CONFIG"
install_for_all echo
chmod 755 "$WORK/d"
mkdir "$WORK/d/alice" "$WORK/d/root"
chown $ALICE:$ALICE "$WORK/d/alice"
start_wsd || exit 1
as_alice() {
  (cd "$WORK/d" && as $ALICE "$CTL" "$@")
}
of_another() { # root writes alice's file; alice one of root's that she may write
  old alice/f
  chown $ALICE:$GROUP_ID alice/f
  was=$(stat -c '%i %a %u %g %h' alice/f)
  wsctl submit --output alice/f fib 20 && replaced alice/f 6765 || return 1
  old alice/f
  chmod 666 alice/f
  was=$(stat -c '%i %a %u %g %h' alice/f)
  as_alice submit --output alice/f fib 20 && replaced alice/f 6765 && expect_exit 2 as_alice submit --output alice/f fib many && replaced alice/f 6765 &&
    [ "$(stat -c %i alice/f)" = "${was%% *}" ]
}
no_right() { # a file that she may write, in a directory that she may not; and one that she may not write
  echo "a long old content" >root/f
  chmod 666 root/f
  as_alice submit --output root/f fib 20 && holds root/f 6765 && as_alice submit --input root/f --output root/f sort && holds root/f 6765 || return 1
  chmod 644 root/f
  expect_exit 77 as_alice submit --output root/f fib 20 && holds root/f 6765 && expect_exit 77 as_alice submit --output root/n fib 20 && [ ! -e root/n ] &&
    no_siblings
}
mounted() {                                                                  # nothing takes the place of what is mounted
  if ! echo old >m || ! echo old >n || ! mount --bind n m; then return 0; fi # not here
  wsctl submit --output m fib 20
  local r=$?
  umount m
  [ $r = 0 ] && holds n 6765 && holds m old && no_siblings
}
check "a file of another owner keeps him" of_another
check "no right in the directory" no_right
check "a file that is mounted" mounted
stop_wsd
