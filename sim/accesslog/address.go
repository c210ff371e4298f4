package accesslog

import (
	"net/netip"
	"strings"
)

// served is who served a request, by what a log has as its upstream. nginx
// lists all it tried: servers of a group with commas between them, groups,
// after an internal redirect, with a colon between spaces; the end may be
// empty. The last one named answered.
func served(s string) string {
	if strings.Contains(s, " :") {
		s = strings.ReplaceAll(s+" ", " : ", ",")
	}
	for s != "" {
		i := strings.LastIndexByte(s, ',')
		if last := strings.TrimSpace(s[i+1:]); last != "" && last != "-" {
			return last
		}
		s = s[:max(i, 0)]
	}
	return ""
}

// client is an address without its port, which would make each connection a
// client of its own; "" for "-". What is no address stays as it is.
func client(s string) string {
	s = strings.TrimSpace(s)
	colon := strings.LastIndexByte(s, ':')
	if s == "-" {
		return ""
	}
	if colon < 0 {
		return s
	}
	if _, err := netip.ParseAddr(s); err == nil {
		return s // IPv6
	}
	if _, err := netip.ParseAddrPort(s); err == nil {
		return strings.Trim(s[:colon], "[]")
	}
	return s
}
