package rules_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

// TestWildcards: a value goes before wildcards, the first wildcard of the document before others
// and before the key alone. Each value has a bucket of its own, unless they share a threshold.
func TestWildcards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, hybrid.NewMemory(), newBoard(`
domain: d
descriptors:
- {key: path, value: /a*, rate_limit: {unit: day, requests_per_unit: 1}}
- {key: path, value: /ab*, rate_limit: {unit: day, requests_per_unit: 2}}
- {key: path, value: /abc, rate_limit: {unit: day, requests_per_unit: 3}}
- {key: path, value: /s*, share_threshold: true, rate_limit: {unit: day, requests_per_unit: 4}}
- {key: path, value: /*/admin, rate_limit: {unit: day, requests_per_unit: 6}}
- {key: path, value: "*x*x*x*", share_threshold: true, rate_limit: {unit: day, requests_per_unit: 7}}
- {key: path, rate_limit: {unit: day, requests_per_unit: 5}}
`), rules.Config{})
		for _, c := range []struct {
			value, rule string
			yes         int
		}{
			{"/a", "path=/a*", 1}, {"/ax", "path=/a*", 1}, {"/abx", "path=/a*", 1},
			{"/abc", "path=/abc", 3}, {"/s1", "path=/s*", 4}, {"/s2", "path=/s*", 0},
			{"/s*", "path=/s*", 0}, {"/x", "path", 5}, {"", "path", 5},
			{"//admin", "path=/*/admin", 6}, {"/b/c/admin", "path=/*/admin", 6},
			{"/*/admin", "path=/*/admin", 6}, {"/b/administer", "path", 5},
			{"xxx", "path=*x*x*x*", 7}, {"/xyxyx", "path=*x*x*x*", 0}, {"/xx", "path", 5},
		} {
			d := rules.Of("path", c.value)
			if yes := admitted(t, l, "d", 10, d); yes != c.yes {
				t.Errorf("%v: %d were admitted, not %d", d, yes, c.yes)
			}
			if r, err := l.Take(t.Context(), "d", d); err != nil || r.Each[0].Rule != c.rule {
				t.Errorf("%v: %+v, %v", d, r, err)
			}
		}
	})
}

// TestReplaces: a rule that another one of the request replaces does not count, and costs
// nothing.
func TestReplaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, hybrid.NewMemory(), newBoard(`
domain: d
descriptors:
- {key: user, rate_limit: {name: each, unit: day, requests_per_unit: 1}}
- {key: path, rate_limit: {unit: day, requests_per_unit: 3, replaces: [{name: each}]}}
- {key: free, rate_limit: {unlimited: true, replaces: [{name: each}]}}
`), rules.Config{})
		both := []rules.Descriptor{rules.Of("user", "ann"), rules.Of("path", "/a")}
		if yes := admitted(t, l, "d", 5, both...); yes != 3 {
			t.Errorf("%d were admitted, not 3", yes)
		}
		r, err := l.Take(t.Context(), "d", both...)
		if err != nil || r.Each[0].State != rules.Replaced || r.Denied != 1 {
			t.Errorf("%+v, %v", r, err)
		}
		if yes := admitted(t, l, "d", 5, rules.Of("user", "ann"), rules.Of("free", "x")); yes != 5 {
			t.Errorf("%d were admitted, not 5", yes)
		}
		if yes := admitted(t, l, "d", 5, rules.Of("user", "ann")); yes != 1 {
			t.Errorf("%d were admitted, not 1", yes)
		}
	})
}

// TestTransform: addresses of one prefix have one bucket.
func TestTransform(t *testing.T) {
	for change, groups := range map[string][]string{
		"ip/64": {
			"2001:db8:0:1::1 2001:db8:0:1:ffff::2 2001:DB8:0:1::3%eth0", "2001:db8:0:2::1",
			"192.0.2.1 ::ffff:192.0.2.1", "192.0.2.2", "unknown", "192.0.2.1:80", "2001:db8:0:1::/64x",
		},
		"ip/128": {"fe80::1%eth0 fe80::1", "fe80::2"},
		"ip/24/48": {"2001:db8:0:1::1 2001:db8:0:2::1", "2001:db8:1::1",
			"192.0.2.1 192.0.2.9", "192.0.3.1"},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, hybrid.NewMemory(), newBoard("domain: d\ndescriptors:\n- key: address\n"+
				"  transform: "+change+"\n  rate_limit: {unit: day, requests_per_unit: 4}"), rules.Config{})
			for _, group := range groups {
				yes := 0
				for _, address := range strings.Fields(group) {
					yes += admitted(t, l, "d", 2, rules.Of("address", address))
					if _, err := l.Take(t.Context(), "d", rules.Of("address", address)); err != nil {
						t.Fatal(err)
					}
				}
				for _, address := range strings.Fields(group) {
					yes += admitted(t, l, "d", 4, rules.Of("address", address))
				}
				if n := len(strings.Fields(group)); yes+n < 4 || yes > 4 {
					t.Errorf("%s: %s: %d were admitted of 4", change, group, yes)
				}
			}
		})
	}
}

// TestBucketOfRule: the name of a bucket leads to the rule that its descriptor matches, whatever
// is in keys and values. A program looks limits up so.
func TestBucketOfRule(t *testing.T) {
	const seed = 1
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	texts := []string{"a", "ab", "b", "a,b", "a=b", "~a", "a^", `"`, "!trial", "a*", "*", "*b", "a*b", "*a*", "\x00\xff",
		"é", "192.0.2.1", "192.0.2.0/24", "2001:db8::1"}
	text := func() string { return texts[rng.IntN(len(texts))] }
	key := func() string { return []string{"a", "b", "a=b", "!trial"}[rng.IntN(4)] }
	// Rules whose buckets have few paths, which branch: by how many of their entries vary.
	pins := [][]string{
		{"a", "b", "a=b,b", "a=b,c", "a=ab,c", "b,a=b", "a=b,c=a,b"},
		{"a,b", "a,c", "b,a", "a=b,b,c", "a,c=a,c"},
	}
	matched, pinned := 0, 0
	for range 1500 {
		var b strings.Builder
		n := 0
		var level func(indent string, depth int)
		level = func(indent string, depth int) {
			for range 1 + rng.IntN(3) {
				fmt.Fprintf(&b, "%s- key: %q\n", indent, key())
				n++
				if value := text(); rng.IntN(3) > 0 {
					fmt.Fprintf(&b, "%s  value: %q\n", indent, value)
					if strings.Contains(value, "*") && rng.IntN(2) == 0 {
						fmt.Fprintf(&b, "%s  share_threshold: true\n", indent)
					}
				} else if rng.IntN(2) == 0 {
					fmt.Fprintf(&b, "%s  transform: ip/24/64\n", indent)
				}
				if rng.IntN(3) > 0 {
					fmt.Fprintf(&b, "%s  rate_limit: {unit: day, requests_per_unit: %d}\n", indent, n)
					if rng.IntN(6) == 0 {
						path := rules.PathOf(rules.Entry{Key: key()}, rules.Entry{Key: text(), Value: text()})
						fmt.Fprintf(&b, "%s  bucket: %q\n", indent, path)
					}
				}
				if depth < 3 && rng.IntN(2) == 0 {
					fmt.Fprintf(&b, "%s  descriptors:\n", indent)
					level(indent+"  ", depth+1)
				}
			}
		}
		b.WriteString("domain: d\ndescriptors:\n")
		level("", 0)
		for i := range 3 {
			limit := fmt.Sprintf("rate_limit: {unit: day, requests_per_unit: %d}", n+1+i)
			fmt.Fprintf(&b, "- {key: p%d, bucket: %q, %s}\n", i, pins[0][rng.IntN(len(pins[0]))], limit)
			fmt.Fprintf(&b, "- {key: q%d, descriptors: [{key: r, bucket: %q, %s}]}\n",
				i, pins[1][rng.IntN(len(pins[1]))], limit)
		}
		r, err := parse(b.String())
		if err != nil {
			continue // descriptors that are there twice, and the like
		}
		for range 50 {
			d := rules.Of(key(), text())
			for rng.IntN(2) == 0 {
				d = d.And(key(), text())
			}
			switch i := rng.IntN(3); rng.IntN(4) {
			case 0:
				d = rules.Of(fmt.Sprint("p", i), text())
			case 1:
				d = rules.Of(fmt.Sprint("q", i), text()).And("r", text())
			}
			rule, bucket, found := r.BucketOf("d", d)
			if rule == "" {
				continue
			}
			matched++
			if d, _ := r.Explain("d", d); d[0].Rule.Bucket != "" {
				pinned++
			}
			if found != rule {
				t.Fatalf("%s\n%v: the bucket %q of rule %s is one of %q", b.String(), d, bucket, rule, found)
			}
		}
	}
	if matched < 1000 || pinned < 100 {
		t.Errorf("%d matched, %d of them a rule with a bucket", matched, pinned)
	}
}

// TestPaths: a path is read as it was written, whatever is in it.
func TestPaths(t *testing.T) {
	for _, e := range [][]rules.Entry{
		{{"a", ""}}, {{"a", "b"}}, {{"a", "b"}, {"c", ""}}, {{"a,b", "=c"}, {`"`, "\xff"}},
		{{"é", "~^!"}},
	} {
		path := rules.PathOf(e...)
		back, err := rules.ParsePath(path)
		if err != nil || rules.PathOf(back...) != path || len(back) != len(e) || back[0] != e[0] {
			t.Errorf("%q: %q, %v", path, back, err)
		}
	}
	for _, text := range []string{"", ",", "a=", "a,", "a b", `"a`, "a~b", "a!trial", "=a", "a=b=c"} {
		if e, err := rules.ParsePath(text); err == nil {
			t.Errorf("%q: %q", text, e)
		}
	}
}

// TestBucketField: a rule with a bucket counts on the buckets of that path. Values that vary
// take the place of those that the path leaves open, in their order.
func TestBucketField(t *testing.T) {
	r, err := parse(`
domain: d
descriptors:
- key: from
  value: proxy
  descriptors:
  - key: client
    bucket: user
    rate_limit: {unit: day, requests_per_unit: 1}
  - key: address
    transform: ip/64
    descriptors:
    - key: path
      value: /a*
      share_threshold: true
      bucket: kind=old,ip,route
      rate_limit: {unit: day, requests_per_unit: 1}
`)
	must(t, err)
	proxy := rules.Of("from", "proxy")
	for _, c := range []struct {
		d   rules.Descriptor
		key string
	}{
		{proxy.And("client", "ann"), "rules.d:user=ann"},
		{proxy.And("address", "2001:db8::1").And("path", "/ab"),
			"rules.d:kind=old,ip~2001:db8::/64,route^/a*"},
	} {
		e, err := r.Explain("d", c.d)
		if err != nil || e[0].Key != c.key {
			t.Errorf("%v: %+v, %v", c.d, e, err)
		}
	}
}

// TestBucketsThatBranch: the paths of two buckets begin alike, and a value of the second is in the
// first.
func TestBucketsThatBranch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, hybrid.NewMemory(), newBoard(`
domain: d
descriptors:
- {key: p, bucket: "a=x,b", rate_limit: {unit: day, requests_per_unit: 5}}
- key: q
  descriptors: [{key: r, bucket: "a,c", rate_limit: {unit: day, requests_per_unit: 3}}]
`), rules.Config{})
		if yes := admitted(t, l, "d", 10, rules.Of("q", "x").And("r", "1")); yes != 3 {
			t.Errorf("%d were admitted, not 3", yes)
		}
	})
}
