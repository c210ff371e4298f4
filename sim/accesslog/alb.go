package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
)

// Places of fields in a line of AWS's Application Load Balancer. AWS adds new
// ones at the end only.
const (
	albTime     = 1 // of the response
	albClient   = 3
	albTarget   = 4  // then three durations
	albStatus   = 8  // then another code and two sizes
	albRequest  = 12 // the first in quotes, in every version
	albCreation = 21 // not in old logs
)

var (
	errALB      = errors.New("want type, time, load balancer, client:port, target:port, seven numbers and the request in quotes, as AWS ALB has them")
	errALBQuote = errors.New("a quoted field does not end")
)

// parseALB reads
//
//	type time elb client:port target:port request_processing_time
//	target_processing_time response_processing_time elb_status_code
//	target_status_code received_bytes sent_bytes "request" "user_agent"
//	ssl_cipher ssl_protocol target_group_arn "trace_id" "domain_name"
//	"chosen_cert_arn" matched_rule_priority request_creation_time ...
//
// and takes the last of these as the time, where it is: the first time is that
// of the response, for a WebSocket that of its end.
func parseALB(line []byte) (entry, error) {
	var fields [albCreation + 1][]byte
	rest := bytes.Trim(line, " \t\r\n")
	for i := range fields {
		var err error
		if fields[i], rest, err = albField(rest); err != nil {
			return entry{}, err
		}
		if i == 0 && !word(fields[0]) {
			return entry{}, errALB // early: for detect, most lines of a CSV end here
		}
	}
	for _, f := range fields[albTarget+1 : albRequest] {
		if !number(f) {
			return entry{}, errALB
		}
	}
	if !bytes.HasPrefix(fields[albRequest], []byte{'"'}) {
		return entry{}, errALB
	}
	at, err := parseStamp(string(fields[albTime]))
	if err != nil {
		return entry{}, err
	}
	if creation := fields[albCreation]; len(creation) > 0 && string(creation) != "-" {
		if at, err = parseStamp(string(creation)); err != nil {
			return entry{}, err
		}
	}
	key, err := albAddress(fields[albClient])
	if err != nil {
		return entry{}, err
	}
	// The target is "-" if it is a Lambda function, or if nobody was asked. A
	// later field lists targets, but by its documentation only this one.
	return entry{stamp: at, key: key, cost: 1, count: 1, upstream: served(string(fields[albTarget])),
		verdict: answered(fields[albStatus])}, nil
}

// albField cuts off the first field. ALB writes the quotes of clients as \x22,
// so that any other ends a field, unless a tool that the log passed through
// has put a backslash before it.
func albField(line []byte) (field, rest []byte, err error) {
	if len(line) == 0 || line[0] != '"' {
		field, rest, _ = bytes.Cut(line, []byte{' '})
		return field, rest, nil
	}
	for i := 1; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case '"':
			return line[:i+1], bytes.TrimPrefix(line[i+1:], []byte{' '}), nil
		}
	}
	return nil, nil, errALBQuote
}

// albAddress takes the port off. ALB puts no brackets around IPv6.
func albAddress(field []byte) (string, error) {
	if string(field) == "-" {
		return "", nil
	}
	if colon := bytes.LastIndexByte(field, ':'); colon >= 0 {
		address := string(bytes.Trim(field[:colon], "[]"))
		if _, err := netip.ParseAddr(address); err == nil && number(field[colon+1:]) {
			return address, nil
		}
	}
	return "", fmt.Errorf("client %.60q: want address:port", field)
}

// word tells whether b may be a type: http, https, h2, grpcs, ws, wss, or one
// that AWS will add. The beginning of a CSV's line that quotes ALB's is none.
func word(b []byte) bool {
	for _, c := range b {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return len(b) > 0
}

// number tells whether a proxy may have written b as a number: digits, with a
// point or a minus sign, or "-" for none.
func number(b []byte) bool {
	for _, c := range b {
		if (c < '0' || c > '9') && c != '-' && c != '.' {
			return false
		}
	}
	return len(b) > 0
}
