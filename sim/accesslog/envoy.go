package accesslog

import (
	"bytes"
	"errors"
)

var (
	errEnvoyRequest = errors.New(`want [time] "METHOD path PROTOCOL" at the beginning, as in Envoy's default format`)
	errEnvoyNumbers = errors.New("want code, flags, two sizes and two durations after the request, as in Envoy's default format")
	errEnvoyQuoted  = errors.New("want five quoted fields at the end, as in Envoy's default format")
)

// parseEnvoy reads Envoy's default format string:
//
//	[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%"
//	%RESPONSE_CODE% %RESPONSE_FLAGS% %BYTES_RECEIVED% %BYTES_SENT% %DURATION%
//	%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "%REQ(X-FORWARDED-FOR)%" "%REQ(USER-AGENT)%"
//	"%REQ(X-REQUEST-ID)%" "%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%"
//
// Envoy does not escape quotes in what clients send (envoyproxy/envoy#4191).
// So the line is read from the left up to X-Forwarded-For, where nothing may
// hold a space, and the upstream, which is no client's to choose, from the
// right. The user agent and what follows it are passed over.
func parseEnvoy(line []byte) (entry, error) {
	rest, ok := bytes.CutPrefix(bytes.Trim(line, " \t\r\n"), []byte{'['})
	if !ok {
		return entry{}, errEnvoyRequest
	}
	stamp, rest, ok := bytes.Cut(rest, []byte(`] "`))
	if !ok {
		return entry{}, errEnvoyRequest
	}
	_, rest, _ = bytes.Cut(rest, []byte{' '}) // the method
	_, rest, _ = bytes.Cut(rest, []byte{' '}) // the path
	protocol, rest, ok := bytes.Cut(rest, []byte(`" `))
	if !ok || len(protocol) == 0 || bytes.IndexByte(protocol, ' ') >= 0 {
		return entry{}, errEnvoyRequest
	}
	verdict := Unknown
	for i := range 6 {
		var field []byte
		field, rest, ok = bytes.Cut(rest, []byte{' '})
		if i == 0 {
			verdict = answered(field)
		}
		const flags = 1 // letters
		if !ok || i != flags && !number(field) {
			return entry{}, errEnvoyNumbers
		}
	}
	if bytes.Count(rest, []byte{'"'}) < 10 || rest[0] != '"' || rest[len(rest)-1] != '"' {
		return entry{}, errEnvoyQuoted
	}
	rest = rest[1 : len(rest)-1]
	forwarded := rest[:bytes.IndexByte(rest, '"')]
	upstream := rest[bytes.LastIndexByte(rest, '"')+1:]

	q := entry{cost: 1, count: 1, upstream: served(string(upstream)), verdict: verdict}
	// A client may send an X-Forwarded-For; proxies append the address that
	// they saw. The last one is also what Envoy trusts by default.
	q.key = client(string(forwarded[bytes.LastIndexByte(forwarded, ',')+1:]))
	var err error
	q.stamp, err = parseStamp(string(stamp))
	return q, err
}
