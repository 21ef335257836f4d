#!/usr/bin/env bash
# rfc3161-client 1.0.9 (PyPI): whether it reads an answer of OpenSSL's time-stamping depends on the length of a name.
#
# Behaviour: `openssl ts -reply` puts the authority's certificate first and those of its chain (`certs`) after it, and
# `openssl ts -verify` takes that. rfc3161-client takes certificates only in DER's order, the shorter ones first, and raises
# "ASN.1 parse error … InvalidSetOrdering" for all others. So an authority whose certificate is shorter than its root's is
# read, and one with a longer name is not, by the same two programs on the same settings. One would expect that the
# certificates, which nothing signs and which are found by their issuer and number, may come in any order (CMS, RFC 5652: SignedData
# itself may be BER). A trial with one's own short-named authority therefore says nothing about the next one. What helps:
# sort the certificates of an answer before it is decoded, which changes neither a length nor anything that is signed.
#
# Output seen: "short name: OpenSSL verifies, rfc3161-client reads" and "long name: OpenSSL verifies, rfc3161-client:
# InvalidSetOrdering". Exits with 1 when that changes. Needs openssl 3 and python3 with pip.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-compile --target "$work/lib" rfc3161-client==1.0.9
export PYTHONPATH="$work/lib"
cd "$work"
key() { openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1" 2>/dev/null; }
key root.key
openssl req -x509 -key root.key -out root.pem -days 30 -subj "/CN=A" 2>/dev/null
printf 'extendedKeyUsage = critical, timeStamping\n' >extensions
echo kept >data
openssl ts -query -data data -sha256 -cert -out query 2>/dev/null
stamp() { # NAME SUBJECT
    key "$1.key"
    openssl req -new -key "$1.key" -subj "$2" 2>/dev/null |
        openssl x509 -req -CA root.pem -CAkey root.key -set_serial 2 -days 30 -extfile extensions -out "$1.pem" 2>/dev/null
    printf '%s\n' '[tsa]' 'default_tsa = one' '[one]' 'serial = serial' "signer_cert = $1.pem" "signer_key = $1.key" \
        'certs = root.pem' 'signer_digest = sha256' 'default_policy = 1.2.3.4' 'digests = sha256' >"$1.cnf"
    echo 01 >serial
    openssl ts -reply -config "$1.cnf" -queryfile query -out "$1.answer" 2>/dev/null
    verified=$(openssl ts -verify -queryfile query -in "$1.answer" -CAfile root.pem 2>/dev/null || true)
    read=$(python3 - "$1.answer" <<'PY'
import re
import sys

from rfc3161_client import decode_timestamp_response

try:
    decode_timestamp_response(open(sys.argv[1], "rb").read())
    print(" reads")
except ValueError as error:
    print(":", (re.search(r"kind: (\w+)", str(error)) or ["", str(error)])[1])
PY
)
    case $verified in *OK*) verified="OpenSSL verifies" ;; *) verified="OpenSSL does not verify" ;; esac
    echo "$1 name: $verified, rfc3161-client$read"
}
seen=$(stamp short "/CN=B"; stamp long "/O=An organisation with quite a long name in the register/CN=Its authority for signing the time")
echo "$seen"
[ "$seen" = "short name: OpenSSL verifies, rfc3161-client reads
long name: OpenSSL verifies, rfc3161-client: InvalidSetOrdering" ]
