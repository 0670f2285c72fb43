#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# complete.sh: what the completions of bash, zsh and fish offer: verbs, options, plugins, functions and jobs of the wsd that
# is there, and nothing, quietly, where there is none. bash and zsh are given a terminal and the tab key.
. "$(dirname "$0")/../support/lib.sh"

COMPLETIONS=$SRC/packaging/completions
export PYTHONPATH=$SRC/tests/support PYTHONDONTWRITEBYTECODE=1

# Exactly these candidates, in any order.
offers() { # "CANDIDATE..." WORD...
  local wanted got
  wanted=$(tr ' ' '\n' <<<"$1" | sort)
  shift
  wsctl complete -- "$@" >"$WORK/offers" 2>"$WORK/errors" || return 1
  got=$(cut -f 1 "$WORK/offers" | sort)
  cat "$WORK/offers" "$WORK/errors"
  [ "$got" = "$wanted" ] && [ ! -s "$WORK/errors" ]
}
# What wsd says is offered where it comes in time; on a slow machine it may come too late, and nothing is offered.
soon() { # LIKE offers
  wait_until offers "$@" || offers "$@"
}
asks_for() { # files|directories WORD...
  [ "$(wsctl complete -- "${@:2}")" = $'\t'"$1" ]
}

# --- without a wsd ---

export WSD_SOCKET=$WORK/nobody.sock
check "verbs" offers "schedule stats status submit" s
check "help is followed by verbs" offers "plugin ping pause profile" help p
every_verb() {
  local verbs
  verbs=$(wsctl --help | sed -n 's/^  \([a-z]\{2,\}\)  .*/\1/p' | tr '\n' ' ')
  [ -n "$verbs" ] && offers "${verbs% }" ""
}
check "every verb of --help" every_verb
every_option() {
  local verb options
  for verb in $(wsctl --help | sed -n 's/^  \([a-z]\{2,\}\)  .*/\1/p'); do
    options=$( (wsctl "$verb" --help && wsctl --help) | grep -oE '^ +(-[a-zA-Z], )?--[a-z-]+' | grep -oE -- '--.*' |
      grep -v '^--version' | sort -u | tr '\n' ' ')
    wsctl complete -- "$verb" -- >"$WORK/all"
    [ "$(cut -f 1 "$WORK/all" | sort -u | tr '\n' ' ')" = "$options" ] || {
      echo "$verb: $options"
      cat "$WORK/all"
      return 1
    }
  done
}
check "every option of each verb's --help" every_option
check "common options before the verb" offers "--version" --vers
check "words that stand for themselves" offers "list" plugin l
check "an option's value is a file" asks_for files submit --input ""
check "behind = too" asks_for files submit --input=x
check "a directory" asks_for directories submit --plugin-dir ""
check "a path is no name of a plugin" asks_for files submit ./
check "arguments of a plugin are files" asks_for files submit fib ""
check "options stand behind the plugin, too" offers "--detach" submit fib --det
check "and not behind its arguments, nor behind --" asks_for files submit fib 3 --det
check "a number is nobody's to say" offers "" submit --priority ""
check "no wsd: nothing, quietly" offers "" submit ""
check "no wsd: no jobs" offers "" await ""
silent() { # one that takes connections and says nothing
  background python3 -c '
import os, socket, sys, time
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1] + ".new"); s.listen(); os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(600)' "$WORK/silent.sock"
  wait_until test -S "$WORK/silent.sock" && offers "" --socket "$WORK/silent.sock" submit ""
}
check "a wsd that says nothing is not waited for" silent

# --- with one ---

mkdir "$WORK/plugins"
cp "$PLUGINS/fib.so" "$PLUGINS/count.so" "$TEST_PLUGINS/echo.so" "$TEST_PLUGINS/sleep.so" "$WORK/plugins"
PLUGINS=$WORK/plugins start_wsd --workers 1 || exit 1
standing() { # an executor that says nothing: whoever waits for it, waits until wsd replaces it
  local executor status=0
  wsctl submit fib 2 && executor=$(pgrep -P "$WSD_PID") && stop_process "$executor" || return 1
  wsctl complete -- submit f || status=$?
  [ "$(pgrep -P "$WSD_PID")" = "$executor" ] && kill -CONT "$executor" && return $status
}
check "an executor that stands still is not waited for" standing
check "plugins, and functions where there are several" soon "fib fib:nothing" submit f
check "functions behind the colon" soon "echo:stream echo:status echo:shared" submit echo:s
check "plugins alone where functions cannot be" soon "echo" plugin show e
check "plugins of the wsd that the line names" soon "count" --socket "$WSD_SOCKET" map c
jobs_by_id() {
  local ended open
  ended=$(wsctl submit --detach echo:echo x) && wsctl await "$ended" && open=$(wsctl submit --detach sleep:sleep 600000) &&
    soon "$ended $open" status "" && soon "$open" cancel "" && soon "$ended $open" await "$ended" "" &&
    offers "" status "$open" "" && wsctl cancel "$open"
}
check "jobs: open ones to cancel, all to await" jobs_by_id

schedules() { # not names of plugins
  wsctl schedule add nightly --on yearly fib 5 && wsctl schedule add never --on yearly fib 5 || return 1
  soon "nightly never" schedule remove n && soon "nightly" schedule run ni && offers "" schedule remove nightly "" &&
    wsctl schedule remove nightly && wsctl schedule remove never && offers "" schedule remove ""
}
check "names of schedules" schedules

# --- in shells ---

# Types each line and the tab key, and waits for what the shell makes of it. As a person would, it tries again where nothing comes.
cat >"$WORK/type.py" <<'END'
import os, sys
from terminal import Terminal

shell, setup = sys.argv[1:3]
cases = [('wsctl subm', 'wsctl submit '), ('wsctl submit --det', 'wsctl submit --detach '),
         ('wsctl submit echo:dir', 'wsctl submit echo:directory '), ('wsctl plugin rel', 'wsctl plugin rel(oad|ease)?'),
         ('wsctl await ' + os.environ['ID'][:4], 'wsctl await ' + os.environ['ID']),
         ('wsctl submit --input only-h', 'wsctl submit --input only-here'),
         ('wsctl submit ./only-h', 'wsctl submit ./only-here'), ('wsctl submit --input=only-h', 'wsctl submit --input=only-here')]
with Terminal(shell.split(), columns=120) as t:
    t.send(setup + '; PS1="ready"\'> \'\n')
    t.until(r'^ready> *$')
    for typed, wanted in cases:
        t.send(typed)
        for _ in range(10):
            t.send('\t')
            if t.comes('^ready> ' + wanted.rstrip() + r'( |$)', 3):
                break
        t.until('^ready> ' + wanted.rstrip() + r'( |$)')
        print(wanted)
        t.send('\x15')
        t.until(r'^ready> *$')
    t.send('exit\n')
    assert t.end() == 0
END
stop_wsd
PLUGINS=$WORK/plugins start_wsd --workers 1 || exit 1
ID=$(wsctl submit --detach sleep:sleep 600000) # the only one: ids of one moment begin with the same letters
export ID
cd "$WORK" && touch only-here
check "bash" python3 "$WORK/type.py" 'bash --norc --noprofile -i' "bind 'set enable-bracketed-paste off'; . '$COMPLETIONS/wsctl.bash'"
if command -v zsh >/dev/null; then
  check "zsh" env HOME="$WORK" python3 "$WORK/type.py" 'zsh -f -i' \
    "fpath=('$COMPLETIONS' \$fpath); autoload -Uz compinit; compinit -u -D; unset zle_bracketed_paste; unsetopt prompt_sp"
else
  skip "zsh" "not installed"
fi
if command -v fish >/dev/null; then
  in_fish() { # LINE
    HOME=$WORK fish --no-config -c "source '$COMPLETIONS/wsctl.fish'; complete -C '$1'"
  }
  says_soon() { # LIKE expect_output
    wait_until expect_output "$@" || expect_output "$@"
  }
  check "fish: a verb, and what it does" expect_output $'submit\tRuns one job' in_fish "wsctl subm"
  check "fish: a function" says_soon $'echo:directory\tthe working directory' in_fish "wsctl submit echo:dir"
  check "fish: a job" says_soon "$ID"$'\tsleep:sleep, running' in_fish "wsctl await "
  check "fish: a file" expect_output "only-here" in_fish "wsctl submit --input only-h"
else
  skip "fish" "not installed"
fi
wsctl cancel "$ID"
stop_wsd
