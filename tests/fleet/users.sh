#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# users.sh: jobs of other machines run as users of this one: as the submitter's namesake, as one user, or as that of
# wsd-fleet. Who may not be acted for has words for it, once.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/users.sh"
. "$(dirname "$0")/../support/fleet.sh"

[ "$(id -u)" = 0 ] || {
  skip "users of a fleet" "only root can act as several users"
  exit 0
}
AGENT=1990 DAVE=1991 NAMELESS=1992
know_users wsd-fleet:$AGENT dave:$DAVE agent:999
if [ ${#known[@]} = 0 ] || ! command -v setpriv >/dev/null; then
  skip "users of a fleet" "no mount namespace of our own here, or no setpriv"
  exit 0
fi
install_for_all hostile echo spin
cp "$FLEET" "$WORK/inst/"
FLEET=$WORK/inst/wsd-fleet TEST_PLUGINS=$PLUGINS WSD_PREFIX=("${known[@]}")
FLEET_PREFIX=("${known[@]}" setpriv --reuid="$AGENT" --regid="$AGENT" --clear-groups --inh-caps=-all --)
export LD_LIBRARY_PATH=$WORK/inst

rules() { # NODE LINES
  printf '[daemon]\nsystem = yes\n%b' "$2" >"$WORK/$1.conf"
}
start_users_wsd() { # NODE
  WSD_CONFIG=$WORK/$1.conf
  start_node_wsd "$1" || return 1
  chmod 755 "$WORK/node-$1" && chmod 666 "$WORK/node-$1/wsd.sock"
}
reload() { # NODE: is read again
  local WSD_LOG=$WORK/node-$1/log WSD_PID=${NODE_WSD[$1]}
  reload_config
}
run_as() { # VALUE [OPTION...]: the wsd-fleet of there, anew
  [ -z "${NODE_FLEET[there]-}" ] || { kill "${NODE_FLEET[there]}" && wait_for_exit "${NODE_FLEET[there]}"; } || return 1
  start_node_fleet there --no-out ${1:+--run-as "$1"}
}
submit() { # UID JOB...
  local uid=$1
  shift
  on here as "$uid" "$CTL" submit "$@"
}
runs_as() { # UID-THERE UID: the job of a user here
  local pid
  pid=$(submit "$2" @fleet/hostile:whoami) && grep -P "^Uid:\t$1\t$1\t" "/proc/$pid/status"
}
# Fails with these words, and is away then.
denied() { # UID WORDS
  says 63 "refused on there: $2" submit "$1" @fleet/echo x && wait_until empty
}
empty() { "$FLEET" -n "$NATS_URL" --status | grep -qE '^jobs +0 '; }
times_acted() { # USER: connections for that user
  grep -cE "connection of uid $AGENT pid [0-9]* acts for $1," "$WORK/node-there/log"
}

start_nats one && "$FLEET" -n "$NATS_URL" --init >/dev/null || exit 1
rules here '[runner @fleet]\noffer = wsd-fleet\n'
rules there '[access]\nsubmit-as = alice dave\n'
start_users_wsd here && start_users_wsd there && start_node_fleet here --no-in && run_as same || exit 1

# --- as the user of the same name -----------------------------------------------------------------------------------------

NOT_LISTED="uid $AGENT may not act for bob: .access. submit-as in wsd.conf does not name this user"
check "alice's job runs as alice" runs_as $ALICE $ALICE
check "dave's as dave" runs_as $DAVE $DAVE
many() { seq 300 | on here as $ALICE "$CTL" map @fleet/echo:echo | sort -n | cmp - <(seq 300) && same 1 "$(times_acted alice)"; }
check "all jobs of a user go by one connection" many
input() { head -c 3000000 /dev/urandom >"$WORK/in" && chmod 644 "$WORK/in" && submit $ALICE -i "$WORK/in" @fleet/echo | cmp - "$WORK/in"; }
check "with inputs and outputs in parts" input
check "bob is not in submit-as: his job fails, with node, user and key" denied $BOB "$NOT_LISTED"
once() { same 0 "$(fleet_counter there in redelivered)" && same 0 "$(fleet_counter there in back)" && same 0 "$(fleet_counter there in held)"; }
check "and comes to no node again" once
as_root() { says 63 "refused on there: uid $AGENT may not act for root: nobody acts for root" on here wsctl submit @fleet/echo x; }
check "root's is never root's there" as_root
check "who has no name here is nobody's there" denied $NAMELESS '.fleet. run-as = same in wsd.conf there, and the job does not name its user'
no_account() { rules there '[access]\nsubmit-as = alice\n[fleet]\nuser = dave\n' && reload there && denied $ALICE "uid $AGENT may not act for alice: only root and the user of wsd-fleet act for others \(.fleet. user in wsd.conf\)"; }
check "the account of wsd-fleet has to be the one of wsd.conf" no_account
may_again() { rules there '[access]\nsubmit-as = alice dave\n' && reload there && runs_as $ALICE $ALICE; }
check "when it is right, nothing has to be started anew" may_again
taken_away() {
  local id
  id=$(submit $ALICE --detach @fleet/spin) && wait_until on there jobs_are running 1 && rules there '[access]\nsubmit-as = dave\n' && reload there &&
    says 63 "refused on there: uid $AGENT may not act for alice: " on here as $ALICE "$CTL" await "$id" && wait_until on there jobs_are running 0 &&
    runs_as $DAVE $DAVE
}
check "the right is taken away while a job runs" taken_away
rules there '[access]\nsubmit-as = alice dave\n'
check "it is given again" reload there
cancelled() {
  local id
  id=$(submit $ALICE --detach @fleet/spin) && wait_until on there jobs_are running 1 && on here as $ALICE "$CTL" cancel "$id" &&
    expect_exit 130 on here as $ALICE "$CTL" await "$id" && wait_until on there jobs_are running 0
}
check "a job of alice's is cancelled there, too" cancelled
wsd_again() { # wsd there ends and comes again: the client connects again
  local before
  before=$(times_acted alice)
  kill "${NODE_WSD[there]}" && wait_for_exit "${NODE_WSD[there]}" && start_users_wsd there && runs_as $ALICE $ALICE && [ "$(times_acted alice)" -gt "$before" ]
}
check "wsd there is started anew" wsd_again

# --- as one user ----------------------------------------------------------------------------------------------------------

check "wsd-fleet there is told that all run as dave" run_as dave
check "alice's then runs as dave" runs_as $DAVE $ALICE
check "so does bob's, who has no right there" runs_as $DAVE $BOB
check "and what has no name" runs_as $DAVE $NAMELESS
check "wsd-fleet there is told of a user that is in no list" run_as bob
check "then each job has words for it" denied $ALICE "$NOT_LISTED"
check "wsd-fleet there is told of a user that there is not" run_as nosuch
check "likewise" denied $ALICE 'there is no user nosuch here to act for'

# --- as wsd-fleet -----------------------------------------------------------------------------------------------------------

check "wsd-fleet there is told nothing" run_as ''
check "alice's then runs as its own user" runs_as $AGENT $ALICE
check "so does bob's" runs_as $AGENT $BOB
check "and root's" eval 'submit 0 @fleet/echo x'
refuses() { says 64 'wsd-fleet: --run-as: ' "$FLEET" --run-as "$1"; } # VALUE
# --- with executors under the uids of users, of which wsd-fleet's is none -------------------------------------------------------

no_executor() {
  rules there '[access]\nsubmit-as = alice dave\n[executor]\nuser-ids = yes\nfirst-user-id = 1001\n[fleet]\nuser = agent\n' &&
    kill "${NODE_WSD[there]}" && wait_for_exit "${NODE_WSD[there]}" && start_users_wsd there
}
check "wsd there has no executor for the user of wsd-fleet" no_executor
low=("${FLEET_PREFIX[@]/#--reuid=*/--reuid=999}")
FLEET_PREFIX=("${low[@]/#--regid=*/--regid=999}")
check "wsd-fleet there runs as that one" run_as same
check "alice's jobs run as alice" runs_as $ALICE $ALICE
says_so() { grep -q 'loads no plugin for this user: no function counts as one that may run twice' "$WORK/node-there/fleet.log"; }
check "and it says what it does not know" says_so
check "with run-as = dave" run_as dave
check "alice's run as dave" runs_as $DAVE $ALICE
knows() { ! says_so; }
check "and all is known" knows
check "--run-as with a blank is refused" refuses 'a b'
check "all leave in order" end_fleet
