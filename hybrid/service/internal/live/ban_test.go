package live

import (
	"testing"

	"github.com/seed13b07268/ration/hybrid/rules"
)

// TestBanAddress: a key leads to its ban if descriptors have its entries, and else nowhere.
func TestBanAddress(t *testing.T) {
	set, err := rules.Parse(rules.Document{Text: []byte(`
domain: d/e
descriptors:
- {key: user, rate_limit: {unit: day, requests_per_unit: 1}}
- {key: path, value: /s*, share_threshold: true, rate_limit: {unit: day, requests_per_unit: 3}}
- {key: new, bucket: old, rate_limit: {unit: day, requests_per_unit: 3}}
`)})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"user=a%2B": "/domains/d%2Fe/bans?descriptor=user%3Da%252B",
		`user="<"`:  "/domains/d%2Fe/bans?descriptor=user%3D%22%3C%22",
		"other=b":   "/domains/d%2Fe/bans?descriptor=other%3Db",
		"path^/s*":  "", "old=a": "", "user": "",
	} {
		b, err := set.Bucket("d/e", name)
		if err != nil {
			t.Fatal(err)
		}
		if got := banAddress("d/e", b); got != want {
			t.Errorf("%s: %q, not %q", name, got, want)
		}
	}
}
