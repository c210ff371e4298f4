package page

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid/service/internal/account"
)

// TestCrowd: ten events of a kind have lines in a minute, and the end of that tells how many more
// there were. Another kind has its own.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // a minute's end tells from a goroutine of its own
		var told []string
		c := newCrowd(func(e account.Event) error {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, e.What+": "+e.Detail)
			return nil
		})
		lines := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(told)
		}
		flood := func(n int) (lines int) {
			for range n {
				if c.line("x") {
					lines++
				}
			}
			return lines
		}
		if n := flood(4) + flood(1000); n != 10 {
			t.Errorf("%d lines in the first minute", n)
		}
		if !c.line("y") {
			t.Error("another kind has no line")
		}
		time.Sleep(59 * time.Second)
		if n := flood(1); n != 0 || len(lines()) != 0 {
			t.Errorf("in the same minute %d lines, told %q", n, lines())
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := flood(5); n != 5 {
			t.Errorf("%d lines in the second minute", n)
		}
		time.Sleep(time.Hour)
		if n := flood(30); n != 10 {
			t.Errorf("%d lines after an hour", n)
		}
		c.close()
		want := []string{"x: 995 more since 00:00:00 UTC", "x: 20 more since 01:01:00 UTC"}
		if !slices.Equal(lines(), want) {
			t.Errorf("%q", lines())
		}
	})
}

// TestNamed: a user is noted once in 12 hours, and later where there is no line now, or where it
// cannot be written. So many users are remembered, and no more.
func TestNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		var broken error
		c := newCrowd(func(account.Event) error { told++; return broken })
		named := func(who any) { c.first(account.Event{Who: fmt.Sprint(who), What: "named"}) }
		noted := func(names int) (n int) {
			before := told
			for i := range names {
				named(i)
			}
			return told - before
		}
		for minute, want := range []int{10, 10, 5, 0} {
			if n := noted(25); n != want {
				t.Errorf("minute %d: %d of 25 users are noted", minute, n)
			}
			time.Sleep(time.Minute)
		}
		time.Sleep(12 * time.Hour)
		if n := noted(1); n != 1 {
			t.Error("after 12 hours nobody is noted")
		}
		broken = errors.New("no database")
		named("late")
		broken = nil
		before := told
		named("late")
		named("late")
		if told != before+1 {
			t.Errorf("of a line that could not be written there are %d afterwards", told-before)
		}
		for i := range 2 * mostNamed {
			named(fmt.Sprint("flood ", i))
			time.Sleep(6 * time.Second)
		}
		if n := len(c.named); n > mostNamed {
			t.Errorf("%d names are remembered", n)
		}
		c.close()
	})
}

// lines are those of the audit log that were written last, oldest first.
func (s *service) lines(t *testing.T) (list []string) {
	t.Helper()
	events, _, err := s.accounts.Events(t.Context(), account.Search{Most: account.MaxEvents})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range slices.Backward(events) {
		list = append(list, e.Who+" "+e.What+" "+e.Detail)
	}
	return list
}

// TestRefusedLogins: those that the limit refuses are in the audit log, and a flood of them does
// not fill it.
func TestRefusedLogins(t *testing.T) {
	s := newService(t)
	before := len(s.lines(t))
	refused := 0
	for range 200 {
		a := s.anybody().post("/login", "name", "ed", "password", "wrong horse")
		if a.StatusCode == http.StatusTooManyRequests {
			refused++
		}
	}
	s.page.crowd.close()
	lines := s.lines(t)[before:]
	own, more := 0, 0
	for _, line := range lines {
		if line == "ed login refused too many tries" {
			own++
		}
		n := 0
		if _, err := fmt.Sscanf(line, "service login refused %d more", &n); err == nil {
			more += n
		}
	}
	if own == 0 || own+more != refused || len(lines) > 50 {
		t.Errorf("%d of %d refused tries have a line, and %d are counted, of %d lines:\n%s",
			own, refused, more, len(lines), strings.Join(lines, "\n"))
	}
}

// TestNamedByProxy: the audit log has each user whom a proxy names, once.
func TestNamedByProxy(t *testing.T) {
	s := newService(t, func(c *Config) {
		c.AuthHeader, c.AuthProxies = "X-User", []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	before := len(s.lines(t))
	for range 3 {
		for _, name := range []string{"ed", "stranger"} {
			b := s.anybody()
			b.header = http.Header{"X-User": {name}}
			b.get("/").want(t, http.StatusOK)
		}
	}
	want := []string{
		"ed named by a proxy ", "stranger named by a proxy no such user: without rights",
	}
	if got := s.lines(t)[before:]; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
