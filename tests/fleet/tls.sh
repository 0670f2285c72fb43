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
permitted() { ! logs_of "$1" | grep -i 'permission'; }
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
check "a node cannot hear another's ends" wait_until denied there 'wsd\.res\.here'
said_by_server() { grep -q "Subscription Violation.*$1" "$WORK/nats-users.log"; }
check "nor its answers" wait_until said_by_server '_INBOX\.here'
check "it leaves, too" end_fleet
