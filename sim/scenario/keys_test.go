package scenario

import (
	"slices"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// A list of keys is written as it is read, is copied, and gives way to a number.
func TestListOfKeys(t *testing.T) {
	const text = `
keys:
  - {name: client, limit: 20/s, number: 300, skew: 1}
  - {name: today, limit: 4000/day UTC+02:00}
  - {name: all, limit: 800/s, burst: 400}
`
	s, err := Parse([]byte(text), nil)
	if err == nil {
		err = s.Resolve()
	}
	if err != nil {
		t.Fatal(err)
	}
	want := []Limited{
		{"client", lease.Limit{Rate: 20, Burst: 100}, "20/s burst 100", "20/s", 0, 300, 1, ""},
		{"today", quota(4000, lease.Day, 2*time.Hour), "4000/day UTC+02:00", "4000/day UTC+02:00", 300, 1, 0, ""},
		{"all", lease.Limit{Rate: 800, Burst: 400}, "800/s burst 400", "800/s", 301, 1, 0, ""},
	}
	again, err := Parse([]byte(s.Text()), nil)
	if err == nil {
		err = again.Resolve()
	}
	if err != nil || again.Text() != s.Text() {
		t.Fatalf("%v: written\n%s\nread and written\n%s", err, s.Text(), again.Text())
	}
	for _, c := range []*Scenario{s, again, s.Clone()} {
		want[0].Chosen = map[bool]string{true: "ten requests for each process"}[c == s] // else written
		if got := c.Limits(); !slices.Equal(got, want) || c.AllKeys() != 302 || !c.HasQuotas() {
			t.Errorf("%v, %d keys", got, c.AllKeys())
		}
	}
	if x := s.Capacity(); x != 4000/86400. {
		t.Errorf("%v tokens/s of the narrowest limit", x)
	}
	for n, name := range map[int]string{0: "client-0", 299: "client-299", 300: "today-0",
		301: "all-0"} {
		if got := s.KeyName(n); got != name {
			t.Errorf("key %d is %q, want %q", n, got, name)
		}
	}
	later := s.Clone()
	later.Begins = 90 * time.Second
	if l := later.Limits()[1]; l.Limit.Offset != 2*time.Hour+90*time.Second || l.Text != want[1].Text {
		t.Errorf("a run that begins later has %+v", l)
	}
	if err := s.Set("keys", "7"); err != nil || s.Resolve() != nil || s.Keys.Number != 7 ||
		len(s.Limits()) != 1 {
		t.Errorf("set to 7 keys: %+v, %v", s.Keys, err)
	}
	if err := s.Set("keys", "[{name: a, limit: 5/s}]"); err != nil || len(s.Keys.Each) != 1 {
		t.Errorf("set to a list: %+v, %v", s.Keys, err)
	}
	if err := s.Set("keys.number", "7"); err == nil {
		t.Error("a field of the keys was set")
	}
}
