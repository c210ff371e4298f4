package httplimit

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/seed13b07268/ration/hybrid/lists"
)

// mostHops is how many proxies are looked through.
const mostHops = 64

// A Client is a Key: the address of the client that sent a request. The zero Client goes by the
// address of the connection.
//
// Behind proxies, name them in Trusted. Then the header is read from its right end, where the
// proxy that is nearest has written, and leftwards for as long as addresses are of trusted
// proxies. The first other address is the client's. Whatever is left of that was written by the
// client, and is not looked at. If there is something else than an address (such as "unknown" or
// "_hidden"), or nothing, the last proxy that was reached counts as the client. So do the 64th of
// a longer chain, and the leftmost address if all are trusted.
//
// A connection without an address, such as one of a Unix socket, has the key "unknown".
type Client struct {
	// Trusted are the proxies whose word about a client is believed. Those of IPv4 are not
	// written as IPv6.
	Trusted []netip.Prefix

	// Header is the field that the trusted proxies write: a list of addresses, with or without
	// ports, or, if it is "Forwarded", that of RFC 7239. One header is read, since a proxy
	// passes on the others as the client wrote them. Default: "X-Forwarded-For".
	Header string

	// V4 and V6 are how many bits of an address make a client, 1 to 32 and 1 to 128. Default: 32,
	// and 64, as a client of IPv6 has a whole /64 to choose from.
	V4, V6 int
}

// Validate returns an error that names the field that is wrong.
func (c Client) Validate() error {
	for i, p := range c.Trusted {
		switch {
		case !p.IsValid():
			return fmt.Errorf("Client.Trusted[%d] is not a prefix", i)
		case p.Addr().Is4In6():
			return fmt.Errorf("Client.Trusted[%d] %v is IPv4 written as IPv6", i, p)
		}
	}
	if c.Header != "" && !validField(c.Header) {
		return fmt.Errorf("Client.Header %.100q is not the name of a header field", c.Header)
	}
	if c.V4 < 0 || c.V4 > 32 {
		return fmt.Errorf("Client.V4 %d is not from 1 to 32", c.V4)
	}
	if c.V6 < 0 || c.V6 > 128 {
		return fmt.Errorf("Client.V6 %d is not from 1 to 128", c.V6)
	}
	return nil
}

// Key implements Key: "192.0.2.7", or "2001:db8::/64" where a part of the address counts.
func (c Client) Key(r *http.Request) (string, bool) {
	a := c.Addr(r)
	if !a.IsValid() {
		return "unknown", true
	}
	bits := cmp.Or(c.V6, 64)
	if a.Is4() {
		bits = cmp.Or(c.V4, 32)
	}
	if bits >= a.BitLen() {
		return a.String(), true
	}
	p, _ := a.Prefix(bits)
	return p.String(), true
}

// Listed looks up the address of the client in a List, for Config.List.
func (c Client) Listed(l *lists.List) func(r *http.Request) lists.Verdict {
	return func(r *http.Request) lists.Verdict { return l.Addr(c.Addr(r)) }
}

// Addr returns the client's address, or the zero Addr if the connection has none. It has no
// zone, and is not IPv4 written as IPv6.
func (c Client) Addr(r *http.Request) netip.Addr {
	client := remote(r)
	if len(c.Trusted) == 0 || !c.trusts(client) {
		return client
	}
	name, cut := cmp.Or(c.Header, "X-Forwarded-For"), lastHop
	if strings.EqualFold(name, "Forwarded") {
		cut = lastForwarded
	}
	lines, hops := r.Header.Values(name), 0
	for i := len(lines) - 1; i >= 0; i-- {
		for line := lines[i]; line != ""; {
			var hop string
			line, hop = cut(line)
			if hop == "" { // an empty element of a list says nothing
				continue
			}
			if hops++; hops > mostHops {
				return client
			}
			a, err := parseHop(hop)
			if err != nil {
				return client
			}
			if client = a; !c.trusts(a) {
				return client
			}
		}
	}
	return client
}

func (c Client) trusts(a netip.Addr) bool {
	for _, p := range c.Trusted {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// remote is the address at the other end of the connection.
func remote(r *http.Request) netip.Addr {
	if ap, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		return plain(ap.Addr())
	}
	a, err := netip.ParseAddr(r.RemoteAddr) // as some middlewares leave it
	if err != nil {
		return netip.Addr{}
	}
	return plain(a)
}

func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// lastHop cuts the last element off a list of addresses.
func lastHop(line string) (rest, hop string) {
	i := strings.LastIndexByte(line, ',')
	return line[:max(i, 0)], strings.Trim(line[i+1:], " \t")
}

var errHop = errors.New("not an address")

// longestHop is that of IPv6 with a zone and a port, and some more.
const longestHop = 100

// parseHop reads an address: of IPv4, or IPv6 with or without brackets, each with or without a
// port, which RFC 7239 allows to be a name.
func parseHop(hop string) (netip.Addr, error) {
	if len(hop) > longestHop {
		return netip.Addr{}, errHop
	}
	host, port := hop, ""
	switch {
	case hop[0] == '[':
		end := strings.IndexByte(hop, ']')
		if end < 0 {
			return netip.Addr{}, errHop
		}
		host, port = hop[1:end], hop[end+1:]
		if !strings.Contains(host, ":") {
			return netip.Addr{}, errHop
		}
	case strings.Count(hop, ":") == 1:
		colon := strings.IndexByte(hop, ':')
		host, port = hop[:colon], hop[colon:]
	}
	if port != "" && !validPort(port) {
		return netip.Addr{}, errHop
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}, errHop
	}
	return plain(a), nil
}

// validPort reports whether s is a colon, and a number of up to five digits or a name that
// begins with an underscore.
func validPort(s string) bool {
	if len(s) < 2 || s[0] != ':' {
		return false
	}
	if s[1] == '_' {
		return len(s) > 2 && strings.IndexFunc(s[2:], notNode) < 0
	}
	notDigit := func(c rune) bool { return c < '0' || c > '9' }
	return len(s) <= 6 && strings.IndexFunc(s[1:], notDigit) < 0
}

// notNode reports whether c may not stand in a name of RFC 7239, section 6.
func notNode(c rune) bool {
	return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') &&
		c != '.' && c != '_' && c != '-'
}
