package rules

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// A transform makes of a value what is counted: an address becomes the prefix that its owner
// has. The zero transform changes nothing.
type transform struct{ v4, v6 int }

func (t transform) is() bool { return t != transform{} }

// String is the transform as a document has it.
func (t transform) String() string {
	if t.v4 == 32 {
		return fmt.Sprintf("ip/%d", t.v6)
	}
	return fmt.Sprintf("ip/%d/%d", t.v4, t.v6)
}

// parseTransform reads ip/64 (IPv6 addresses by /64, IPv4 ones as they are) or ip/24/64 (IPv4
// by /24, IPv6 by /64).
func parseTransform(text string) (transform, error) {
	t := transform{v4: 32}
	parts := strings.Split(text, "/")
	var err error
	switch {
	case len(parts) < 2 || len(parts) > 3 || parts[0] != "ip":
		err = strconv.ErrSyntax
	case len(parts) == 3:
		t.v4, err = strconv.Atoi(parts[1])
	}
	if err == nil {
		t.v6, err = strconv.Atoi(parts[len(parts)-1])
	}
	if err != nil || t.v4 < 1 || t.v4 > 32 || t.v6 < 1 || t.v6 > 128 {
		return transform{}, fmt.Errorf("transform %.40q is not ip/64, ip/24/64 or the like, "+
			"with 1 to 32 bits of IPv4 and 1 to 128 of IPv6", text)
	}
	return t, nil
}

// of changes a value. What is no address stays as it is.
func (t transform) of(value string) string {
	a, err := netip.ParseAddr(value)
	if err != nil {
		return value
	}
	a = a.WithZone("").Unmap()
	bits := t.v6
	if a.Is4() {
		bits = t.v4
	}
	if bits == a.BitLen() {
		return a.String()
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return value
	}
	return p.String()
}
