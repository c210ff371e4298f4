package rules_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

// TestBucket: the most denied keys of a domain are buckets of its rules, and the store knows them
// by the key.
func TestBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := hybrid.NewMemory()
		l := newLimiter(t, store, newBoard(`
domain: "d/é"
descriptors:
- {key: user, rate_limit: {unit: day, requests_per_unit: 1}}
- {key: address, transform: ip/64, rate_limit: {unit: day, requests_per_unit: 2}}
- {key: path, value: /s*, share_threshold: true, rate_limit: {unit: day, requests_per_unit: 3}}
- key: tried
  rate_limit: {unit: day, requests_per_unit: 4}
  trial: {unit: day, requests_per_unit: 5, percent: 100}
- {key: seen, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 6}}
`), rules.Config{})
		for i, d := range []rules.Descriptor{
			rules.Of("user", `a",b`), rules.Of("address", "2001:db8::1"), rules.Of("path", "/s1"),
			rules.Of("tried", "t"), rules.Of("seen", "s"),
			{Entries: rules.Of("own", "o").Entries, Limit: hybrid.Quota(7, hybrid.Day)},
		} {
			admitted(t, l, "d/é", 20-i, d)
		}
		synctest.Wait() // shadows count beside
		want := []string{
			`user="a\",b" by user, 1`, `address=2001:db8::/64 by address, 2`, `path=/s* by path=/s*, shared 3`,
			`tried=t by tried, trial 5`, `tried=t by tried, shadow 4`, `seen=s by seen, shadow 6`,
			`own=o by , override 7`,
		}
		var got []string
		for _, k := range l.Stats().Domains[0].Limiter.MostDenied {
			b, err := l.Rules().Bucket("d/é", k.Key)
			if err != nil {
				t.Fatal(err)
			}
			v, err := store.Inspect(t.Context(), b.Key)
			if err != nil || v.Limit.Burst != b.Limit.Burst || len(v.Holders) != 1 {
				t.Errorf("%q: %+v, %v", b.Key, v, err)
			}
			text := rules.PathOf(b.Entries...) + " by " + b.Rule.Path + ", "
			if b.Trial {
				text += "trial "
			}
			if b.Shared {
				text += "shared "
			}
			if b.Override {
				text += "override "
			}
			if b.Shadow {
				text += "shadow "
			}
			got = append(got, text+string('0'+rune(b.Limit.Burst)))
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%q, not %q", got, want)
		}
	})
}

// TestBucketOfNobody: names of other rules and of other domains are no error, and have no limit.
func TestBucketOfNobody(t *testing.T) {
	r, err := parse("domain: d\ndescriptors: [{key: user, rate_limit: {unit: day, " +
		"requests_per_unit: 1}}]")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{{"d", "other=a"}, {"d", "user=a!trial"}, {"e", "user=a"}} {
		b, err := r.Bucket(c[0], c[1])
		if err != nil || b.Limit != (hybrid.Limit{}) || b.Rule.Path != "" {
			t.Errorf("%q: %+v, %v", c, b, err)
		}
	}
	for _, name := range []string{
		"", "=", "user=a,", `user="a`, "user=\x00", "user=a!", "user=a!quota/1",
	} {
		if b, err := r.Bucket("d", name); err == nil {
			t.Errorf("%q: %+v", name, b)
		}
	}
}
