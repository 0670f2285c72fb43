#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# tls.sh: clients of other machines. Who they are is what their certificate and the user map say; what is wrong with either is
# refused, also on connections that are open; nothing is ever said in the clear; what does not shake hands holds up nobody.
. "$(dirname "$0")/../support/lib.sh"
. "$(dirname "$0")/../support/ca.sh"

[ "$(id -u)" = 0 ] || {
  skip "clients of other machines" "only root can serve several users"
  exit 0
}
command -v openssl >/dev/null || {
  skip "clients of other machines" "no openssl command here"
  exit 0
}
[ -e "$BUILD/daemon/tls/wsd-tls.so" ] || {
  skip "clients of other machines" "this build has no TLS"
  exit 0
}

CLIENT='extendedKeyUsage = clientAuth'
ca_new good && ca_new bad || exit 1
ca_sign good server localhost 'extendedKeyUsage = serverAuth\nsubjectAltName = DNS:localhost, IP:127.0.0.1' || exit 1
ca_sign good everywhere localhost 'extendedKeyUsage = serverAuth\nsubjectAltName = DNS:localhost, IP:127.0.0.1, IP:::1' || exit 1
ca_sign good elsewhere elsewhere 'extendedKeyUsage = serverAuth\nsubjectAltName = DNS:elsewhere' || exit 1
ca_sign good alice 'alice = of the lab' "$CLIENT" || exit 1
ca_sign good bob nobody-in-particular "$CLIENT\nsubjectAltName = URI:spiffe://lab/bob, email:bob@lab" || exit 1
ca_sign good carol carol "$CLIENT" || exit 1
ca_sign good stranger stranger "$CLIENT" || exit 1
ca_sign good old 'alice = of the lab' "$CLIENT" -startdate 20200101000000Z -enddate 20200102000000Z || exit 1
ca_sign good early 'alice = of the lab' "$CLIENT" -startdate 20980101000000Z -enddate 20990101000000Z || exit 1
ca_sign good gone 'alice = of the lab' "$CLIENT" || exit 1
ca_sign bad alice 'alice = of the lab' "$CLIENT" || exit 1
ca_revoke good gone || exit 1

# names and chains that are not as usual
LONG=URI:$(head -c 251 /dev/zero | tr '\0' x) # as long as a name may be
ca_sign good longest stranger "$CLIENT\nsubjectAltName = $LONG" || exit 1
ca_sign good longer x "$CLIENT\nsubjectAltName = ${LONG}x" "${CA_VALID[@]}" -policy none || exit 1
ca_sign good nameless x "$CLIENT" "${CA_VALID[@]}" -policy none || exit 1
ca_sign good escape $'carol\e[2J' "$CLIENT" || exit 1
ca_sign good line $'stranger\nCN:carol' "$CLIENT" || exit 1
ca_sign good two 'stranger/CN=carol/CN=alice = of the lab' "$CLIENT" || exit 1
ca_sign good signer carol 'extendedKeyUsage = codeSigning' || exit 1
ca_sign good sealer carol "$CLIENT\nkeyUsage = keyCertSign" || exit 1
ca_chain good/alice by-alice carol "$CLIENT" || exit 1
issuer=good/ca
for name in one two-deep three four five; do
  ca_chain $issuer chain-$name chain-$name 'basicConstraints = critical, CA:true' || exit 1
  issuer=good/chain-$name
done
ca_chain $issuer deep carol "$CLIENT" || exit 1

MAP=$WORK/users
cat >"$MAP" <<END
# who is who
CN:alice = of the lab = games
URI:spiffe://lab/bob = backup
CN:carol = news
CN:nobody-in-particular = news
$LONG = news
END

PORT=0 LISTEN=localhost SERVER=server
configure() { # MORE [MAP]
  printf '[daemon]\nsystem = yes\n[tls]\nlisten = %s:%s\n%b' "$LISTEN" "$PORT" "$1" >"$WSD_CONFIG"
  printf '%s = %s\n' certificate "$WORK/good/$SERVER.pem" key "$WORK/good/$SERVER.key" ca "$WORK/good/ca.pem" \
    crl "$WORK/good/crl.pem" user-map "$MAP" >>"$WSD_CONFIG"
}
start_listening() {
  PORT=$(free_port)
  configure "$1"
  start_wsd --workers 2 --plugin-dir "$TEST_PLUGINS" || exit 1
}
become() { # CERTIFICATE: one of the good CA's, or CA/NAME
  local who=$1
  case $who in */*) ;; *) who=good/$who ;; esac
  unset WSD_SOCKET
  export WSD_HOST=localhost:$PORT WSD_TLS_CERT=$WORK/$who.pem WSD_TLS_KEY=$WORK/$who.key WSD_TLS_CA=$WORK/good/ca.pem
}
as() ( # CERTIFICATE WSCTL-ARGUMENT...
  become "$1"
  shift
  exec "$WSCTL" "$@"
)
waits() { # CERTIFICATE: a job that is awaited on an open connection, by the process $waiting
  (become "$1" && exec "$WSCTL" submit spin:spin) >"$WORK/$1.out" 2>"$WORK/$1.err" &
  waiting=$!
  note_started "$waiting"
  wait_until eval '[ "$(counter jobs_open)" = 1 ]'
}
waiting_ends() { # CODE WORDS: it ends with them
  local status=0
  wait_for_exit "$waiting" || status=$?
  cat "$WORK"/*.err
  [ "$status" = "$1" ] && grep -qE -e "$2" "$WORK"/*.err
}
n_connections() { # N, beside the one that asks
  [ "$(counter connections)" = $(($1 + 1)) ]
}
uid_of_job() { # ID
  "$WSCTL" --json status "$1" | grep -o '"uid":[0-9]*' | cut -d: -f2
}

start_listening ''

# --- who may --------------------------------------------------------------------------------------------------------------

is_user() { # CERTIFICATE USER
  local id
  id=$(as "$1" submit --detach echo x) && [ "$(uid_of_job "$id")" = "$(id -u "$2")" ]
}
by_options() {
  env -u WSD_SOCKET "$WSCTL" --host "127.0.0.1:$PORT" --tls-cert "$WORK/good/alice.pem" --tls-key "$WORK/good/alice.key" \
    --tls-ca "$WORK/good/ca.pem" submit fib 20
}
check "a good certificate submits" expect_output 6765 as alice submit fib 20
check "by options, and the server's address" expect_output 6765 by_options
page_from_there() { # of the wsd that the options name, though another socket is in the environment
  local place web r
  WSD_SOCKET=$WORK/none "$WSCTL" --host "localhost:$PORT" --tls-cert "$WORK/good/alice.pem" --tls-key "$WORK/good/alice.key" \
    --tls-ca "$WORK/good/ca.pem" web --no-open >"$WORK/page" &
  web=$!
  note_started $web
  wait_until grep -q token "$WORK/page" || return 1
  place=$(cat "$WORK/page")
  curl -sS --max-time $((20 * TIME_SCALE)) -H "Authorization: Bearer ${place#*token=}" "${place%%#*}api/look" | grep '"counters"'
  r=$?
  kill $web
  wait_for_exit $web && return $r
}
if [ -x "$BUILD/daemon/web/wsd-web" ] && command -v curl >/dev/null; then
  check "wsctl web shows that wsd" page_from_there
else
  skip "wsctl web shows that wsd" "wsd-web was not built, or there is no curl"
fi
check "is the user that the map gives its common name" is_user alice games
check "or another name, the first line of the map first" is_user bob backup
check "and sees only his own" eval 'id=$(as alice submit --detach spin:spin) && refused 66 "no such job" as bob status $id && as alice cancel $id'
check "one of another CA is refused" refused 77 'refuses our certificate: unknown CA' as bad/alice ping
check "an expired one" refused 77 'refuses our certificate: certificate expired' as old ping
check "one that is not valid yet" refused 77 'refuses our certificate' as early ping
check "a revoked one" refused 77 'refuses our certificate: certificate revoked' as gone ping
check "a server's" refused 77 'refuses our certificate: unsupported certificate' as server ping
check "one that is in no line of the map" refused 77 '\[tls\] user-map in wsd.conf' as stranger ping
check "each is in the log, with the reason" wait_until eval 'logged "127.0.0.1 port .*certificate has expired" && logged "certificate revoked" && logged "CN:stranger.*no user here"'
certificate_refused() { # CERTIFICATE WORDS LOG: nobody is hurt by it
  refused 77 "$2" as "$1" ping && wait_until logged "connection of 127.0.0.1 port [0-9]*[,:] $3" && as bob ping
}
waits bob
check "one without a name" certificate_refused nameless 'user-map' 'whose certificate has no name of printable text, is refused'
check "one whose name has an escape" eval "certificate_refused escape user-map 'whose certificate has no name' && ! grep -q \$'\e' \"\$WSD_LOG\""
check "one whose name has a line of its own" certificate_refused line 'user-map' 'whose certificate has no name'
check "one whose name begins like that of another, and is too long" certificate_refused longer 'user-map' 'whose certificate has no name'
check "a name may be as long as that of a line" is_user longest news
check "of several names each counts, by the first line of the map" is_user two games
check "one for signing code" certificate_refused signer 'refuses our certificate: unsupported certificate' 'its certificate is refused: un(suitable|supported) certificate purpose'
check "one whose key may only sign certificates" certificate_refused sealer 'refuses our certificate: unsupported certificate' 'its certificate is refused: un(suitable|supported) certificate purpose'
check "one that another client has signed" certificate_refused by-alice 'refuses our certificate' 'its certificate is refused: invalid CA certificate'
check "a chain that is too long" certificate_refused deep 'refuses our certificate' 'its certificate is refused: certificate chain too long'
check "a job of another client goes on meanwhile" eval '[ "$(counter jobs_open)" = 1 ] && kill -KILL "$waiting" && wait_until counter_is jobs_open 0'
check "a client without a certificate says what it needs" refused 64 'WSD_TLS_CERT' env -u WSD_SOCKET WSD_HOST="localhost:$PORT" "$WSCTL" ping
check "a key that everybody can read" eval 'chmod 644 "$WORK/good/carol.key"; refused 66 "others can read it: chmod 600" as carol ping; r=$?; chmod 600 "$WORK/good/carol.key"; (exit $r)'
wrong_server() {
  env -u WSD_SOCKET "$WSCTL" --host "$1:$PORT" --tls-cert "$WORK/good/alice.pem" --tls-key "$WORK/good/alice.key" \
    --tls-ca "$WORK/$2/ca.pem" ping
}
check "a server of another CA is refused by the client" refused 77 'its certificate is refused: .*self-signed certificate' wrong_server localhost bad
if (exec 3<>"/dev/tcp/::1/$PORT") 2>/dev/null; then
  check "and one that is not the host that was named" refused 77 'its certificate is refused: .*IP address mismatch' wrong_server '[::1]' good
else
  skip "and one that is not the host that was named" "no IPv6 here"
fi
high_port() { # wsd does not begin
  local PORT=65536
  configure ''
  says 74 'listen: localhost:65536: a port is at most 65535' timeout $((20 * TIME_SCALE)) "$WSD" --config "$WSD_CONFIG" --socket "$WORK/high.sock" \
    --state-dir "$WORK/high" --executor "$EXECUTOR" --spawner "$SPAWNER"
}
check "a wsd at a port that there is not" high_port
configure ''
check "a port that there is not" refused 64 'a port is at most 65535' "$WSCTL" --host localhost:65536 ping
check "nobody there" refused 69 'refused' env WSD_HOST=localhost:1 WSD_TLS_CERT="$WORK/good/alice.pem" WSD_TLS_KEY="$WORK/good/alice.key" WSD_TLS_CA="$WORK/good/ca.pem" "$WSCTL" ping

as_the_manual_says() { # the example of wsctl(1), as printed, but for the host
  mkdir "$WORK/example" && cd "$WORK/example" && cp ../good/ca.pem ../good/alice.{pem,key} . && seq 1000 >notes.txt || return 1
  sed -n '/^.SH A WSD ON ANOTHER MACHINE/,/^.EE/p' "$SRC/packaging/man/wsctl.1" | grep -v '^\.' |
    sed "s/\\\\-/-/g; s/build.example.org:7373/localhost:$PORT/" >script && [ -s script ] &&
    (unset WSD_SOCKET && bash -eu -o pipefail script) | cmp - notes.txt
}
check "the example of the manual" eval '(as_the_manual_says)'

# --- what they cannot ---------------------------------------------------------------------------------------------------------

echo secret >"$WORK/secret"
chmod 644 "$WORK/secret"
no_file() { # OPTION...
  local status=0
  as alice submit "$@" checksum "$WORK/secret" >"$WORK/said" 2>"$WORK/err" || status=$?
  cat "$WORK/said" "$WORK/err"
  [ "$status" != 0 ] && [ ! -s "$WORK/said" ] && grep -q 'secret: Object is remote' "$WORK/err"
}
check "no file of this machine is opened for an argument" no_file
check "nor for a durable job" no_file --durable
refused_there() { # FILE COMMAND...: a relay has been started; the job ends with what the end by TLS says
  local file=$1 status=0
  shift
  "$@" submit checksum "$file" >"$WORK/said" 2>"$WORK/err" || status=$?
  kill "$BACKGROUND_PID" 2>/dev/null
  cat "$WORK/said" "$WORK/err"
  [ "$status" != 0 ] && [ ! -s "$WORK/said" ] && grep -q 'Object is remote' "$WORK/err"
}
relay_to_tls() { # PATH: of a socket that leads to wsd by TLS
  rm -f "$1"
  background "$SRC/tests/support/shims/relay.py" to-tls "$1" "localhost:$PORT" "$WORK"/good/{alice.pem,alice.key,ca.pem}
  wait_until test -S "$1"
}
by_tls() { # a client that would open it, if it were asked
  relay_to_tls "$WORK/relay" && refused_there "$WORK/secret" env -u WSD_HOST WSD_SOCKET="$WORK/relay" "$WSCTL"
}
check "wsd asks no client of another machine for a file" by_tls
from_elsewhere() { # a wsd that asks its client for one
  local port=$((PORT + 1))
  chmod 755 "$WORK" "$(dirname "$WSD_SOCKET")" && chmod 666 "$WSD_SOCKET"
  background "$SRC/tests/support/shims/relay.py" from-tls "$port" "$WSD_SOCKET" "$WORK"/good/{server.pem,server.key,ca.pem} games
  wait_until listens "$port" && PORT=$port refused_there "$WORK/secret" as alice
}
listens() { # PORT
  grep -q "0100007F:$(printf %04X "$1") 00000000:0000 0A" /proc/net/tcp
}
check "and a client opens none for a wsd of another machine" from_elsewhere
check "input goes" expect_output "$(sha256sum <"$WORK/secret")" as alice submit --input "$WORK/secret" checksum
check "no plugin by path" refused 77 'not for clients of other machines' as alice submit "$PLUGINS/fib.so" 5
check "nor shown, nor loaded anew" eval 'refused 77 "other machines" as alice plugin show "$PLUGINS/fib.so" && refused 77 "other machines" as alice plugin reload ./x'
check "nor released, nor scheduled" eval 'refused 77 "other machines" as alice plugin release ./x && refused 77 "other machines" as alice schedule add far --on daily "$PLUGINS/fib.so"'
dead_one() { # of alice; for whom no rule names there is none
  local dead
  dead=$(as alice submit --durable --detach --retries 1 --retry-delay 5ms echo:status 9) && echo "$dead" >"$WORK/dead" && expect_exit 9 as alice await "$dead" 2>/dev/null &&
    as alice --json dead list | grep "$dead" && refused 66 'no such job' as bob dead requeue "$dead" &&
    refused 66 'no such job' as bob dead drop "$dead" && [ -z "$(as bob --json dead list)" ]
}
by_rule() { # it runs again, as hers
  local n dead
  n=$(counter jobs_failed)
  dead=$(cat "$WORK/dead")
  configure '[access]\nsee = backup\ncancel = backup\n[tls]\n' && reload_config && as bob --json dead list | grep "$dead" &&
    refused 66 'no such job' as carol dead requeue "$dead" && as bob dead requeue "$dead" &&
    wait_until eval '[ "$(counter jobs_failed)" = '$((n + 1))' ]' && [ "$(uid_of_job "$dead")" = "$(id -u games)" ] &&
    as bob dead drop "$dead" && refused 66 'no such job' as alice status "$dead"
  local r=$?
  configure '' && reload_config && return $r
}
check "a dead job is not another's to queue again or drop" dead_one
check "but his whom [access] cancel names, from another machine, too" by_rule
check "they administer nothing" refused 77 'access\] administer' as alice pause

# --- much of it ------------------------------------------------------------------------------------------------------------

head -c 48000000 /dev/urandom >"$WORK/big"
check "48 MB both ways, byte for byte" eval 'as alice submit --input "$WORK/big" echo | cmp - "$WORK/big"'
many() {
  seq 3000 | as alice map -j 500 echo '{}' >"$WORK/said" && seq 3000 | cmp - "$WORK/said"
}
check "3,000 jobs on one connection" many
direct() { # wsd_call(), which has no lane there
  as alice bench --connections 4 --in-flight 8 --count 2000 fib:nothing
}
check "2,000 on four connections" direct
in_a_loop() { # CERTIFICATE N
  (become "$1" && exec "$BUILD/client/examples/example-epoll" direct direct "$2")
}
check "2,000 in an event loop" expect_output "2000 calls, 2000 succeeded" in_a_loop alice 2000
# It tries again and again, and holds nothing of the tries before.
refused_times() { # N
  [ "$(n_logged 'its certificate is refused')" -ge $((before + $1)) ]
}
tries_again() {
  local n all
  (become bad/alice && exec "$BUILD/client/examples/example-epoll" direct direct 1) &
  note_started $!
  wait_until refused_times 3 || return 1
  all=("/proc/$!/fd"/*) n=${#all[@]}
  wait_until refused_times 7 || return 1
  all=("/proc/$!/fd"/*)
  echo "$n descriptors, then ${#all[@]}"
  [ $((${#all[@]} - n)) -le 2 ] && kill $!
}
before=$(n_logged "its certificate is refused")
check "a refused one tries again" tries_again
goes() {
  waits alice && kill -KILL "$waiting" && wait_until eval '[ "$(counter jobs_open)" = 0 ]'
}
check "a job of a client that goes is cancelled" goes
# A client that takes nothing for two minutes is gone; here that is made a second, on the connection itself.
takes_nothing() {
  # shellcheck disable=SC2046,SC2216 # sleep is to take nothing
  (become alice && exec "$WSCTL" map -j 200 bigoutput ::: $(yes 500000 | head -n 200)) 2>/dev/null | sleep 1000 &
  note_started $!
  wait_until eval '[ "$(counter bytes_unread)" -gt 1000000 ]' && wait_until eval '[ "$(counter jobs_handed_over)" = 0 ]' || return 1
  expect_output 120000 "$SRC/tests/support/clients/user-timeout.py" "$WSD_PID" "$PORT" && "$SRC/tests/support/clients/user-timeout.py" "$WSD_PID" "$PORT" 1000 &&
    wait_until n_connections 0 && wait_until counter_is results_being_read 0
}
check "one that takes nothing is closed in time" takes_nothing

# --- who says something else ---------------------------------------------------------------------------------------------------

wait_until n_connections 0
plaintext() {
  printf 'GET / HTTP/1.1\r\n\r\n' | timeout 20 bash -c 'exec 3<>/dev/tcp/127.0.0.1/$0; cat >&3; cat <&3' "$PORT" >"$WORK/said"
  ! grep -qa 'wsd\|HTTP' "$WORK/said" && wait_until n_connections 0 && as alice ping
}
frames_in_the_clear() {
  "$BUILD/tests/support/clients/capture" | timeout 20 bash -c 'exec 3<>/dev/tcp/127.0.0.1/$0; cat >&3; cat <&3' "$PORT" >"$WORK/said"
  wait_until n_connections 0 && [ "$(counter jobs_open)" = 0 ] && ! grep -qa 'wsd' "$WORK/said"
}
s_client() { # OPTION...
  timeout 20 openssl s_client -connect "127.0.0.1:$PORT" -CAfile "$WORK/good/ca.pem" "$@" >"$WORK/said" 2>&1
}
garbage_inside() {
  head -c 100000 /dev/urandom | s_client -quiet -no_ign_eof -cert "$WORK/good/alice.pem" -key "$WORK/good/alice.key"
  wait_until logged 'is closed: ' && wait_until n_connections 0 && as alice ping # it may be on its way, and not counted yet
}
check "plain text gets no answer" plaintext
check "frames in the clear run nothing" frames_in_the_clear
check "garbage inside of TLS costs its connection" garbage_inside
check "TLS 1.2 is refused" eval '! s_client -tls1_2 -cert "$WORK/good/alice.pem" -key "$WORK/good/alice.key" </dev/null && grep -q "alert protocol version" "$WORK/said"'
check "no certificate, no service" eval 's_client </dev/null; "$BUILD/tests/support/clients/capture" | s_client -quiet -no_ign_eof; wait_until logged "it has no certificate" && wait_until n_connections 0'
check "no session is given to be resumed" eval 'sleep 0; (sleep 1) | s_client -cert "$WORK/good/alice.pem" -key "$WORK/good/alice.key"; ! grep -q "Session Ticket arrived\|New Session" "$WORK/said" || ! grep -q "Post-Handshake New Session Ticket" "$WORK/said"'
stop_wsd

# --- who does not say enough -----------------------------------------------------------------------------------------------------

start_listening 'max-handshakes = 3\nhandshake-timeout = 2s\n[tls]\n'
hold() { # N: connections that say nothing
  local i fd
  for ((i = 0; i < $1; i++)); do
    exec {fd}<>"/dev/tcp/127.0.0.1/$PORT" && held+=("$fd")
  done
}
let_go() {
  local fd
  for fd in ${held[@]+"${held[@]}"}; do exec {fd}>&-; done
  held=()
}
held=()
ended() { # FD: wsd has closed it
  ! read -r -t $((20 * TIME_SCALE)) -n 1 <&"$1"
}
hold 3
wait_until n_connections 3
check "local clients do not notice" "$WSCTL" ping
check "those that do not shake hands in time go" wait_until n_connections 0
check "and others get in" as alice ping
let_go
slow() { # half of a handshake, a byte at a time
  openssl s_client -connect "127.0.0.1:$PORT" -tls1_3 -msg </dev/null >/dev/null 2>&1
  exec 3<>"/dev/tcp/127.0.0.1/$PORT"
  printf '\x16\x03\x01\x02' >&3
  wait_until n_connections 1 && as alice ping && printf '\x00' >&3 && wait_until n_connections 0 &&
    wait_until logged 'no handshake in time'
}
check "half a handshake, dripping, goes at its time" slow
exec 3>&-
stop_wsd

# None of these goes by itself: the handshake that does was the oldest of those of the address that has the most.
start_listening 'max-handshakes = 3\nhandshake-timeout = 1h\n[tls]\n'
at_most() { # another one takes the place of the oldest
  wait_until n_connections 0 && hold 3 && wait_until n_connections 3 && hold 1 && ended "${held[0]}" && n_connections 3
}
check "as many handshakes at a time as max-handshakes, and no more" at_most
let_go
same_address() {
  wait_until n_connections 0 && hold 3 && wait_until n_connections 3 && as alice ping && as alice submit fib 20 && wait_until n_connections 2 &&
    ended "${held[0]}"
}
check "those of one address keep out no other client of it" same_address
let_go
stop_wsd
LISTEN='' SERVER=everywhere
start_listening 'max-handshakes = 3\nhandshake-timeout = 1h\n[tls]\n'
from_elsewhere_yet() {
  wait_until n_connections 0 && hold 3 && wait_until n_connections 3 &&
    (become alice && WSD_HOST="[::1]:$PORT" exec "$WSCTL" ping) && wait_until n_connections 2 && ended "${held[0]}"
}
if (exec 3<>"/dev/tcp/::1/$PORT") 2>/dev/null; then
  check "one address that holds all handshakes keeps out no other" from_elsewhere_yet
else
  skip "one address that holds all handshakes keeps out no other" "no IPv6 here"
fi
let_go
stop_wsd
LISTEN=localhost SERVER=server
start_listening 'max-handshakes = 3\nhandshake-timeout = 2s\n[tls]\n'

# --- who does not read ---------------------------------------------------------------------------------------------------

stop_wsd
start_listening '[limits]\nmax-unread-per-user = 4M\n[tls]\n'
not_read() {
  relay_to_tls "$WORK/relay" && WSD_PID=$WSD_PID WSD_RELAY=$WORK/relay "$BUILD/tests/support/clients/crowd" outputs_that_no_remote_client_reads
}
check "what a client does not read is its user's, and bounded" not_read
stop_wsd
start_listening 'max-handshakes = 3\nhandshake-timeout = 2s\n[tls]\n'

# --- what changes ----------------------------------------------------------------------------------------------------------

revoked() {
  waits carol && ca_revoke good carol && reload_config && waiting_ends 76 'the certificate CN:carol is refused: certificate revoked' &&
    refused 77 'certificate revoked' as carol ping
}
unmapped() {
  waits bob && sed -i '/bob/d; /particular/d' "$MAP" && reload_config && waiting_ends 76 'is no user here any more' &&
    refused 77 'user-map' as bob ping
}
stays() {
  waits alice && reload_config && as alice ping && [ "$(counter jobs_open)" = 1 ] && kill -KILL "$waiting" &&
    wait_until eval '[ "$(counter jobs_open)" = 0 ]'
}
check "revoked: an open connection ends when the list is read again" revoked
rm -f "$WORK"/*.err
check "taken out of the map: so does that" unmapped
rm -f "$WORK"/*.err
check "another's stays" stays
kept() { # LINE OF THE MAP, WORDS
  cp "$MAP" "$WORK/map.old"
  echo "$1" >>"$MAP"
  kill -HUP "$WSD_PID"
  wait_until logged "stays as it was: .*$2" && as alice ping
  local r=$?
  cp "$WORK/map.old" "$MAP"
  return $r
}
check "a map with a user that is not there changes nothing" kept 'CN:x = nobody-has-this-name' 'nobody-has-this-name: there is no such user'
check "nobody is root" kept 'CN:x = root' 'nobody is root from another machine'
check "a line that is none" kept 'x = games' 'not `NAME = USER`'
check "--check-config looks into the files, too" eval 'echo "CN:x = root" >>"$MAP"; refused 64 "users:[0-9]+: root: nobody is root" wsd --config "$WSD_CONFIG" --check-config'
sed -i '/root/d' "$MAP"
check "a map that others can write is not believed" eval 'chmod 666 "$MAP"; refused 64 "could have written it" wsd --config "$WSD_CONFIG" --check-config; r=$?; chmod 644 "$MAP"; (exit $r)'
check "nor is a key that others can read" eval 'chmod 644 "$WORK/good/server.key"; refused 64 "others can read it" wsd --config "$WSD_CONFIG" --check-config; r=$?; chmod 600 "$WORK/good/server.key"; (exit $r)'

names() { # N: a name of so many bytes
  { echo "CN:$(head -c $(($1 - 3)) /dev/zero | tr '\0' x) = games"; } >"$WORK/names"
  sed "s#^user-map.*#user-map = $WORK/names#" "$WSD_CONFIG" >"$WORK/names.conf"
  wsd --config "$WORK/names.conf" --check-config
}
lines() { # N: so many of them
  seq -f 'CN:%g = games' "$1" >"$WORK/names"
  wsd --config "$WORK/names.conf" --check-config
}
check "a name of 255 bytes, and no more" eval 'names 254 && names 255 && refused 64 "at most 255 bytes" names 256'
check "4,096 lines, and no more" eval 'lines 4095 && lines 4096 && refused 64 "names:4097: at most 4096 lines" lines 4097'

soon() { # a connection outlives its certificate by no frame
  ca_sign good soon 'alice = of the lab' "$CLIENT" -startdate 20200101000000Z -enddate "$(date -u -d "+$((3 * TIME_SCALE)) sec" +%Y%m%d%H%M%SZ)" &&
    (become soon && exec "$WSCTL" top --batch --delay 100ms -n 100000) >/dev/null 2>"$WORK/soon.err" &
  waiting=$!
  note_started "$waiting"
  wait_for_exit "$waiting"
  cat "$WORK/soon.err"
  wait_until logged 'the certificate CN:alice = of the lab has expired' && refused 77 'certificate expired' as soon ping
}
check "one that expires ends its connection" soon

# --- the end ------------------------------------------------------------------------------------------------------------------

again() {
  local id
  id=$(as alice submit --durable --detach --key k fib 20) || return 1
  stop_wsd || return 1
  start_wsd --workers 2 --state-dir "$(dirname "$WSD_LOG")/state" --plugin-dir "$TEST_PLUGINS" && expect_output 6765 as alice await "$id"
}
check "after a restart the next wsd has the durable job, for the same certificate" again
reconnects() { # the handle, and what was open on its old connection, as on this machine
  local pid state=$WORK/again-state kills
  mkdir "$state" && stop_wsd && start_wsd --workers 2 --state-dir "$state" --plugin-dir "$TEST_PLUGINS" || return 1
  (become alice && exec "$BUILD/tests/support/clients/reconnect" "$WORK/again-gate") >"$WORK/again" 2>&1 &
  pid=$!
  note_started "$pid"
  for kills in accepted mapping; do
    if ! wait_until grep -qE "$kills|FAIL" "$WORK/again" || ! wait_until eval '[ "$(counter jobs_open)" -ge 1 ]'; then
      cat "$WORK/again"
      return 1
    fi
    kill_wsd
    : >"$WORK/again-gate"
    start_wsd --workers 2 --state-dir "$state" --plugin-dir "$TEST_PLUGINS" || return 1
  done
  wait_for_exit "$pid"
  cat "$WORK/again"
  grep -q ok "$WORK/again"
}
check "a client connects again, with the same handle" reconnects
stop_wsd

# --- a user's own wsd --------------------------------------------------------------------------------------------------------------

# There the executor has the rights of whoever a remote client is, and opens files by itself: for him it must not.
install_own() {
  mkdir -p "$WORK/own/lib" "$WORK/own/state" &&
    cp "$WSD" "$EXECUTOR" "$SPAWNER" "$BUILD/daemon/tls/wsd-tls.so" "$WORK/own/" && cp -r "$PLUGINS" "$WORK/own/plugins" &&
    mkdir "$WORK/own/tls" && mv "$WORK/own/wsd-tls.so" "$WORK/own/tls/" && cp "$WORK"/good/{server.pem,server.key,ca.pem,crl.pem} "$WORK/own/" &&
    echo 'CN:alice = of the lab = games' >"$WORK/own/users" && chmod 755 "$WORK" && chown -R games "$WORK/own" || return 1
  sed -e "s#$WORK/good/#$WORK/own/#; s#$MAP#$WORK/own/users#; s/system = yes/system = no/" "$WSD_CONFIG" >"$WORK/own/conf"
}
start_own() {
  export WSD_SOCKET=$WORK/own/wsd.sock
  WSD_LOG=$WORK/own/log
  setpriv --reuid=games --regid=games --clear-groups --inh-caps=-all -- "$WORK/own/wsd" --socket "$WSD_SOCKET" --config "$WORK/own/conf" \
    --executor "$WORK/own/wsd-executor" --spawner "$WORK/own/wsd-spawn" --plugin-dir "$WORK/own/plugins" \
    --state-dir "$WORK/own/state" --workers 2 >"$WSD_LOG" 2>&1 </dev/null &
  WSD_PID=$!
  note_started "$WSD_PID"
  wait_until "$WSCTL" ping || {
    show "$WSD_LOG"
    return 1
  }
}
check "a user's own wsd" eval 'install_own && start_own'
check "opens what its user names on this machine" expect_output "$(sha256sum "$WORK/secret")" \
  setpriv --reuid=games --regid=games --clear-groups -- env LD_LIBRARY_PATH="$BUILD/client" "$WSCTL" submit checksum "$WORK/secret"
check "and not what he names on another" no_file
check "no plugin by path there either" refused 77 'not for clients of other machines' as alice submit "$WORK/own/plugins/fib.so" 5
after_restart() {
  local id
  "$WSCTL" pause && id=$(as alice submit --durable --detach checksum "$WORK/secret") && stop_wsd && start_own || return 1
  expect_exit 1 as alice await "$id" >"$WORK/said" 2>&1
  cat "$WORK/said"
  ! grep -q "$(sha256sum <"$WORK/secret" | cut -c1-64)" "$WORK/said"
}
check "nor when the next wsd runs what he left" after_restart
stop_wsd
