# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# ca.sh: a certificate authority for scripts that need one, by the openssl command. Sourced after lib.sh. Each is a directory
# $WORK/NAME with ca.pem and crl.pem.

CA_VALID=(-startdate 20200101000000Z -enddate 20990101000000Z)

ca_new() { # NAME
  local dir=$WORK/$1
  mkdir "$dir" "$dir/new" && : >"$dir/index" && echo 1000 >"$dir/serial" && echo 1000 >"$dir/crlnumber" || return 1
  cat >"$dir/conf" <<END
[ca]
default_ca = here
[here]
database = $dir/index
serial = $dir/serial
crlnumber = $dir/crlnumber
new_certs_dir = $dir/new
certificate = $dir/ca.pem
private_key = $dir/ca.key
default_md = sha256
default_crl_days = 3650
policy = any
copy_extensions = copy
unique_subject = no
[any]
commonName = supplied
[req]
distinguished_name = none
[none]
[ca_itself]
basicConstraints = critical, CA:true
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
END
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" -days 3650 -config "$dir/conf" \
    -extensions ca_itself -keyout "$dir/ca.key" -out "$dir/ca.pem" 2>/dev/null && ca_list "$1"
}

# The certificate of a key of its own, NAME.pem and NAME.key in the authority's directory.
ca_sign() { # CA NAME SUBJECT-CN EXTENSIONS [OPTION OF openssl ca...]
  local dir=$WORK/$1 name=$2 subject=$3 extensions=$4
  shift 4
  [ $# -gt 0 ] || set -- "${CA_VALID[@]}"
  printf '[x]\nbasicConstraints = CA:false\n%b\n' "$extensions" >"$dir/x"
  { openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$subject" -config "$dir/conf" \
    -keyout "$dir/$name.key" -out "$dir/$name.csr" 2>/dev/null &&
    openssl ca -batch -notext -config "$dir/conf" -extfile "$dir/x" -extensions x -in "$dir/$name.csr" \
      -out "$dir/$name.pem" "$@" 2>"$dir/log" && chmod 600 "$dir/$name.key"; } || {
    cat "$dir/log"
    return 1
  }
}

# The same by any certificate, in whose name it is not to be believed: DIRECTORY/NAME.pem has that of the issuer behind it, and those that
# are behind that one.
ca_chain() { # ISSUER (CA/NAME) NAME SUBJECT-CN EXTENSIONS
  local issuer=$WORK/$1 dir=$WORK/${1%%/*} name=$2
  printf '%b\n' "$4" >"$dir/x"
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$3" -config "$dir/conf" -keyout "$dir/$name.key" \
    -out "$dir/$name.csr" 2>/dev/null &&
    openssl x509 -req -in "$dir/$name.csr" -CA "$issuer.pem" -CAkey "$issuer.key" -set_serial 1 -days 30 -extfile "$dir/x" \
      -out "$dir/$name.one" 2>"$dir/log" && cat "$dir/$name.one" "$issuer.pem" >"$dir/$name.pem" && chmod 600 "$dir/$name.key"
}

ca_list() { # CA: the list of what is revoked is written anew
  openssl ca -config "$WORK/$1/conf" -gencrl -out "$WORK/$1/crl.pem" 2>/dev/null
}

ca_revoke() { # CA NAME
  openssl ca -config "$WORK/$1/conf" -revoke "$WORK/$1/$2.pem" 2>/dev/null && ca_list "$1"
}
