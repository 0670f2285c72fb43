#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# plugin-files.sh: what can be wrong with the file of a plugin, and what can become of it while it is loaded: each is an
# answer to whoever submits, the bytes that run stay as they were checked, and wsd goes on.
. "$(dirname "$0")/../support/lib.sh"

# With exit code 66; and wsd still works.
refused_as_before() { # WORDS COMMAND...
  refused 66 "$@" && expect_output 6765 wsctl submit fib 20
}

HOSTILE=$TEST_PLUGINS/hostile
cd "$WORK" || exit 1

put_byte() { # FILE OFFSET BYTE
  # shellcheck disable=SC2059 # it is a byte
  printf "\\x$3" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

# A job of ./mine.so that has begun and waits for the file `go`; its output comes to `said`.
begin() {
  rm -f go said
  cp "$HOSTILE/file-one.so" fresh.so
  mv fresh.so mine.so
  wsctl submit ./mine.so:when "$WORK/go" >said 2>&1 &
  begun=$!
  note_started "$begun"
  wait_until sh -c "wsctl --json list | grep -q '\"running\"'"
}

# It ends as if nothing had happened to the file.
ends_right() {
  touch go
  wait "$begun" || {
    echo "exit $?"
    cat said
    return 1
  }
  cat said
  [ "$(cat said)" = "one $((7 << 20))" ]
}

replaced_while_loaded() {
  begin || return 1
  cp "$HOSTILE/file-two.so" fresh.so
  mv fresh.so mine.so
  expect_output two wsctl submit ./mine.so && ends_right && expect_output two wsctl submit ./mine.so
}

overwritten_while_loaded() {
  begin || return 1
  head -c "$(stat -c %s mine.so)" /dev/urandom | dd of=mine.so conv=notrunc status=none
  refused_as_before "not a plugin: not a shared object" wsctl submit ./mine.so && ends_right
}

truncated_while_mapped() {
  begin || return 1
  : >mine.so
  refused_as_before "not a plugin" wsctl submit ./mine.so && ends_right
}

deleted_while_loaded() {
  begin || return 1
  rm mine.so
  expect_output one wsctl submit ./mine.so && ends_right || return 1
  # an executor that has not loaded it cannot
  pkill -KILL -P "$WSD_PID"
  refused_as_before "no such file" wsctl submit ./mine.so
}

rebuilt_in_the_plugin_directory() {
  cp "$HOSTILE/file-one.so" "$WORK/dir/file.so"
  expect_output one wsctl submit file || return 1
  cp "$HOSTILE/file-two.so" "$WORK/dir/new"
  mv "$WORK/dir/new" "$WORK/dir/file.so"
  wait_until expect_output two wsctl submit file # it is looked at once a second
}

foreign() { # OFFSET BYTE: of the ELF header
  cp "$HOSTILE/file-one.so" foreign.so
  put_byte foreign.so "$1" "$2"
  refused_as_before "not a shared object for this machine" wsctl submit ./foreign.so
}

cross_built() {
  aarch64-linux-gnu-gcc -O2 -shared -fPIC -nostdlib -nostdinc -isystem /usr/lib/gcc-cross/aarch64-linux-gnu/"$(
    aarch64-linux-gnu-gcc -dumpversion
  )"/include -I "$SRC/include" -x c -o arm.so - <<<'
        __attribute__((section(".note.wsd"), used, aligned(4))) static const struct {
            unsigned a, b, c; char name[4]; unsigned abi;
        } note = {4, 4, 1, "wsd", 1};' || return 1
  refused_as_before "not a shared object for this machine" wsctl submit ./arm.so
}

# Wherever it was cut off: an answer, and no executor dies of it. What stands behind the last segment is not needed.
cut_off_anywhere() {
  local size n status died
  size=$(stat -c %s "$HOSTILE/no-descriptor.so")
  died=$(counter executors_died)
  for ((n = 0; n < size; n += 1 + size / 60)); do
    head -c "$n" "$HOSTILE/no-descriptor.so" >cut.so
    status=0
    wsctl submit ./cut.so 2>err || status=$?
    [ "$status $(wc -l <err)" = "66 1" ] || {
      echo "cut off at $n: exit $status"
      cat err
      return 1
    }
  done
  [ "$(counter executors_died)" = "$died" ]
}

# What passes the check and breaks the dynamic loader costs an executor, and is told.
# The same files each time, but for --thorough. A file that was loaded all the same may have damaged the executor, which is its
# user's own: what meets that there is run again in another one.
bytes_that_are_wrong() {
  local i status
  [ -n "${WSD_THOROUGH:-}" ] || RANDOM=1
  for ((i = 0; i < ${1:-40}; i++)); do
    cp "$HOSTILE/file-one.so" "wrong-$i.so"
    # headers and dynamic section, where each byte means something to the loader
    put_byte "wrong-$i.so" $((RANDOM % 1200)) "$(printf %02x $((RANDOM % 256)))"
    put_byte "wrong-$i.so" $((64 + RANDOM % 500)) "$(printf %02x $((RANDOM % 256)))"
    status=0
    wsctl submit --timeout 5s "./wrong-$i.so" >out 2>err || status=$?
    case $status in
      0) [ ! -s err ] ;;
      66 | 70 | 124 | 125 | [1-9] | [1-5][0-9] | 6[0-3]) [ "$(wc -l <err)" = 1 ] ;;
      *) false ;;
    esac || {
      echo "exit $status"
      cat err
      od -A d -t x1 "wrong-$i.so" | head -40
      return 1
    }
  done
  expect_output 6765 wsctl submit --retries 1 fib 20
}

# While one plugin hangs at its load, who runs already goes on, and who comes is served in the end.
others_while_one_hangs() {
  local hanging status=0
  wsctl submit "$HOSTILE/ctor-hang-init.so" >out 2>err &
  hanging=$!
  note_started "$hanging"
  expect_output 6765 wsctl submit fib 20 || return 1
  gone "$hanging" && return 1
  wait "$hanging" || status=$?
  cat err
  [ "$status" = 66 ] && grep -q 'crashed or hung while it was loaded' err
}

mkdir dir
printf '[limits]\nplugin-load = %ss\n' $((3 * TIME_SCALE)) >"$WSD_CONFIG"
start_wsd --workers 2 --plugin-dir "$WORK/dir" || exit 1
check "replaced while loaded: jobs that run keep the old one, new ones get the new one" replaced_while_loaded
check "overwritten while loaded: the bytes that run stay" overwritten_while_loaded
check "truncated while mapped: the bytes that run stay" truncated_while_mapped
check "deleted while loaded: it goes on, until an executor has to load it" deleted_while_loaded
check "rebuilt in the plugin directory: the next jobs get it" rebuilt_in_the_plugin_directory

: >empty.so
echo 'int main(void) { return 0; }' >source.so
mkfifo fifo.so
mkdir directory.so
ln -s /dev/zero zero.so
ln -s nowhere dangling.so
ln -s loop.so loop.so
truncate -s 2T sparse.so
truncate -s 1M zeroes.so
check "an empty file" refused_as_before "not a plugin: not a shared object" wsctl submit ./empty.so
check "no ELF file" refused_as_before "not a plugin: not a shared object" wsctl submit ./source.so
check "nothing but zeroes" refused_as_before "not a plugin: not a shared object" wsctl submit ./zeroes.so
executable_stack() {
  gcc -shared -fPIC -I "$SRC/include" -Wl,-z,execstack -o stack.so "$SRC"/tests/support/guide/mine.c && readelf -lW stack.so | grep 'GNU_STACK.*RWE' &&
    refused_as_before "executable stack; link it with" wsctl submit ./stack.so && logged_once "executable stack"
}
logged_once() { # WORDS
  [ "$(grep -c "$1" "$WSD_LOG")" = 1 ] || {
    grep "$1" "$WSD_LOG"
    return 1
  }
}
check "an executable stack, with one line in the log" executable_stack
abi_refused() {
  refused_as_before "built for plugin ABI 7" wsctl submit "$TEST_PLUGINS/wrong-abi.so" && logged_once "ABI 7"
}
check "another ABI, with one line in the log" abi_refused
check "a program" refused_as_before "not a plugin" wsctl submit /bin/true
check "a library" refused_as_before "has no WSD_PLUGIN\(\) descriptor" wsctl submit "$(realpath "$BUILD/client/libwsclient.so.0")"
check "a fifo" refused_as_before "not a regular file" wsctl submit ./fifo.so
check "a directory" refused_as_before "it is a directory" wsctl submit ./directory.so
check "a device without end" refused_as_before "not a regular file" wsctl submit ./zero.so
check "a file of two terabytes" refused_as_before "larger than 1024 MiB" wsctl submit ./sparse.so
truncate -s $((1024 * 1024 * 1024 + 1)) sparse.so
check "a byte more than what is taken" refused_as_before "larger than 1024 MiB" wsctl submit ./sparse.so
check "a link to nowhere" refused_as_before "no such file" wsctl submit ./dangling.so
check "a link to itself" refused_as_before "symbolic links" wsctl submit ./loop.so
check "another machine" foreign 18 b7
check "another word size" foreign 4 01
check "another byte order" foreign 5 02
check "an executable, not a shared object" foreign 16 02
if command -v aarch64-linux-gnu-gcc >/dev/null; then
  check "built for aarch64" cross_built
else
  skip "built for aarch64" "no cross compiler; the header was changed by hand above"
fi
check "the note without the descriptor" refused_as_before "does not export wsd_plugin" wsctl submit "$HOSTILE/no-descriptor.so"
check "a missing symbol" refused_as_before "undefined symbol: nobody_has_this_function" wsctl submit "$TEST_PLUGINS/unresolved.so"
check "cut off anywhere" cut_off_anywhere
gone='crashed or hung while it was loaded; not tried again for 10 seconds'
check "a constructor that crashes" refused_as_before "$gone" wsctl submit "$HOSTILE/ctor-crash.so"
check "and again, at once" refused_as_before "$gone" wsctl submit "$HOSTILE/ctor-crash.so"
check "a constructor that calls exit" refused_as_before "$gone" wsctl submit "$HOSTILE/ctor-exit.so"
check "a constructor that calls _exit" refused_as_before "$gone" wsctl submit "$HOSTILE/ctor-leaves.so"
check "a constructor whose thread crashes" refused_as_before "$gone" wsctl submit "$HOSTILE/ctor-thread.so"
check "a constructor that hangs" refused_as_before "$gone" wsctl submit "$HOSTILE/ctor-hang.so"
check "an init that hangs, and others meanwhile" others_while_one_hangs
check "wsctl plugin show says why, too" refused_as_before "$gone" wsctl plugin show "$HOSTILE/ctor-crash.so"
stop_wsd

# Where the file system, or the service (NoExecPaths=), says that nothing may be executed there, no plugin is; a link or a copy in a
# place that is fine changes what is asked.
mkdir "$WORK/noexec"
if unshare --mount mount -t tmpfs -o noexec tmpfs "$WORK/noexec" 2>/dev/null; then
  not_executable() {
    local status=0
    wsctl submit "$1" >out 2>err || status=$?
    cat err
    [ "$status" = 77 ] && [ "$(wc -l <err)" = 1 ] && grep -q '^wsctl: .*nothing may be executed where it lies' err && [ ! -s out ] &&
      [ "$(grep -c "refused: not permitted: nothing may be executed" "$WSD_LOG")" = "$2" ] && expect_output 6765 wsctl submit fib 20
  }
  ln -s "$WORK/noexec/file.so" link.so
  # shellcheck disable=SC2016 # for the inner shell
  WSD_PREFIX=(unshare --mount sh -c 'mount -t tmpfs -o noexec tmpfs "$0/noexec" && cp "$1" "$0/noexec/file.so" && shift && exec "$@"' "$WORK"
    "$HOSTILE/file-one.so")
  start_wsd --workers 2 || exit 1
  check "where nothing may be executed, with one line in the log" not_executable "$WORK/noexec/file.so" 1
  check "nor by a link to there" not_executable ./link.so 2
  check "the same file elsewhere" expect_output one wsctl submit "$HOSTILE/file-one.so"
  stop_wsd
  WSD_PREFIX=()
else
  skip "where nothing may be executed" "nothing can be mounted here"
fi
# A wsd of its own, in whose log the dynamic loader may say that its assertions failed: what wsd says is its exit code.
ends_in_order() {
  kill -TERM "$WSD_PID" && wait_for_exit "$WSD_PID" && ! grep -aE '^wsd: .*Assertion|AddressSanitizer' <(grep -av '^wsd: executor [0-9]*: ' "$WSD_LOG")
}

if [ -n "${WSD_SANITIZE:-}" ]; then
  skip "wrong bytes anywhere in the headers" "the sanitizers' runtimes do not outlive what the dynamic loader does then"
else
  start_wsd --workers 2 || exit 1
  check "wrong bytes anywhere in the headers" bytes_that_are_wrong "${WSD_THOROUGH:+400}"
  check "and wsd ends in order" ends_in_order
fi
