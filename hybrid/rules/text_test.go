package rules_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

// TestLimitText: a limit is written as in the document that has it.
func TestLimitText(t *testing.T) {
	for _, fields := range []string{
		"unit: second, requests_per_unit: 10, burst: 20", "unit: minute, requests_per_unit: 600",
		"unit: hour, requests_per_unit: 3", "unit: hour, requests_per_unit: 7, burst: 100",
		"unit: day, requests_per_unit: 11, kind: bucket", "unit: second, requests_per_unit: 4294967296",
		"unit: day, requests_per_unit: 1000", "unit: week, requests_per_unit: 5, offset: -9h30m",
		"unit: year, requests_per_unit: 5, kind: sliding", "unlimited: true",
	} {
		r, err := parse("domain: d\ndescriptors: [{key: k, rate_limit: {" + fields + "}}]")
		if err != nil {
			t.Fatal(err)
		}
		d, _ := r.Domain("d")
		if got := rules.LimitText(d.Rules[0].Limit); got != d.Rules[0].Text {
			t.Errorf("%s: %q, not %q", fields, got, d.Rules[0].Text)
		}
	}
	for want, l := range map[string]hybrid.Limit{
		"600/minute":              hybrid.PerSecond(10).WithBurst(600),
		"150/minute burst 7":      hybrid.PerSecond(2.5).WithBurst(7),
		"3/minute burst 1":        hybrid.PerMinute(3).WithBurst(1),
		"7 in any 1m30s":          hybrid.Sliding(7, 90*time.Second),
		"9 slots":                 hybrid.Slots(9),
		"blocked":                 hybrid.Blocked,
		"0.000123457/s burst 100": {Rate: 1.0 / 8100, Burst: 100},
	} {
		if got := rules.LimitText(l); got != want {
			t.Errorf("%+v: %q, not %q", l, got, want)
		}
	}
}

// TestCounted: a rule says how its values are counted, and those of the levels above it.
func TestCounted(t *testing.T) {
	r, err := parse(`
domain: d
descriptors:
- key: address
  transform: ip/64
  rate_limit: {unit: day, requests_per_unit: 1}
  descriptors:
  - {key: path, value: /s*, share_threshold: true, rate_limit: {unit: day, requests_per_unit: 2}}
- {key: network, transform: ip/24/48, rate_limit: {unit: day, requests_per_unit: 3}}
- {key: user, rate_limit: {unit: day, requests_per_unit: 4}}
`)
	if err != nil {
		t.Fatal(err)
	}
	d, _ := r.Domain("d")
	var got []string
	for _, r := range d.Rules {
		got = append(got, fmt.Sprintf("%s: %s", r.Path, strings.Join(r.Counted, "; ")))
	}
	want := []string{
		"address: address by ip/64",
		"address,path=/s*: address by ip/64; path=/s* shared by all values",
		"network: network by ip/24/48", "user: ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
}

// TestParseDomain: a text is that of its domain, and none is no rules.
func TestParseDomain(t *testing.T) {
	if r, err := rules.ParseDomain("d", nil); r != nil || err != nil {
		t.Errorf("%v, %v", r, err)
	}
	if r, err := rules.ParseDomain("d", []byte("domain: d")); err != nil || len(r.Domains()) != 1 {
		t.Errorf("%v, %v", r, err)
	}
	for _, text := range []string{"", "domain: e"} {
		if _, err := rules.ParseDomain("d", []byte(text)); err == nil {
			t.Errorf("%q is no mistake", text)
		}
	}
}
