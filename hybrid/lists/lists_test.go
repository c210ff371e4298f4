package lists_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/lists"
)

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }
func addr(s string) netip.Addr     { return netip.MustParseAddr(s) }

func newList(t testing.TB, e lists.Entries) *lists.List {
	t.Helper()
	l := new(lists.List)
	if err := l.Set(e); err != nil {
		t.Fatal(err)
	}
	return l
}

// nested has prefixes within each other, at the ends of both families.
func nested(t testing.TB) *lists.List {
	return newList(t, lists.Entries{
		Keys: map[string]lists.Verdict{"user:42": lists.Allow, "192.0.2.9": lists.Allow},
		Prefixes: map[netip.Prefix]lists.Verdict{
			prefix("10.0.0.0/8"):         lists.Allow,
			prefix("10.1.0.0/16"):        lists.Deny,
			prefix("10.1.2.0/24"):        lists.Neither,
			prefix("10.1.2.3/32"):        lists.Allow,
			prefix("192.0.2.0/24"):       lists.Deny,
			prefix("255.255.255.255/32"): lists.Deny,
			prefix("2001:db8::/32"):      lists.Deny,
			prefix("2001:db8:0:1::/64"):  lists.Allow,
			prefix("ffff::/16"):          lists.Deny,
			prefix("172.16.0.0/13"):      lists.Deny,
			prefix("172.24.0.0/13"):      lists.Deny,
		},
	})
}

func TestLongestPrefix(t *testing.T) {
	l := nested(t)
	for key, want := range map[string]lists.Verdict{
		"10.0.0.0": lists.Allow, "10.0.255.255": lists.Allow, "10.255.255.255": lists.Allow,
		"9.255.255.255": lists.Neither, "11.0.0.0": lists.Neither,
		"10.1.0.0": lists.Deny, "10.1.255.255": lists.Deny, "10.2.0.0": lists.Allow,
		"10.1.2.0": lists.Neither, "10.1.2.2": lists.Neither, "10.1.2.3": lists.Allow,
		"10.1.2.4": lists.Neither, "10.1.3.0": lists.Deny,
		"192.0.2.1": lists.Deny, "192.0.2.9": lists.Allow, "user:42": lists.Allow,
		"user:4": lists.Neither, "": lists.Neither, "10.0.0.0/33": lists.Neither,
		"255.255.255.254": lists.Neither, "255.255.255.255": lists.Deny,
		"::": lists.Neither, "2001:db8::1": lists.Deny, "2001:db8:0:1::1": lists.Allow,
		"2001:db8:0:2::": lists.Deny, "2001:db9::": lists.Neither,
		"ffff:ffff::": lists.Deny, "::ffff:10.1.0.1": lists.Deny, "fe80::1%eth0": lists.Neither,
		"2001:db8::1%eth0": lists.Deny,
		// All of a prefix, or none of it.
		"10.0.0.0/16": lists.Allow, "10.0.0.0/8": lists.Neither, "10.1.9.0/24": lists.Deny,
		"2001:db8:0:1::/64": lists.Allow, "2001:db8::/64": lists.Deny,
		"172.16.0.0/12": lists.Deny, "172.16.0.0/11": lists.Neither,
		"2001:db8::/48": lists.Neither, "2001:db8::/32": lists.Neither,
		// The same, written as IPv6.
		"::ffff:10.1.9.0/120": lists.Deny, "::ffff:10.1.9.7/128": lists.Deny,
		"::ffff:10.0.0.0/104": lists.Neither, "::ffff:10.0.0.0/95": lists.Neither,
	} {
		if got := l.Key(key); got != want {
			t.Errorf("Key(%q) is %v, not %v", key, got, want)
		}
	}
	if l.Addr(netip.Addr{}) != lists.Neither || l.Prefix(netip.Prefix{}) != lists.Neither {
		t.Error("no address is in the list")
	}
}

// TestAgainstScan compares random lists with a look at each prefix.
func TestAgainstScan(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		some := func() netip.Addr { // few, so that prefixes nest and meet
			b := [16]byte{0x20, 0x01, byte(random.IntN(3)) * 0x7f, byte(random.IntN(256))}
			if random.IntN(2) == 0 {
				return netip.AddrFrom16(b)
			}
			b[0] = byte(random.IntN(2)) * 0xff
			b[3] = byte(random.IntN(4)) * 0x55
			return netip.AddrFrom4([4]byte(b[:4]))
		}
		entries := map[netip.Prefix]lists.Verdict{}
		for range random.IntN(40) {
			a := some()
			p, _ := a.Prefix(random.IntN(a.BitLen() + 1))
			entries[p] = lists.Verdict(random.IntN(3))
		}
		l := newList(t, lists.Entries{Prefixes: entries})
		scan := func(a netip.Addr) (v lists.Verdict) {
			longest := -1
			for p, of := range entries {
				if p.Contains(a) && p.Bits() > longest {
					longest, v = p.Bits(), of
				}
			}
			return v
		}
		for range 300 {
			if a := some(); l.Addr(a) != scan(a) {
				t.Fatalf("seed %d: %v is %v, not %v, by %v", seed, a, l.Addr(a), scan(a), entries)
			}
		}
	}
}

// TestSetRefuses: an entry that makes no sense is named, and the list stays as it was.
func TestSetRefuses(t *testing.T) {
	l := nested(t)
	for want, e := range map[string]lists.Entries{
		`Entries.Keys["user:7"] is Verdict(3)`: {Keys: map[string]lists.Verdict{"user:7": 3}},
		"write 10.0.0.0/8": {Prefixes: map[netip.Prefix]lists.Verdict{
			netip.PrefixFrom(addr("10.1.0.0"), 8): lists.Deny,
		}},
		"is IPv4 written as IPv6": {Prefixes: map[netip.Prefix]lists.Verdict{
			prefix("::ffff:10.0.0.0/104"): lists.Deny,
		}},
		`KeyEnds["user:7"] is of no entry`: {KeyEnds: map[string]time.Time{"user:7": {}}},
		"PrefixEnds[192.0.2.0/24] is of no entry": {
			PrefixEnds: map[netip.Prefix]time.Time{prefix("192.0.2.0/24"): {}},
		},
		"is not a prefix": {Prefixes: map[netip.Prefix]lists.Verdict{{}: lists.Deny}},
		"[192.0.2.0/24] is Verdict(-1)": {Prefixes: map[netip.Prefix]lists.Verdict{
			prefix("192.0.2.0/24"): -1,
		}},
	} {
		err := l.Set(e)
		if err == nil || !strings.HasPrefix(err.Error(), "lists: ") ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %s", err, want)
		}
	}
	if l.Key("user:42") != lists.Allow || l.Key("10.1.0.1") != lists.Deny {
		t.Error("an error has changed the list")
	}
}

// TestSetIsAtomic: while one of two lists takes the other's place, each look sees one of them,
// whole. The caller may change its maps afterwards.
func TestSetIsAtomic(t *testing.T) {
	const rounds = 200
	entries := func(v lists.Verdict) lists.Entries {
		return lists.Entries{
			Keys:     map[string]lists.Verdict{"k": v},
			Prefixes: map[netip.Prefix]lists.Verdict{prefix("10.0.0.0/8"): v},
		}
	}
	l := newList(t, entries(lists.Allow))
	var looks sync.WaitGroup
	for range 4 {
		looks.Go(func() {
			for range rounds {
				if v := l.Addr(addr("10.1.1.1")); v == lists.Neither || l.Key("k") == lists.Neither {
					t.Error("a look has seen half a list")
				}
			}
		})
	}
	for i := range rounds {
		e := entries([]lists.Verdict{lists.Allow, lists.Deny}[i%2])
		if err := l.Set(e); err != nil {
			t.Fatal(err)
		}
		clear(e.Keys)
		clear(e.Prefixes)
	}
	looks.Wait()
}

// TestEndsAtOnce: of looks that meet an end, and of a Set beside them, the Set stays.
func TestEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 1000 {
			l := newList(t, lists.Entries{
				Keys:    map[string]lists.Verdict{"k": lists.Deny},
				KeyEnds: map[string]time.Time{"k": time.Now().Add(time.Second)},
			})
			time.Sleep(time.Second)
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					if l.Key("k") == lists.Deny {
						t.Error("it has not ended")
					}
				})
			}
			all.Go(func() {
				if err := l.Set(lists.Entries{Keys: map[string]lists.Verdict{"k": lists.Allow}}); err != nil {
					t.Error(err)
				}
			})
			all.Wait()
			if l.Key("k") != lists.Allow {
				t.Fatal("Set is lost")
			}
		}
	})
}

// TestEnds: an entry ends at its time, and uncovers what is below it; Set at the same time stays.
func TestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := func(seconds int) time.Time { return time.Now().Add(time.Duration(seconds) * time.Second) }
		l := newList(t, lists.Entries{
			Keys: map[string]lists.Verdict{"a": lists.Deny, "b": lists.Deny, "c": lists.Allow},
			Prefixes: map[netip.Prefix]lists.Verdict{
				prefix("10.0.0.0/8"): lists.Allow, prefix("10.1.0.0/16"): lists.Deny,
				prefix("10.1.2.0/24"): lists.Allow,
			},
			KeyEnds:    map[string]time.Time{"a": at(1), "b": at(3), "c": at(0)},
			PrefixEnds: map[netip.Prefix]time.Time{prefix("10.1.0.0/16"): at(2)},
		})
		for second, want := range []string{
			"deny deny neither deny allow", "neither deny neither deny allow",
			"neither deny neither allow allow", "neither neither neither allow allow",
		} {
			var got []string
			for _, key := range []string{"a", "b", "c", "10.1.1.1", "10.1.2.3"} {
				got = append(got, l.Key(key).String())
			}
			if strings.Join(got, " ") != want {
				t.Errorf("after %d s: %s, not %s", second, got, want)
			}
			time.Sleep(time.Second - time.Nanosecond)
			if l.Key("b") != lists.Deny && second < 3 {
				t.Errorf("after %d s: b has ended early", second)
			}
			time.Sleep(time.Nanosecond)
		}
	})
}

// TestLimitFor: a key in use goes by a change within MaxRefresh.
func TestLimitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newList(t, lists.Entries{})
		limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{
			LimitFor: l.LimitFor(func(string) hybrid.Limit { return hybrid.PerHour(1) }),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer limiter.Close(context.Background())
		const key = "192.0.2.7"
		if !limiter.Allow(key) || limiter.Allow(key) {
			t.Fatal("the limit of 1 does not hold")
		}
		for _, c := range []struct {
			verdict lists.Verdict
			want    bool
		}{{lists.Allow, true}, {lists.Deny, false}, {lists.Allow, true}, {lists.Neither, false}} {
			err := l.Set(lists.Entries{
				Prefixes: map[netip.Prefix]lists.Verdict{prefix("192.0.2.0/24"): c.verdict},
			})
			if err != nil {
				t.Fatal(err)
			}
			limiter.Allow(key) // which has the list asked
			time.Sleep(300 * time.Millisecond)
			limiter.Allow(key)
			synctest.Wait()
			if got := limiter.Allow(key); got != c.want {
				t.Errorf("%v: Allow is %v", c.verdict, got)
			}
		}
		_, err = limiter.Take(context.Background(), key, 2)
		if !errors.Is(err, hybrid.ErrExceedsBurst) {
			t.Errorf("the limit has not come back: %v", err)
		}
	})
}

// BenchmarkAddr looks up addresses in a list of 10,000 prefixes of 20 lengths.
func BenchmarkAddr(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 0))
	some := func() netip.Addr {
		x := random.Uint32()
		return netip.AddrFrom4([4]byte{byte(x), byte(x >> 8), byte(x >> 16), byte(x >> 24)})
	}
	entries := map[netip.Prefix]lists.Verdict{}
	for len(entries) < 10_000 {
		p, _ := some().Prefix(13 + random.IntN(20))
		entries[p] = lists.Deny
	}
	l := newList(b, lists.Entries{Prefixes: entries})
	addrs := make([]netip.Addr, 4096)
	for i := range addrs {
		addrs[i] = some()
	}
	i := 0
	for b.Loop() {
		l.Addr(addrs[i%len(addrs)])
		i++
	}
}
