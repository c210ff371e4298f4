package lists_test

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/lists"
)

// A List stands in front of LimitFor: the office has no limit, and a scanner gets nothing.
func Example() {
	list := new(lists.List)
	err := list.Set(lists.Entries{Prefixes: map[netip.Prefix]lists.Verdict{
		netip.MustParsePrefix("10.0.0.0/8"):      lists.Allow,
		netip.MustParsePrefix("198.51.100.0/24"): lists.Deny,
	}})
	if err != nil {
		panic(err)
	}
	limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{
		LimitFor: list.LimitFor(func(string) hybrid.Limit { return hybrid.PerHour(1) }),
	})
	if err != nil {
		panic(err)
	}
	defer limiter.Close(context.Background())
	for _, address := range []string{"10.1.2.3", "198.51.100.7", "203.0.113.5"} {
		fmt.Println(address, limiter.Allow(address), limiter.Allow(address))
	}
	// Output:
	// 10.1.2.3 true true
	// 198.51.100.7 false false
	// 203.0.113.5 true false
}

func ExampleList_Set() {
	list := new(lists.List)
	fmt.Println(list.Key("user:42"))
	err := list.Set(lists.Entries{Keys: map[string]lists.Verdict{"user:42": lists.Deny}})
	fmt.Println(list.Key("user:42"), err)
	// Output:
	// neither
	// deny <nil>
}

// An entry with an end is a ban until then.
func ExampleEntries_ends() {
	list := new(lists.List)
	scanner := netip.MustParsePrefix("198.51.100.0/24")
	for _, end := range []time.Time{time.Now().Add(time.Hour), time.Now()} {
		err := list.Set(lists.Entries{
			Prefixes:   map[netip.Prefix]lists.Verdict{scanner: lists.Deny},
			PrefixEnds: map[netip.Prefix]time.Time{scanner: end},
		})
		fmt.Println(list.Key("198.51.100.7"), err)
	}
	// Output:
	// deny <nil>
	// neither <nil>
}

// An exception within a prefix has no verdict: its limit decides.
func ExampleEntries() {
	list := new(lists.List)
	err := list.Set(lists.Entries{Prefixes: map[netip.Prefix]lists.Verdict{
		netip.MustParsePrefix("10.0.0.0/8"):  lists.Allow,
		netip.MustParsePrefix("10.9.0.0/16"): lists.Neither,
	}})
	fmt.Println(list.Key("10.1.2.3"), list.Key("10.9.2.3"), err)
	// Output: allow neither <nil>
}

func ExampleList_Addr() {
	list := new(lists.List)
	err := list.Set(lists.Entries{Prefixes: map[netip.Prefix]lists.Verdict{
		netip.MustParsePrefix("2001:db8::/32"): lists.Deny,
	}})
	fmt.Println(list.Addr(netip.MustParseAddr("2001:db8::7")), err)
	// Output: deny <nil>
}

// All of a prefix is denied, or only a part of it.
func ExampleList_Prefix() {
	list := new(lists.List)
	err := list.Set(lists.Entries{Prefixes: map[netip.Prefix]lists.Verdict{
		netip.MustParsePrefix("2001:db8::/64"): lists.Deny,
	}})
	fmt.Println(list.Prefix(netip.MustParsePrefix("2001:db8::/64")),
		list.Prefix(netip.MustParsePrefix("2001:db8::/48")), err)
	// Output: deny neither <nil>
}

func ExampleList_Key() {
	list := new(lists.List)
	err := list.Set(lists.Entries{
		Keys:     map[string]lists.Verdict{"user:42": lists.Allow},
		Prefixes: map[netip.Prefix]lists.Verdict{netip.MustParsePrefix("10.0.0.0/8"): lists.Allow},
	})
	fmt.Println(list.Key("user:42"), list.Key("10.1.2.3"), list.Key("user:43"), err)
	// Output: allow allow neither <nil>
}

func ExampleList_LimitFor() {
	list := new(lists.List)
	err := list.Set(lists.Entries{Keys: map[string]lists.Verdict{"user:42": lists.Deny}})
	limitFor := list.LimitFor(func(string) hybrid.Limit { return hybrid.PerSecond(10) })
	fmt.Println(limitFor("user:42"), limitFor("user:43"), err)
	// Output: blocked 10/s burst 10 <nil>
}

func ExampleVerdict() {
	fmt.Println(lists.Neither, lists.Allow, lists.Deny)
	// Output: neither allow deny
}

func ExampleVerdict_String() {
	fmt.Println(lists.Deny.String())
	// Output: deny
}

func ExampleList() {
	var list lists.List // allows and denies nothing yet
	fmt.Println(list.Key("user:42"))
	// Output: neither
}
