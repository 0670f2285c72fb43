#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# cluster.sh: three NATS servers that keep each message three times, two nodes and a sender, each with a network of its own.
# Servers are killed, links are cut. Each job has its end, once. Says how many ends came twice and were dropped, and when
# the last job ended. 1,000 jobs for each fault; WSD_THOROUGH: 20,000, and more faults.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/fleet.sh"

PATH=/usr/bin:$PATH # no wrapper of python3, which is called often
HUB=wsd-hub-$$
if [ "$(id -u)" != 0 ] || ! ip netns add "$HUB" 2>"$WORK/err" || ! ip -n "$HUB" link add hub type bridge 2>>"$WORK/err"; then
  skip "a cluster of servers" "only root can make networks here: $(head -n 1 "$WORK/err" 2>/dev/null)"
  ip netns del "$HUB" 2>/dev/null
  exit 0
fi
on_exit ip netns del "$HUB"
ip -n "$HUB" link set hub up
JOBS=1000
[ -z "${WSD_THOROUGH:-}" ] || JOBS=20000

# --- networks

space() { echo "wsd-$1-$$"; } # NAME
join() {                      # NAME ADDRESS: a network of its own, with a link to the others
  ip netns add "$(space "$1")" && on_exit ip netns del "$(space "$1")" &&
    ip -n "$HUB" link add name "$1" type veth peer name eth0 netns "$(space "$1")" && ip -n "$HUB" link set dev "$1" master hub up &&
    ip -n "$(space "$1")" addr add "10.99.0.$2/24" dev eth0 && ip -n "$(space "$1")" link set eth0 up && ip -n "$(space "$1")" link set lo up
}
cut() { # NAME: for 12 s
  ip -n "$HUB" link set dev "$1" down && sleep 12 && ip -n "$HUB" link set dev "$1" up
}
address=1
for name in s1 s2 s3 here b c eye; do
  join $name $address || {
    fail "networks" "see above"
    exit 1
  }
  address=$((address + 1))
done
in_space() { # NAME COMMAND...
  local name=$1
  shift
  ip netns exec "$(space "$name")" "$@"
}

# --- servers

NATS_URL=nats://10.99.0.1:4222,nats://10.99.0.2:4222,nats://10.99.0.3:4222
start_server() { # 1..3. By no function, so that its process is the server's
  ip netns exec "$(space "s$1")" "$NATS_SERVER" -a "10.99.0.$1" -p 4222 -js -sd "$WORK/nats-s$1" -n "s$1" -cluster "nats://10.99.0.$1:6222" --cluster_name wsd \
    -routes nats://10.99.0.1:6222,nats://10.99.0.2:6222,nats://10.99.0.3:6222 >>"$WORK/nats-s$1.log" 2>&1 &
  NATS_PIDS[s$1]=$!
  note_started $!
}
fleet() { in_space eye "$FLEET" -c /dev/null -n "$NATS_URL" "$@"; }
info() { in_space eye timeout 3 python3 "$SRC/tests/support/parts.py" "10.99.0.$1:4222" ask "\$JS.API.STREAM.INFO.$2" </dev/null; } # SERVER STREAM
# Each has a leader, and the others have what it has.
settled() {
  local stream
  for stream in WSD_JOBS WSD_RES WSD_PARTS; do
    info 1 $stream >"$WORK/info" && grep -q "'leader': 's[123]'" "$WORK/info" && [ "$(grep -o "'current': True" "$WORK/info" | wc -l)" = 2 ] && ! grep -q "'offline': True" "$WORK/info" || return 1
  done
}
leader() { # [STREAM]: prints 1..3
  info 1 "${1:-WSD_JOBS}" | grep -o "'leader': 's[123]'" | grep -o '[123]'
}
for i in 1 2 3; do start_server $i; done
made() { fleet --init --replicas 3 >"$WORK/made" 2>&1 && same 4 "$(grep -c ': made, kept by 3 servers$\|is there' "$WORK/made")"; }
check "three servers keep the streams" wait_until -t 60 made || exit 1

# --- nodes

node() { # NAME OPTION...
  FLEET_PREFIX=(ip netns exec "$(space "$1")")
  start_node "$@"
}
# For these plugins alone: each has six consumers, and three servers take a tenth of a second and more to agree on one.
takes() { node "$1" --no-out --ack-wait 2 --plugins echo,ledger; }
node here --no-in && takes b && takes c || exit 1
here() { on here "$@"; }

many() {
  rm -f "$WORK/map.out"
  (seq "$JOBS" | here wsctl map --jobs 300 @fleet/echo:echo >"$WORK/map.out" 2>"$WORK/map.err") &
  MAP=$!
  note_started $MAP
}
ended() { [ -s "$WORK/map.out" ] && [ "$(wc -l <"$WORK/map.out")" -ge "$1" ]; }
all_right() {
  wait_until -t 120 gone "$MAP"
  wait "$MAP" || {
    cat "$WORK/map.err"
    return 1
  }
  sort -n "$WORK/map.out" | cmp - <(seq "$JOBS")
}
beside() { many && wait_until ended $((JOBS / 10)) && "$@" && all_right; }
fault() { # NAME COMMAND...: while jobs are on their way
  local name=$1 second begin=$SECONDS
  shift
  second=$(fleet_counter here out second)
  beside "$@" >"$WORK/check.out" 2>&1 </dev/null || {
    fail "$name" "$(wc -l <"$WORK/map.out") of $JOBS jobs have ended"
    show "$WORK/check.out"
    return 1
  }
  ok "$name: of $JOBS jobs none lost, none twice; $(($(fleet_counter here out second) - second)) second ends dropped, the last job after $((SECONDS - begin)) s"
  wait_until -t 60 settled || fail "$name" "the servers do not settle"
}

fault "nothing happens" true || exit 1
listens() { in_space "s$1" bash -c ": </dev/tcp/10.99.0.$1/4222" 2>/dev/null; } # SERVER
check "a server that was not killed is seen to listen" listens 1
killed() { # 1..3...: at once, and started anew
  local i
  for i in "$@"; do kill_nats "s$i"; done
  for i in "$@"; do listens "$i" && return 1; done
  sleep 1
  for i in "$@"; do start_server "$i"; done
}
for i in 1 2 3; do fault "kill -9 of server $i" killed $i; done
fault "kill -9 of two of three servers at once" killed 2 3
[ -z "${WSD_THOROUGH:-}" ] || for two in '1 2' '1 3' '2 3'; do
  # shellcheck disable=SC2086
  fault "kill -9 of servers $two" killed $two
done
# Jobs that may not run twice are held, each behind its mark. Those of a node whose link is cut come to the other one, too.
held() { echo $(($(fleet_counter b in held) + $(fleet_counter c in held))); }
many_held() { [ "$(held)" -ge 20 ]; }
none_held() { [ "$(held)" = 0 ]; }
ended_once() { # COMMAND...: meanwhile
  rm -f "$WORK/gate" && : >"$WORK/ledger" || return 1
  (seq 40 | here wsctl map --unordered --keep-going --jobs 40 @fleet/ledger:after "$WORK/gate" "$WORK/ledger" {} >"$WORK/once.out" 2>"$WORK/once.err") &
  MAP=$!
  note_started $MAP
  wait_until many_held && "$@" && wait_until -t 60 settled && touch "$WORK/gate" && wait_until -t 120 gone "$MAP" || return 1
  wait "$MAP"
  interrupted=$(grep -c 'interrupted on [bc]: another node had begun it' "$WORK/once.err")
  [ -z "$(sort "$WORK/ledger" | uniq -d)" ] && same 40 $(($(wc -l <"$WORK/once.out") + interrupted)) && wait_until none_held
}
not_twice() { # NAME COMMAND...
  local name="jobs that may not run twice: $1"
  shift
  if ended_once "$@" >"$WORK/check.out" 2>&1 </dev/null; then
    ok "$name: none did, $interrupted of 40 were interrupted"
  else
    fail "$name" "$(sort "$WORK/ledger" | uniq -d | wc -l) ran twice"
    show "$WORK/check.out"
  fi
}
not_twice "the server that leads their marks dies" killed "$(leader WSD_RES)"
[ -z "${WSD_THOROUGH:-}" ] || not_twice "the link of their node is cut" cut b
fault "the link of a node is cut for 12 s" cut b
fault "the link of the server that leads" cut "s$(leader)"
fault "the link of the sender" cut here
empty() { fleet --status | grep -qE '^jobs +0 '; }
check "nothing is left in the stream" wait_until -t 100 empty
check "all leave in order" end_fleet
