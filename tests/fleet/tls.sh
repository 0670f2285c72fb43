#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# tls.sh: a fleet by TLS, with certificates of nodes, and with users whose permissions are those of wsd-fleet(8): what is
# wrong is refused with words that help.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/ca.sh"
. "$(dirname "$0")/../support/fleet.sh"

command -v openssl >/dev/null || {
  skip "a fleet by TLS" "no openssl command here"
  exit 0
}
ca_new good && ca_new bad || exit 1
ca_sign good server localhost 'extendedKeyUsage = serverAuth\nsubjectAltName = DNS:localhost, IP:127.0.0.1' || exit 1
ca_sign good node node 'extendedKeyUsage = clientAuth' || exit 1
ca_sign bad node node 'extendedKeyUsage = clientAuth' || exit 1
TRUST=(--tls-ca "$WORK/good/ca.pem")
node_of() { echo --tls-cert "$WORK/$1/node.pem" --tls-key "$WORK/$1/node.key"; } # CA
read -ra NODE < <(node_of good)
read -ra STRANGER < <(node_of bad)

listen_by_tls() { # NAME VERIFY
  cat >"$WORK/$1.conf" <<END
tls { cert_file: "$WORK/good/server.pem", key_file: "$WORK/good/server.key", ca_file: "$WORK/good/ca.pem", verify: $2 }
END
  start_nats "$1" -c "$WORK/$1.conf"
}
fleet() { "$FLEET" -c /dev/null -n "$NATS_URL" "$@"; }

# --- the servers' certificate -----------------------------------------------------------------------------------------

listen_by_tls plain false || exit 1
check "a server by TLS wants a name for its CA" says 69 "name the certificate that has signed the server's in \[fleet\] tls-ca" fleet --status
check "also when it runs" says 69 "in \[fleet\] tls-ca" fleet --no-out
check "another CA's certificate is refused" says 69 'tls-ca have not signed that of the server' fleet --tls-ca "$WORK/bad/ca.pem" --status
check "a CA that is no certificate" says 69 'it has to be a file in PEM' fleet --tls-ca "$WORK/plain.conf" --status
check "a file that is not there" says 66 'tls-ca: /no/such: No such file' fleet --tls-ca /no/such --status
check "the streams are made by TLS" fleet "${TRUST[@]}" --init
start_node here --no-in "${TRUST[@]}" || exit 1
start_node there --no-out "${TRUST[@]}" || exit 1
here() { on here "$@"; }
check "a job runs by TLS" expect_output 6765 here wsctl submit @fleet/fib 20
check "all leave in order" end_fleet
kill_nats plain

# --- the nodes' own ---------------------------------------------------------------------------------------------------

listen_by_tls strict true || exit 1
check "a server that wants one of each node" says 69 'if it wants a certificate of this node: \[fleet\] tls-cert' fleet "${TRUST[@]}" --status
check "and not of another CA" says 69 'does not take the certificate of \[fleet\] tls-cert' fleet "${TRUST[@]}" "${STRANGER[@]}" --status
check "a key of another certificate" says 69 'a key has to fit its certificate' fleet "${TRUST[@]}" --tls-cert "$WORK/good/node.pem" --tls-key "$WORK/bad/node.key" --status
check "with the right one it is served" fleet "${TRUST[@]}" "${NODE[@]}" --init
start_node_fleet here --no-in "${TRUST[@]}" "${NODE[@]}" || exit 1
start_node_fleet there --no-out "${TRUST[@]}" "${NODE[@]}" || exit 1
check "and a job runs" expect_output 6765 here wsctl submit @fleet/fib 20
check "all of these leave in order" end_fleet
check "credentials that are not there" says 66 'creds: /no/such: No such file' fleet --creds /no/such --status
check "credentials that are none" says 69 'creds has to be a file as nsc writes it' fleet "${TRUST[@]}" "${NODE[@]}" --creds "$WORK/strict.conf" --status
kill_nats strict

# --- users of the servers ---------------------------------------------------------------------------------------------

# The lists of wsd-fleet(8), with other names.
sed -n '/^authorization {/,/^}/p' "$SRC/packaging/man/wsd-fleet.8" | sed 's/\\-/-/g; s/\\(dq/"/g' >"$WORK/users.conf"
start_nats users -c "$WORK/users.conf" || exit 1
as() { NATS_URL=nats://$1:secret@127.0.0.1:${NATS_PORTS[users]}; } # USER
nothing_waits() { as admin && fleet --status | grep -qE '^jobs +0 '; }
as nobody
check "a user that the server does not know" says 69 'name a user of the servers in \[fleet\] creds' fleet --status
as admin
check "the streams are made by one who may" fleet --init
as here
start_node_fleet here || exit 1
as there
start_node_fleet there || exit 1
logs_of() { cat "$WORK/node-$1/fleet.log"; }
permitted() { grep -q "connected to NATS" "$WORK/node-$1/fleet.log" && ! grep -i permission "$WORK/node-$1/fleet.log"; } # denied() shows that it would be there
check "a job runs by these permissions" expect_output 6765 here wsctl submit @fleet/fib 20
check "one that may not run twice, too" expect_output x here wsctl submit @fleet/echo x
large() { head -c 3000000 /dev/urandom >"$WORK/in" && here wsctl submit -i "$WORK/in" @fleet/echo | cmp - "$WORK/in"; }
check "and one larger than a message" large
check "here did nothing that is not permitted" permitted here
check "a node that may not hand out waits" says 124 '' on there wsctl submit --timeout 1s @fleet/fib 20
denied() { logs_of "$1" | grep -q "Permissions Violation.*$2"; }
check "its log names the subject" wait_until denied there 'wsd\.job'
check "and no job came" nothing_waits
check "all of them leave in order" end_fleet
as there
start_node_fleet there -N here --no-in || exit 1 # under the name of another node
said_by_server() { grep -q "Subscription Violation.*$1" "$WORK/nats-users.log"; }
check "a node cannot hear another's ends" wait_until said_by_server 'wsd\.res\.here'
check "nor what its jobs say" wait_until said_by_server 'wsd\.live\.here'
check "nor its answers" wait_until said_by_server '_INBOX\.here'
check "it leaves, too" end_fleet

# --- what a user can read, by messages made by hand ---------------------------------------------------------------------

as here
start_node_fleet here || exit 1
as there
start_node_fleet there --no-out || exit 1
as desk
start_node desk --no-in || exit 1
user() { # NAME COMMAND...: a connection of that user
  local name=$1
  shift
  python3 "$SRC/tests/support/parts.py" "$name:secret@127.0.0.1:${NATS_PORTS[users]}" "$@"
}
desk() { on desk "$@"; }
all_answer() { [ "$(fleet --status --json | grep -oE '"node":"(here|there|desk)"' | sort -u | wc -l)" = 3 ]; }
lists_all() { as admin && wait_until all_answer && as desk; }
check "all of these say that they are there" lists_all
check "a user that only hands out has its results" expect_output 6765 desk wsctl submit @fleet/fib 20
large_desk() { desk wsctl submit -i "$WORK/in" @fleet/echo | cmp - "$WORK/in"; }
check "and large ones" large_desk
check "and those of a key" expect_output x desk wsctl submit --key k @fleet/echo x
check "all by what it is permitted" permitted desk
progress_desk() {
  local id
  id=$(desk wsctl submit --detach @fleet/spin) && wait_until has_progress "$id" && desk wsctl cancel "$id"
}
has_progress() { desk wsctl --json status "$1" | grep -q '"done":'; } # ID
check "and the progress of its jobs" progress_desk
secret_of() { # NODE: its result, whose id is $id
  id=$(on "$1" wsctl submit --detach @fleet/echo "secret of $1") && on "$1" wsctl await "$id" >/dev/null
}
reads_own() { secret_of desk && user desk read "\$JS.API.DIRECT.GET.WSD_RES.wsd.res.desk.$id" _INBOX.desk.x </dev/null | grep -qa 'secret of desk'; }
check "it can read a stored result of its own" reads_own
reads_no_other() { secret_of here && user desk read "\$JS.API.DIRECT.GET.WSD_RES.wsd.res.here.$id" _INBOX.desk.x </dev/null | grep -qax no; }
check "and none of another node" reads_no_other
taker_reads() { secret_of desk && user there read "\$JS.API.DIRECT.GET.WSD_RES.wsd.res.desk.$id" _INBOX.there.x </dev/null | grep -qa 'secret of desk'; }
check "so can a node that takes jobs, to see which have ended" taker_reads
may_not() { # USER pub|sub SUBJECT...: that user may not what one without permissions may
  local name=$1 way=$2 subject
  shift 2
  for subject in "$@"; do
    [ "$(user admin may "$way" "$subject")" = yes ] || {
      echo "not even admin may $way $subject"
      return 1
    }
    [ "$(user "$name" may "$way" "$subject")" = no ] || {
      echo "$name may $way $subject"
      return 1
    }
  done
}
A='$JS.API'
may() { same yes "$(user desk may pub wsd.job.00.norm.echo)" && same yes "$(user desk may sub 'wsd.res.desk.*')"; }
check "what it is permitted is seen as such" may
others_results() {
  secret_of here && may_not desk pub "$A.DIRECT.GET.WSD_RES" "$A.DIRECT.GET.WSD_RES.wsd.res.here.$id" "$A.DIRECT.GET.WSD_RES.wsd.res.here.*" \
    "$A.DIRECT.GET.WSD_RES.wsd.res.*.$id" "$A.DIRECT.GET.WSD_RES.wsd.res.*.*" "$A.DIRECT.GET.WSD_RES.wsd.res.>" "$A.DIRECT.GET.WSD_RES.>" "$A.DIRECT.GET.WSD_RES.wsd.res.begun.$id" \
    "$A.STREAM.MSG.GET.WSD_RES" "$A.STREAM.INFO.WSD_RES" "$A.STREAM.UPDATE.WSD_RES" "$A.STREAM.SNAPSHOT.WSD_RES" "$A.STREAM.CREATE.MIRROR" \
    "$A.CONSUMER.CREATE.WSD_RES" "$A.CONSUMER.CREATE.WSD_RES.x" "$A.CONSUMER.CREATE.WSD_RES.x.wsd.res.here.>" "$A.CONSUMER.DURABLE.CREATE.WSD_RES.x" "$A.CONSUMER.MSG.NEXT.WSD_RES.x"
}
check "it cannot ask for another user's" others_results
parts_of_others() {
  may_not desk pub "$A.DIRECT.GET.WSD_PARTS" "$A.DIRECT.GET.WSD_PARTS.wsd.part.*.out.*.*" "$A.DIRECT.GET.WSD_PARTS.wsd.part.here.*.out.*.*" "$A.DIRECT.GET.WSD_PARTS.wsd.part.>" \
    "$A.DIRECT.GET.WSD_PARTS.wsd.part.*.*.out.*.0" "$A.STREAM.MSG.GET.WSD_PARTS" "$A.CONSUMER.CREATE.WSD_PARTS" "$A.CONSUMER.DURABLE.CREATE.WSD_PARTS.x" "$A.STREAM.INFO.WSD_PARTS" &&
    may_not there pub "$A.DIRECT.GET.WSD_PARTS.wsd.part.here.*.out.*.*" "$A.DIRECT.GET.WSD_PARTS.wsd.part.>" && may_not here pub "$A.DIRECT.GET.WSD_PARTS.wsd.part.desk.*.out.*.*"
}
check "nor for parts of its outputs, which no other node can" parts_of_others
large_outputs() { # are in parts of that name
  local end
  end=$(desk wsctl submit --detach -i "$WORK/in" @fleet/echo) && desk wsctl await "$end" | cmp - "$WORK/in"
}
check "large outputs still come" large_outputs
listens() {
  may_not desk sub '>' 'wsd.>' 'wsd.res.>' 'wsd.res.*.*' 'wsd.res.here.*' "wsd.res.here.$id" 'wsd.live.>' 'wsd.live.here.*' 'wsd.part.>' 'wsd.job.>' \
    '_INBOX.>' '_INBOX.*.>' '_INBOX.here.>' '$JS.>' '$JS.API.>' '$JS.ACK.>' '$SYS.>'
}
check "it cannot hear them" listens
forged() { may_not desk pub "wsd.res.here.$id" "wsd.res.desk.$id" "wsd.res.begun.$id" "wsd.live.here.$id" 'wsd.part.here.x-1.out.0.0' '$JS.ACK.WSD_JOBS.norm_echo.1.1.1.0.0' wsd.dead.echo; }
check "nor store or tell one" forged
jobs_of_others() { may_not desk pub "$A.STREAM.MSG.GET.WSD_JOBS" "$A.CONSUMER.MSG.NEXT.WSD_JOBS.norm_echo" "$A.CONSUMER.CREATE.WSD_JOBS" "$A.CONSUMER.DELETE.WSD_JOBS.norm_echo"; }
check "nor read or take a job" jobs_of_others
purges() {
  local n
  for n in here there desk; do may_not $n pub "$A.STREAM.PURGE.WSD_JOBS" "$A.STREAM.DELETE.WSD_JOBS" "$A.STREAM.UPDATE.WSD_JOBS" || return 1; done
}
check "no node can purge jobs" purges
check "all leave at the end" end_fleet
