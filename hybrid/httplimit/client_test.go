package httplimit_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/seed13b07268/ration/hybrid/httplimit"
)

// proxied is a request that came over a connection from remote.
func proxied(remote, header string, lines ...string) *http.Request {
	r := &http.Request{RemoteAddr: remote, Header: http.Header{}}
	for _, line := range lines {
		r.Header.Add(header, line)
	}
	return r
}

var trusted = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"),
}

const proxy = "10.0.0.1:443"

func TestForwardedFor(t *testing.T) {
	for _, c := range []struct {
		name, remote string
		lines        []string
		want         string
	}{
		{"no header", proxy, nil, "10.0.0.1"},
		{"one client", proxy, []string{"192.0.2.7"}, "192.0.2.7"},
		{"not from a trusted proxy", "203.0.113.5:1", []string{"192.0.2.7"}, "203.0.113.5"},
		{"spoofed leftmost entries", proxy, []string{"1.1.1.1, 10.9.9.9, 192.0.2.7"}, "192.0.2.7"},
		{"spoofed line", proxy, []string{"1.1.1.1", "192.0.2.7"}, "192.0.2.7"},
		{"two proxies", proxy, []string{"192.0.2.7, 10.0.0.2"}, "192.0.2.7"},
		{"proxies on several lines", proxy, []string{"192.0.2.7", "10.0.0.3, 10.0.0.2"}, "192.0.2.7"},
		{"all trusted", proxy, []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"no blanks", proxy, []string{"1.1.1.1,192.0.2.7"}, "192.0.2.7"},
		{"tabs", proxy, []string{"1.1.1.1,\t 192.0.2.7\t"}, "192.0.2.7"},
		{"empty elements", proxy, []string{"192.0.2.7, , ,", ""}, "192.0.2.7"},
		{"port", proxy, []string{"192.0.2.7:8080"}, "192.0.2.7"},
		{"IPv6", proxy, []string{"2001:db8::7"}, "2001:db8::7"},
		{"brackets", proxy, []string{"[2001:db8::7]"}, "2001:db8::7"},
		{"brackets and port", proxy, []string{"[2001:db8::7]:80"}, "2001:db8::7"},
		{"IPv4 as IPv6", proxy, []string{"::ffff:192.0.2.7"}, "192.0.2.7"},
		{"trusted IPv4 as IPv6", proxy, []string{"192.0.2.7, ::ffff:10.0.0.2"}, "192.0.2.7"},
		{"zone", proxy, []string{"fe80::1%eth0"}, "fe80::1"},
		{"proxy of IPv6", "[fd00::1%eth0]:443", []string{"192.0.2.7"}, "192.0.2.7"},
		{"proxy as IPv6", "[::ffff:10.0.0.1]:443", []string{"192.0.2.7"}, "192.0.2.7"},
		{"words", proxy, []string{"1.1.1.1, unknown"}, "10.0.0.1"},
		{"words behind a proxy", proxy, []string{"1.1.1.1, _hidden, 10.0.0.2"}, "10.0.0.2"},
		{"number", proxy, []string{"3232235777"}, "10.0.0.1"},
		{"zeros", proxy, []string{"192.0.02.7"}, "10.0.0.1"},
		{"hexadecimal", proxy, []string{"0xc0000207"}, "10.0.0.1"},
		{"bad port", proxy, []string{"192.0.2.7:http"}, "10.0.0.1"},
		{"long port", proxy, []string{"192.0.2.7:123456"}, "10.0.0.1"},
		{"no port", proxy, []string{"192.0.2.7:"}, "10.0.0.1"},
		{"open bracket", proxy, []string{"[2001:db8::7"}, "10.0.0.1"},
		{"more after the bracket", proxy, []string{"[2001:db8::7]x"}, "10.0.0.1"},
		{"IPv4 in brackets", proxy, []string{"[192.0.2.7]"}, "10.0.0.1"},
		{"prefix", proxy, []string{"192.0.2.0/24"}, "10.0.0.1"},
		{"semicolon", proxy, []string{"192.0.2.7;192.0.2.8"}, "10.0.0.1"},
		{"long zone", proxy, []string{"fe80::1%" + strings.Repeat("x", 1000)}, "10.0.0.1"},
		{"Unix socket", "@", []string{"192.0.2.7"}, "invalid IP"},
		{"no connection", "", nil, "invalid IP"},
		{"address without port", "10.0.0.1", []string{"192.0.2.7"}, "192.0.2.7"},
	} {
		r := proxied(c.remote, "X-Forwarded-For", c.lines...)
		if got := (httplimit.Client{Trusted: trusted}).Addr(r).String(); got != c.want {
			t.Errorf("%s: %q is from %s, not %s", c.name, c.lines, got, c.want)
		}
		if c.remote != proxy {
			continue
		}
		if got := (httplimit.Client{}).Addr(r).String(); got != "10.0.0.1" {
			t.Errorf("%s: nobody is trusted, and it is from %s", c.name, got)
		}
		other := httplimit.Client{Trusted: trusted, Header: "forwarded"}
		if got := other.Addr(r).String(); got != "10.0.0.1" {
			t.Errorf("%s: another header was read: %s", c.name, got)
		}
	}
}

func TestForwarded(t *testing.T) {
	client := httplimit.Client{Trusted: trusted, Header: "Forwarded"}
	for _, c := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"no header", nil, "10.0.0.1"},
		{"one client", []string{"for=192.0.2.7"}, "192.0.2.7"},
		{"all pairs", []string{"by=10.0.0.1;FOR=192.0.2.7;proto=http;host=a"}, "192.0.2.7"},
		{"quoted", []string{`for="192.0.2.7"`}, "192.0.2.7"},
		{"quoted with port", []string{`for="192.0.2.7:47011"`}, "192.0.2.7"},
		{"IPv6", []string{`for="[2001:db8::7]"`}, "2001:db8::7"},
		{"IPv6 with port", []string{`For="[2001:db8::7]:4711"`}, "2001:db8::7"},
		{"port with a name", []string{`for="192.0.2.7:_http"`}, "192.0.2.7"},
		{"two proxies", []string{"for=192.0.2.7, for=10.0.0.2;proto=https"}, "192.0.2.7"},
		{"several lines", []string{"for=1.1.1.1", "for=192.0.2.7", "for=10.0.0.2"}, "192.0.2.7"},
		{"spoofed", []string{"for=1.1.1.1,for=10.0.0.5, for=192.0.2.7"}, "192.0.2.7"},
		{"comma in quotes", []string{`for=192.0.2.7;host="a,for=1.1.1.1"`}, "192.0.2.7"},
		{"semicolon in quotes", []string{`for=192.0.2.7;host="a;for=1.1.1.1"`}, "192.0.2.7"},
		{"quote in quotes", []string{`for=192.0.2.7;host="a\",for=1.1.1.1"`}, "192.0.2.7"},
		{"backslash in quotes", []string{`for=1.1.1.1, for=192.0.2.7;host="a\\"`}, "192.0.2.7"},
		{"blanks", []string{"  for=192.0.2.7 ; proto=http ,"}, "192.0.2.7"},
		{"unknown", []string{"for=1.1.1.1, for=unknown"}, "10.0.0.1"},
		{"hidden", []string{"for=1.1.1.1, for=_hidden"}, "10.0.0.1"},
		{"hidden behind a proxy", []string{"for=_SEVKISEK, for=10.0.0.2"}, "10.0.0.2"},
		{"no for", []string{"for=1.1.1.1, proto=https"}, "10.0.0.1"},
		{"empty for", []string{`for=1.1.1.1, for=""`}, "10.0.0.1"},
		{"two of them", []string{"for=1.1.1.1;for=192.0.2.7"}, "10.0.0.1"},
		{"escape", []string{`for="192.0.2\.7"`}, "10.0.0.1"},
		{"no quotation mark at the end", []string{`for="192.0.2.7`}, "10.0.0.1"},
		{"no quotation mark at the beginning", []string{`for=1.1.1.1, for=192.0.2.7"`}, "10.0.0.1"},
		{"X-Forwarded-For's form", []string{"192.0.2.7"}, "10.0.0.1"},
	} {
		if got := client.Addr(proxied(proxy, "Forwarded", c.lines...)).String(); got != c.want {
			t.Errorf("%s: %q is from %s, not %s", c.name, c.lines, got, c.want)
		}
	}
}

// TestOpenQuote: a quotation mark that a client leaves open hides nothing that proxies have
// written after it.
func TestOpenQuote(t *testing.T) {
	client := httplimit.Client{Trusted: trusted, Header: "Forwarded"}
	for _, spoofed := range []string{
		`for="`, `for="1.1.1.1`, `for=1.1.1.1;host="a`, `for="a\`, `"`, `"""`, `for="1.1.1.1", "`,
		`for="1.1.1.1";x="\"`,
	} {
		for _, own := range []string{"for=192.0.2.7", `for="192.0.2.7:80";by="[fd00::1]"`} {
			r := proxied(proxy, "Forwarded", spoofed+", "+own)
			if got := client.Addr(r).String(); got != "192.0.2.7" {
				t.Errorf("%s, %s: %v", spoofed, own, got)
			}
		}
	}
}

// TestHostileHeaders: a header of a megabyte, or a chain of thousands of proxies, costs no more
// than to read it once (else this would take minutes), and what a trusted proxy has written
// counts.
func TestHostileHeaders(t *testing.T) {
	const size = 1 << 20
	own := map[string]string{"X-Forwarded-For": "192.0.2.7", "Forwarded": "for=192.0.2.7"}
	for _, unit := range []string{
		",", "10.0.0.2,", "1.1.1.1, ", "for=10.0.0.2,", `"`, `\"`, `for="\`, ";", "for=;", "[", ":", "x",
		`for="10.0.0.2";x="\\\\", `, "\x00", "é",
	} {
		spoofed := strings.Repeat(unit, size/len(unit))
		for header, hop := range own {
			client := httplimit.Client{Trusted: trusted, Header: header}
			if got := client.Addr(proxied(proxy, header, spoofed+","+hop)); got.String() != "192.0.2.7" {
				t.Errorf("%s: after %q came %s, and the client is %v", header, unit, hop, got)
			}
			got := client.Addr(proxied(proxy, header, spoofed))
			if !client.Trusted[0].Contains(got) && got.String() != "1.1.1.1" {
				t.Errorf("%s: %q alone: the client is %v", header, unit, got)
			}
		}
	}
}

// TestMostHops: a chain of trusted proxies is followed for 64 of them.
func TestMostHops(t *testing.T) {
	client := httplimit.Client{Trusted: trusted}
	chain := "192.0.2.7"
	for i := range 63 {
		chain += fmt.Sprintf(",10.0.1.%d", 63-i)
	}
	if got := client.Addr(proxied(proxy, "X-Forwarded-For", chain)); got.String() != "192.0.2.7" {
		t.Errorf("63 proxies: %v", got)
	}
	chain = strings.Replace(chain, ",", ",10.0.2.1,", 1)
	if got := client.Addr(proxied(proxy, "X-Forwarded-For", chain)); got.String() != "10.0.2.1" {
		t.Errorf("64 proxies: %v", got)
	}
}

func TestClientKey(t *testing.T) {
	for _, c := range []struct {
		client       httplimit.Client
		remote, want string
	}{
		{httplimit.Client{}, "192.0.2.7:1", "192.0.2.7"},
		{httplimit.Client{}, "[2001:db8:1:2:3::4]:1", "2001:db8:1:2::/64"},
		{httplimit.Client{V4: 24, V6: 48}, "192.0.2.7:1", "192.0.2.0/24"},
		{httplimit.Client{V4: 24, V6: 48}, "[2001:db8:1:2:3::4]:1", "2001:db8:1::/48"},
		{httplimit.Client{V6: 128}, "[2001:db8:1:2:3::4%eth0]:1", "2001:db8:1:2:3::4"},
		{httplimit.Client{}, "[::ffff:192.0.2.7]:1", "192.0.2.7"},
		{httplimit.Client{}, "@", "unknown"},
	} {
		if got, ok := c.client.Key(proxied(c.remote, "")); got != c.want || !ok {
			t.Errorf("%+v of %s: %q %v", c.client, c.remote, got, ok)
		}
	}
}

// TestHeaderKey: keys of long values are short, and no two values have the same key.
func TestHeaderKey(t *testing.T) {
	h := httplimit.Header("api-key")
	long := strings.Repeat("x", 65)
	keys := map[string]string{}
	hashed, _ := h.Key(proxied("", "Api-Key", long))
	for _, value := range []string{
		"a", long[:64], long, long + "y", strings.Repeat("x", 1<<16), hashed,
	} {
		key, ok := h.Key(proxied("", "Api-Key", value))
		if !ok || len(key) > 71 || keys[key] != "" {
			t.Errorf("%.20q has the key %q, %v", value, key, ok)
		}
		keys[key] = value
	}
	for _, lines := range [][]string{nil, {""}} {
		if key, ok := h.Key(proxied("", "Api-Key", lines...)); ok {
			t.Errorf("%q has the key %q", lines, key)
		}
	}
}

// FuzzForwardedFor: whatever stands left of what a trusted proxy has written, the client is the
// one that the proxy names. Without that it is an address, and nothing panics.
func FuzzForwardedFor(f *testing.F) {
	for _, s := range []string{"", "1.1.1.1", "[::1]:80, 10.0.0.1", "a,,b", "fe80::1%x", ":", "["} {
		f.Add(s)
	}
	fuzzHeader(f, "X-Forwarded-For", "192.0.2.7")
}

// FuzzForwarded is FuzzForwardedFor for the header of RFC 7239.
func FuzzForwarded(f *testing.F) {
	for _, s := range []string{
		"", "for=1.1.1.1", `for="[::1]:80";by=a, for=10.0.0.1`, `for="`, `"\"`, `for="a\`, ";;,=",
	} {
		f.Add(s)
	}
	fuzzHeader(f, "Forwarded", `proto="a,\"b";for="192.0.2.7:_x"`)
}

func fuzzHeader(f *testing.F, header, hop string) {
	client := httplimit.Client{Trusted: trusted, Header: header}
	f.Fuzz(func(t *testing.T, spoofed string) {
		if got := client.Addr(proxied(proxy, header, spoofed+","+hop)); got.String() != "192.0.2.7" {
			t.Errorf("%q hides the client: %v", spoofed, got)
		}
		if got := client.Addr(proxied(proxy, header, spoofed, hop)); got.String() != "192.0.2.7" {
			t.Errorf("the line %q hides the client: %v", spoofed, got)
		}
		r := proxied(proxy, header, spoofed)
		a := client.Addr(r)
		if !a.IsValid() || a.Zone() != "" || a.Is4In6() {
			t.Errorf("%q: the client is %v", spoofed, a)
		}
		if key, ok := client.Key(r); !ok || len(key) > 43 {
			t.Errorf("%q: the key is %q", spoofed, key)
		}
	})
}
