#!/usr/bin/env bash
# Writes vectors.tsv: requests with their canonical string and signature, made
# with openssl, sort and od alone, so that they share nothing with the Go code.
#
#   testdata/signing/generate.sh > testdata/signing/vectors.tsv
#
# Columns, separated by tabs: name, secret, method, host, path, raw query,
# timestamp, nonce, body (base64), canonical string (base64), signature.
set -euo pipefail
export LC_ALL=C

# enc writes its argument percent-encoded by RFC 3986, upper-case hexadecimal.
enc() {
	local out="" hex c
	for hex in $(printf '%s' "$1" | od -An -v -tx1); do
		c=$(printf "\\x$hex")
		case $hex in
		3[0-9] | 4[1-9a-f] | 5[0-9a] | 6[1-9a-f] | 7[0-9ae] | 2d | 2e | 5f) out+=$c ;;
		*) out+="%${hex^^}" ;;
		esac
	done
	printf '%s' "$out"
}

# over writes each byte as a lower-case escape: legal, but never canonical.
over() {
	local hex
	for hex in $(printf '%s' "$1" | od -An -v -tx1); do printf '%%%s' "$hex"; done
}

# bare writes what may stand bare in a query (RFC 3986) bare, and escapes the
# rest: legal, but only canonical where all of it is unreserved.
bare() {
	local out="" hex c
	for hex in $(printf '%s' "$1" | od -An -v -tx1); do
		c=$(printf "\\x$hex")
		case $c in
		[A-Za-z0-9._~/?:@!$\'\(\)*,\;-]) out+=$c ;;
		*) out+="%$hex" ;;
		esac
	done
	printf '%s' "$out"
}

# mixed escapes every second byte, in lower case: two spellings of one key.
mixed() {
	local out="" hex n=0
	for hex in $(printf '%s' "$1" | od -An -v -tx1); do
		if ((n++ % 2)); then out+="%$hex"; else out+=$(enc "$(printf "\\x$hex")"); fi
	done
	printf '%s' "$out"
}

# vector NAME SECRET METHOD HOST PATH STYLE TIMESTAMP NONCE BODY [KEY VALUE]...
# STYLE says how the raw query is written: enc, over, bare or mixed.
vector() {
	local name=$1 secret=$2 method=$3 host=$4 path=$5 style=$6 stamp=$7 nonce=$8 body=$9
	shift 9
	local raw="" sorted="" query="" key value hash canonical signature
	while (($#)); do
		raw+="${raw:+&}$("$style" "$1")=$("$style" "$2")"
		# A space separates key and value: it sorts before whatever enc writes.
		sorted+="$(enc "$1") $(enc "$2")"$'\n'
		shift 2
	done
	while read -r key value; do
		[[ -z $key ]] && continue
		query+="${query:+&}$key=$value"
	done < <(printf '%s' "$sorted" | sort)
	hash=$(printf '%s' "$body" | openssl dgst -sha256 -r | cut -d' ' -f1)
	canonical=$(printf '%s\n%s\n%s\n%s\n%s\n%s\n%s' "${method^^}" "${host,,}" "$path" "$query" "$stamp" "$nonce" "$hash")
	signature=$(printf '%s' "$canonical" | openssl dgst -sha256 -mac HMAC -macopt hexkey:"$(printf '%s' "$secret" | od -An -v -tx1 | tr -d ' \n')" -r | cut -d' ' -f1)
	printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$name" "$secret" "$method" "$host" "$path" "$raw" "$stamp" "$nonce" \
		"$(printf '%s' "$body" | base64 -w0)" "$(printf '%s' "$canonical" | base64 -w0)" "$signature"
}

S=test-secret-0123456789abcdef
T=2026-11-21T07:03:41Z
H=api.example.com

for path in account wallet offers orders proxies orders/ord_1 proxies/px_1 orders/a%2Fb%20c proxies/%E6%9D%B1 \
	orders/a%2fb proxies/a+b proxies/a%2Bb proxies/100%25 orders/A~b._- orders/%3A%40%21; do
	vector "get $path" "$S" GET "$H" "/api/v1/$path" enc "$T" n-1 ""
done
for host in API.EXAMPLE.COM sandbox.example.com 127.0.0.1 127.0.0.1:8443 localhost; do
	vector "host $host" "$S" GET "$host" /api/v1/account enc "$T" n-2 ""
done
for stamp in 2026-11-21T07:03:41+00:00 2026-11-21T15:03:41+08:00 2026-11-21T07:03:41.123Z 1999-12-31T23:59:59-05:30; do
	vector "timestamp $stamp" "$S" GET "$H" /api/v1/wallet enc "$stamp" n-3 ""
done
for nonce in 0 ffffffffffffffffffffffffffffffff a-b_c.d~e 00112233445566778899aabbccddeeff; do
	vector "nonce $nonce" "$S" GET "$H" /api/v1/wallet enc "$T" "$nonce" ""
done
for secret in x "secret with spaces" "sécret-ü" "$(printf 'k%.0s' {1..64})" "$(printf 'k%.0s' {1..65})" "$(printf 'long%.0s' {1..50})"; do
	vector "secret of ${#secret} bytes" "$secret" GET "$H" /api/v1/wallet enc "$T" n-4 ""
done
vector "method in lower case" "$S" get "$H" /api/v1/wallet enc "$T" n-5 ""
for style in enc over bare mixed; do
	q() { local name=$1; shift; vector "query ($style) $name" "$S" GET "$H" /api/v1/offers "$style" "$T" n-6 "" "$@"; }
	q "one" country_code US
	q "unsorted" region Dallas country_code US
	q "sorted by value" a 2 a 10 a 1
	q "repeats kept" a 1 a 1
	q "empty value" region "" line x
	q "space" region "New York"
	q "plus" region "a+b"
	q "percent" region "100%"
	q "ampersand and equals" region "a&b=c"
	q "reserved" region ":/?#[]@!\$'()*,;"
	q "unreserved" region "AZaz09-._~"
	q "utf-8" region "São Paulo" country 日本
	q "emoji" region "🛰"
	q "prefix keys" a 1 a-b 2 a.b 3 aa 4
	q "sorted as encoded" "a{" 1 "az" 2 "aé" 3 "a~" 4
	q "token" page_size 200 page_token "eyJvIjoxMH0.a-b_c=="
	q "slash" region "a/b"
	q "only empty values" a "" b ""
	q "repeated with empty" a 1 a "" a 0
	q "case of keys" b 1 B 2 a 3 A 4
	q "digits before letters" a1 1 a10 2 a2 3 a 4
	q "utf-8 key" "línea" x region y
	q "decomposed utf-8" region "Sa$(printf '\xcc\x83')o"
	q "tab and line feed" region $'a\tb\nc'
	q "backslash and quotes" region "a\\b\"c'"
	q "twenty pairs" t 20 s 19 r 18 q 17 p 16 o 15 n 14 m 13 l 12 k 11 j 10 i 9 h 8 g 7 f 6 e 5 d 4 c 3 b 2 a 1
	q "numbers" quantity 10 duration_days 60 page_size 50
done
b() { vector "body $1" "$S" POST "$H" "$2" enc "$T" n-7 "$3"; }
b "order" /api/v1/orders '{"duration_days":30,"items":[{"offer_code":"off_us_1","quantity":5}]}'
b "renewal" /api/v1/proxies/renew '{"proxy_ids":["px_1","px_2"],"duration_days":30}'
b "spaces count" /api/v1/orders '{ "duration_days": 30 }'
b "utf-8" /api/v1/orders '{"note":"São Paulo 日本"}'
b "line feed inside" /api/v1/orders $'{\n"a":1}'
b "escapes" /api/v1/orders '{"a":"\u00e9\\\""}'
b "empty object" /api/v1/proxies/renew '{}'
b "empty" /api/v1/proxies/renew ''
b "carriage returns" /api/v1/orders $'{\r\n"a":1}\r\n'
b "ends with a line feed" /api/v1/orders $'{}\n'
b "one space" /api/v1/orders ' '
b "escaped slash" /api/v1/orders '{"offer_code":"a\/b"}'
b "large" /api/v1/proxies/renew "{\"proxy_ids\":[$(printf '"px_%05d",' {1..1000})\"px_0\"],\"duration_days\":30}"
b "path that is escaped" /api/v1/proxies/a%2Fb/renew '{}'
vector "body and query" "$S" POST "$H" /api/v1/orders enc "$T" n-8 '{"a":1}' region "New York" a 1
vector "body and empty value" "$S" POST "$H" /api/v1/orders bare "$T" n-8 '{}' a ""
