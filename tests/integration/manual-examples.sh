#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# manual-examples.sh: each example of wsctl(1) is run as it is printed, one after the other, and succeeds. One that begins with
# `.\" NAME.sh: ...` needs more than a wsd (another machine, a file of its own) and is that script's. Those of libwsclient(3) are
# compiled as a user would. One with a main() is a program of its own, which runs. The others are one program together, whose first
# example runs.
. "$(dirname "$0")/../support/lib.sh"

manual=$SRC/packaging/man/wsctl.1
mkdir "$WORK/examples" "$WORK/here"
awk -v to="$WORK/examples" '
  /^\.EX/ { file = sprintf("%s/%04d", to, FNR); next }
  /^\.EE/ { file = "" }
  file != "" { print >file }' "$manual"

# --- where they are run: files that they name, and a wsd that systemctl restarts ------------------------------------------------

cd "$WORK/here" || exit 1
seq 1000 | tac | tee lines notes.txt >numbers
seq 2000 >big.tar
echo 'puts("try --help");' >one.c
printf '#!/bin/sh\necho it is done\n' >nightly
chmod +x nightly
cat >"$WORK/bin/systemctl" <<END
#!/bin/sh
[ "\$*" = "restart wsd" ] || exit 1
: >"$WORK/restart"
kill -TERM "\$(cat "$WORK/pid")"
while [ -e "$WORK/restart" ] || ! "$WSCTL" -q ping; do sleep 0.02; done 2>/dev/null
END
chmod +x "$WORK/bin/systemctl"

# that of wsd.conf(5) is in force, but for what it says of users and limits; its command is the one that is here
sed -n '/^\.SH EXAMPLE/,/^\.fi/p' "$SRC/packaging/man/wsd.conf.5" | sed '/^\./d' >"$WORK/wsd.conf.example"
sed -n '/^\[plugin exec\]/,$p' "$WORK/wsd.conf.example" | sed "s,/usr/local/bin/nightly,$PWD/nightly," >"$WSD_CONFIG"
export WSD_SOCKET=$WORK/wsd.sock
restarted() { # as a service manager does
  while :; do
    "$WSD" --socket "$WSD_SOCKET" --config "$WSD_CONFIG" --executor "$EXECUTOR" --spawner "$SPAWNER" --state-dir "$WORK/store" \
      --plugin-dir "$PLUGINS" --plugin-dir "$TEST_PLUGINS" --workers 2 >>"$WORK/log" 2>&1 </dev/null &
    echo $! >"$WORK/pid"
    wait $! || return
    rm "$WORK/restart" 2>/dev/null || return 0
  done
}
background restarted
serves=$BACKGROUND_PID
# shellcheck disable=SC2016 # for the inner shell
on_exit sh -c 'kill -KILL "$(cat "$1")" 2>/dev/null' - "$WORK/pid"
wait_until wsctl -q ping || { fail "start wsd" "it does not answer" && show "$WORK/log" && exit 1; }

# --- the examples ---------------------------------------------------------------------------------------------------------------

example() { # FILE
  sed '/^\./d; s/\\-/-/g; s/\\(dq/"/g; s/\\(aq/'"'"'/g; s/\\[e\\]/\\/g' "$1" >"$WORK/script" && [ -s "$WORK/script" ] && cat "$WORK/script" &&
    bash -eu -o pipefail "$WORK/script"
}
elsewhere() { # FILE: the script that is named takes it from the manual
  local script
  script=$SRC/tests/integration/$(sed -n '1s/^\.\\" \([a-z-]*\.sh\): .*/\1/p' "$1")
  grep -q 'man/wsctl\.1' "$script"
}
n=0
for file in "$WORK"/examples/*; do
  line=${file##*/}
  if grep -q '^\.\\" [a-z-]*\.sh: ' "$file"; then
    check "line ${line#0}: somebody else's, who has it" elsewhere "$file"
  else
    check "line ${line#0}: $(grep -v '^\.' "$file" | head -n 1)" example "$file"
  fi
  n=$((n + 1))
done
as_many() { # as the manual has: none is passed over
  [ "$n" = "$(grep -c '^\.EX' "$manual")" ] && [ "$n" -ge 20 ]
}
check "all of them" as_many
output() { # what the last lines of the manual's submits have put out
  [ "$(wsctl submit --key "nightly-$(date +%F)" exec ./nightly)" = "it is done" ] && zstd -dc big.tar.zst | cmp - big.tar
}
check "they did what they say" output
configuration() { # with users and groups that there are on each machine
  sed 's/@[a-z]*/@root/; s/^users = .*/users = root daemon/' "$WORK/wsd.conf.example" >"$WORK/whole.conf" && [ "$(wc -l <"$WORK/whole.conf")" -ge 20 ] &&
    wsd --config "$WORK/whole.conf" --check-config && wsd --config "$WORK/whole.conf" --print-config | grep -x '\[schedule nightly\]'
}
check "wsd.conf(5): its example is right" configuration
nightly() {
  expect_output "it is done" wsctl await "$(wsctl schedule run nightly)"
}
check "and its schedule runs what it says" nightly

# --- libwsclient(3) ---------------------------------------------------------------------------------------------------------

# One that begins with `static` stands in the file; each other one is a function, with what it takes as given.
in_c() {
  awk '
    BEGIN {
      print "#include <errno.h>\n#include <signal.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <sys/eventfd.h>\n#include <unistd.h>\n#include <wsd/adapters/libevent.h>"
      print "static char data[1000][16], answers[1000][16];\nstatic size_t size = 16;\nstatic const char *args[] = {\"20\"};\nstatic struct event_base *base;"
    }
    /^\.EX/ { on = 1; text = ""; next }
    /^\.EE/ {
      on = 0
      if (text ~ /^#include|(^|\n)cc |(^|\n)int main\(/) next
      print text ~ /^static/ ? text : "void example_" ++n "(struct wsd_client *client)\n{\n    (void)client;\n    {\n" text "    }\n}"
    }
    on { gsub(/\\-/, "-"); gsub(/\\e/, "\\"); text = text $0 "\n" }
    END { print "int main(void)\n{\n    example_1(NULL);\n    return 0;\n}" }' "$SRC/packaging/man/libwsclient.3"
}
sanitizer=(${WSD_SANITIZE:+"-fsanitize=$WSD_SANITIZE"})
client_examples() {
  in_c >"$WORK/examples.c" && [ "$(grep -c '^void example_' "$WORK/examples.c")" -ge 8 ] &&
    cc -std=c11 -D_GNU_SOURCE "${sanitizer[@]}" -Wall -Wextra -Wno-unused-{variable,but-set-variable,parameter,function} -Werror -I "$SRC/include" "$WORK/examples.c" \
      "$BUILD/client/libwsclient.so.0" -levent_core -Wl,-rpath,"$BUILD/client" -o "$WORK/client-examples"
}
check "libwsclient(3): its examples compile" client_examples
check "and its first one does what it says" expect_output 2178309 "$WORK/client-examples"

# Each begins with `/* NAME.c: ...`.
mkdir "$WORK/programs"
awk -v to="$WORK/programs" '
  /^\.EX/ { on = 1; text = ""; next }
  /^\.EE/ {
    on = 0
    if (text !~ /(^|\n)int main\(/) next
    name = text
    sub(/^\/\* /, "", name)
    sub(/: .*/, "", name)
    printf "%s", text >(to "/" name)
  }
  on { gsub(/\\-/, "-"); gsub(/\\e/, "\\"); text = text $0 "\n" }' "$SRC/packaging/man/libwsclient.3"
compiles() { # PROGRAM
  cc -std=c11 -D_GNU_SOURCE "${sanitizer[@]}" -O2 -Wall -Wextra -Wno-unused-parameter -Werror -I "$SRC/include" "$WORK/programs/$1.c" \
    "$BUILD/client/libwsclient.so.0" -levent_core -pthread -Wl,-rpath,"$BUILD/client" -o "$WORK/programs/$1"
}
ways() { # each of the eight is timed, and one of them is the fastest
  "$WORK/programs/which-way" 10 200 >"$WORK/ways" && cat "$WORK/ways" &&
    [ "$(grep -c ' us a job, ' "$WORK/ways")" = 8 ] && sed -n 's/^the fastest: //p' "$WORK/ways" | grep -Fqf - <(head -n 8 "$WORK/ways")
}
ended_both() { # whether they had begun is a matter of time
  "$WORK/programs/deadlines" >"$WORK/ended" && cat "$WORK/ended" &&
    [ "$(sed -E 's/: it (may have run|has not begun)$//' "$WORK/ended" | paste -sd,)" = "too late,interrupted" ]
}
forked() {
  "$WORK/programs/fork" 2>"$WORK/forked" && same "child: its copy is refused" "$(cat "$WORK/forked")"
}
answers() { [ "$(wc -l <"$WORK/answers")" -ge 1 ]; }
over_a_restart() { # between its two calls, wsd is another one
  {
    echo 20
    wait_until answers && systemctl restart wsd
    echo 21
  } 2>"$WORK/between" | "$WORK/programs/restart" >"$WORK/answers" 2>"$WORK/reset" && same "6765 10946" "$(paste -sd' ' "$WORK/answers")" &&
    grep -E '^the job (may have|has not) run$' "$WORK/reset"
}
again_over_a_restart() { # and nothing is said of it
  rm -f "$WORK/answers"
  {
    echo 20
    wait_until answers && systemctl restart wsd
    echo 21
  } 2>"$WORK/between" | "$WORK/programs/again" >"$WORK/answers" 2>"$WORK/said" && same "6765 10946" "$(paste -sd' ' "$WORK/answers")" &&
    [ ! -s "$WORK/said" ]
}
for file in "$WORK"/programs/*.c; do
  program=$(basename "$file" .c)
  check "libwsclient(3): $program compiles" compiles "$program"
  case $program in
    deadlines) check "it ends both jobs" ended_both ;;
    fork) check "the child has wsd, but not by the copy" forked ;;
    loop) check "its loop has each answer" expect_output $'6765\n6765\n6765' "$WORK/programs/$program" ;;
    again) check "it goes on with the next wsd" again_over_a_restart ;;
    restart) check "it goes on with the next wsd" over_a_restart ;;
    threads) check "each of its threads calls" expect_output "4000 calls succeeded" "$WORK/programs/$program" ;;
    which-way) check "it times each way" ways ;;
    *) fail "libwsclient(3): $program" "nothing is known of what it does" ;;
  esac
done
all_programs() { [ "$(cd "$WORK/programs" && echo *.c)" = "again.c deadlines.c fork.c loop.c restart.c threads.c which-way.c" ]; }
check "all of its programs" all_programs

kill -TERM "$(cat "$WORK/pid")"
check "wsd ends in order" wait_for_exit "$serves"
clean_log "$WORK/log"
