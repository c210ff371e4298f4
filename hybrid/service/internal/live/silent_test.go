package live

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// TestSilence: a service that is killed is missed for an hour, by its name. One that ends in order
// is not, and nobody is while the store is away.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := hybrid.NewMemory()
		counters := &refusing{Memory: hybrid.NewMemory(), texts: map[string]int{}}
		named := func(name string) replica {
			return newNamed(t, store, counters, twoRules, name)
		}
		a, b, c := named("host-a"), named("host-b"), named("host-c")
		time.Sleep(time.Minute)
		synctest.Wait()
		if looks := a.Looks(); len(looks) != 0 {
			t.Errorf("of three that report: %q", looks)
		}
		b.end()
		time.Sleep(time.Minute)
		if looks := a.Looks(); len(looks) != 0 {
			t.Errorf("one has ended in order: %q", looks)
		}
		counters.set(true)
		c.end() // its farewell is lost, as if it were killed
		time.Sleep(20 * time.Second)
		if looks := a.Looks(); len(looks) != 1 ||
			!strings.HasPrefix(looks[0], "The store has not answered for ") {
			t.Errorf("while the store is away: %q", looks)
		}
		counters.set(false)
		time.Sleep(6 * time.Second)
		if looks := a.Looks(); len(looks) != 0 {
			t.Errorf("just after that: %q", looks)
		}
		time.Sleep(3 * time.Minute)
		if looks := a.Looks(); len(looks) != 1 ||
			!strings.HasPrefix(looks[0], "host-c has not reported for 3.") {
			t.Errorf("after it was killed: %q", looks)
		}
		want(t, says(t, a.Live, "/live/d"), "host-c silent for 3.", "no: host-b silent", "1 more, silent")
		time.Sleep(time.Hour)
		if looks := a.Looks(); len(looks) != 0 {
			t.Errorf("after an hour: %q", looks)
		}
	})
}

// TestBack: a service that was killed and begins again is missed no more, by others or by itself.
// One that ran beside it does not stand for it, and one that begins stands for one alone.
func TestBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := hybrid.NewMemory()
		counters := &refusing{Memory: hybrid.NewMemory(), texts: map[string]int{}}
		named := func(name string) replica {
			return newNamed(t, store, counters, twoRules, name)
		}
		missed := func(by replica, want ...string) {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
			looks := by.Looks()
			for i := range looks {
				looks[i], _, _ = strings.Cut(looks[i], " ")
			}
			if !slices.Equal(looks, want) {
				t.Errorf("missed are %q, not %q", looks, want)
			}
		}
		kill := func(all ...replica) {
			counters.set(true)
			for _, r := range all {
				r.end() // its farewell is lost
			}
			counters.set(false)
		}
		a, one, two, three := named("host-a/1"), named("host-b/1"), named("host-b/2"), named("host-b/3")
		missed(a)
		kill(one, two)
		missed(a, "host-b/1", "host-b/2")
		four := named("host-b/4")
		missed(a, "host-b/2")
		kill(four)
		missed(a, "host-b/2", "host-b/4")
		five := named("host-b/5")
		missed(a, "host-b/4")
		kill(five)
		time.Sleep(time.Second)
		missed(named("host-b/5")) // which has read what the killed one has told last
		missed(three, "host-b/5")
	})
}

// TestSilenceIsBounded: whatever others write, 256 services are kept in mind, for an hour.
func TestSilenceIsBounded(t *testing.T) {
	now := time.Now()
	s := silence{services: map[string]service{}, read: now, since: now}
	for i := range 40 {
		heard := map[string]service{}
		for j := range 100 {
			name := strings.Repeat("x", i*100+j)
			heard[name] = service{name: name, heard: now}
		}
		s.hear(now, heard, nil)
		now = now.Add(time.Second)
	}
	if n := len(s.services); n != mostServices {
		t.Errorf("%d services", n)
	}
	if n := len(s.missed(now)); n != mostServices {
		t.Errorf("%d of them are missed", n)
	}
	s.hear(now.Add(2*missedFor), nil, nil)
	if n := len(s.services); n != 0 {
		t.Errorf("%d services after two hours", n)
	}
}
