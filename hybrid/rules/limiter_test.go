package rules_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

const shop = `
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 10}
  - key: user
    value: bob
    rate_limit: {unit: hour, requests_per_unit: 20}
  - key: user
    value: root
    rate_limit: {unlimited: true}
  - key: tenant
    descriptors:
      - key: user
        rate_limit: {unit: day, requests_per_unit: 5}
`

// TestTake: rules match by value, then by key, and at their own depth only. Each descriptor is
// told what decided it.
func TestTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, hybrid.NewMemory(), newBoard(shop), rules.Config{})
		for _, c := range []struct {
			d     rules.Descriptor
			rule  string
			state rules.State
			yes   int // of 30
		}{
			{rules.Of("user", "ann"), "user", rules.Limited, 10},
			{rules.Of("user", "eve"), "user", rules.Limited, 10},
			{rules.Of("user", "bob"), "user=bob", rules.Limited, 20},
			{rules.Of("user", "root"), "user=root", rules.Unlimited, 30},
			{rules.Of("tenant", "t").And("user", "ann"), "tenant,user", rules.Limited, 5},
			{rules.Of("tenant", "t"), "", rules.NotConfigured, 30},
			{rules.Of("user", "ann").And("more", "x"), "", rules.NotConfigured, 30},
			{rules.Of("other", "ann"), "", rules.NotConfigured, 30},
		} {
			if yes := admitted(t, l, "shop", 30, c.d); yes != c.yes {
				t.Errorf("%v: %d of 30 were admitted, not %d", c.d, yes, c.yes)
			}
			r, err := l.Take(t.Context(), "shop", c.d)
			if err != nil || r.Each[0].State != c.state || r.Each[0].Rule != c.rule {
				t.Errorf("%v: %+v, %v", c.d, r, err)
			}
			if denied := c.state == rules.Limited; r.Allowed == denied || (r.Denied == 0) != denied {
				t.Errorf("%v: %+v", c.d, r)
			}
		}
		if r, err := l.Take(t.Context(), "elsewhere", rules.Of("user", "ann")); err != nil ||
			!r.Allowed || r.Each[0].State != rules.NotConfigured {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// TestAllOrNone: a request that one limit denies costs the others nothing.
func TestAllOrNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, hybrid.NewMemory(), newBoard(shop), rules.Config{})
		both := []rules.Descriptor{rules.Of("tenant", "t").And("user", "bob"), rules.Of("user", "bob")}
		if yes := admitted(t, l, "shop", 30, both...); yes != 5 {
			t.Errorf("%d were admitted, not 5", yes)
		}
		r, err := l.Take(t.Context(), "shop", both...)
		if err != nil || r.Denied != 0 || r.Each[0].Decision.Allowed || !r.Each[1].Decision.Allowed {
			t.Errorf("%+v, %v", r, err)
		}
		if yes := admitted(t, l, "shop", 30, rules.Of("user", "bob")); yes != 15 {
			t.Errorf("%d were left, not 15", yes)
		}
		s := l.Stats().Domains[0]
		if s.Rules[1].Admitted != 20 || s.Rules[1].Denied != 15 ||
			s.Rules[3].Admitted != 5 || s.Rules[3].Denied != 26 {
			t.Errorf("%+v", s.Rules)
		}
	})
}

// TestHits: a descriptor takes as many tokens as it says.
func TestHits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, hybrid.NewMemory(), newBoard(shop), rules.Config{})
		d := rules.Of("user", "ann")
		d.Hits = 4
		if yes := admitted(t, l, "shop", 5, d); yes != 2 {
			t.Errorf("%d were admitted, not 2", yes)
		}
	})
}

// TestBeyondTheLimit: a request for more than a limit can ever admit is denied by that limit, and
// nothing is taken of others.
func TestBeyondTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, hybrid.NewMemory(), newBoard(`
domain: d
descriptors:
- {key: a, rate_limit: {unit: day, requests_per_unit: 3}}
- {key: b, rate_limit: {unit: day, requests_per_unit: 3}}
`), rules.Config{})
		a, b := rules.Of("a", "1"), rules.Of("b", "1")
		b.Hits = 4
		half := b
		half.Hits = 2
		for _, c := range []struct {
			ds     []rules.Descriptor
			denied int
		}{
			{[]rules.Descriptor{b}, 0}, {[]rules.Descriptor{a, b}, 1},
			{[]rules.Descriptor{a, half, half}, 1},
		} {
			r, err := l.Take(t.Context(), "d", c.ds...)
			must(t, err)
			each := r.Each[c.denied].Decision
			if r.Allowed || r.Denied != c.denied || each.Allowed || each.RetryAfter != 0 ||
				each.Limit != hybrid.Quota(3, hybrid.Day) {
				t.Errorf("%v: %+v", c.ds, r)
			}
			if c.denied > 0 && !r.Each[0].Decision.Allowed {
				t.Errorf("%v: %+v", c.ds, r)
			}
		}
		if s := l.Stats().Domains[0].Rules; s[0].Denied != 0 || s[1].Denied != 4 {
			t.Errorf("%+v", s)
		}
		if yes := admitted(t, l, "d", 5, a); yes != 3 {
			t.Errorf("%d were admitted, not 3", yes)
		}
	})
}

// TestDomainsDoNotMeet: the same descriptor in two domains has two buckets, whatever the names
// of the domains are.
func TestDomainsDoNotMeet(t *testing.T) {
	names := []string{
		"shop", "shop_", "shop__", "shop.", "Shop", "shöp", "sh:op", "sh;op", "shop ", "_6f", "o",
		strings.Repeat("x", 60), strings.Repeat("x", 61), "_h" + strings.Repeat("0", 48),
		strings.Repeat("x", 256)}
	synctest.Test(t, func(t *testing.T) {
		var texts []string
		for _, n := range names {
			texts = append(texts, "domain: '"+n+"'\ndescriptors:\n- key: k\n  rate_limit:"+
				" {unit: hour, requests_per_unit: 3}\n")
		}
		l := newLimiter(t, hybrid.NewMemory(), newBoard(texts...), rules.Config{})
		for _, n := range names {
			if yes := admitted(t, l, n, 5, rules.Of("k", "v")); yes != 3 {
				t.Errorf("%q: %d were admitted, not 3", n, yes)
			}
		}
	})
}

// TestBadRequests: a request that makes no sense is an error, and takes nothing.
func TestBadRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, hybrid.NewMemory(), newBoard(shop), rules.Config{})
		deep := rules.Of("user", "ann")
		for range rules.MaxEntries {
			deep = deep.And("user", "ann")
		}
		type request struct {
			ds   []rules.Descriptor
			says string
		}
		requests := map[string]request{
			"none":       {nil, "0 descriptors are not 1 to 16"},
			"too many":   {make([]rules.Descriptor, 17), "17 descriptors are not 1 to 16"},
			"no entries": {[]rules.Descriptor{{}}, "descriptor 0 has 0 entries, not 1 to 16"},
			"deep":       {[]rules.Descriptor{deep}, "has 17 entries, not 1 to 16"},
			"64 KiB": {[]rules.Descriptor{rules.Of("user", strings.Repeat("x", 65536))},
				"has 65540 bytes, more than 4096"},
			"hits below 0": {[]rules.Descriptor{{Entries: deep.Entries[:1], Hits: -1}},
				"Hits -1 of descriptor 0 is not 0 to 1099511627776"},
		}
		if tooMany := int64(1<<40 + 1); strconv.IntSize == 64 { // no int of 32 bits is
			requests["hits above 2^40"] = request{
				[]rules.Descriptor{{Entries: deep.Entries[:1], Hits: int(tooMany)}},
				"Hits 1099511627777 of descriptor 0 is not 0 to 1099511627776",
			}
		}
		for name, c := range requests {
			if r, err := l.Take(t.Context(), "shop", c.ds...); err == nil || r.Allowed ||
				!strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "rules: ") ||
				!errors.Is(err, rules.ErrDescriptor) {
				t.Errorf("%s: %+v, %v", name, r, err)
			}
		}
	})
}

// TestChange: a change is in force within a second. What was used stays used: the bucket of a
// user is not refilled by another limit, by another order of rules, by a rule for this user
// alone, or by another fairness and outage of the domain. A rule of another key may carry it on.
func TestChange(t *testing.T) {
	for unit, raises := range map[string]bool{"day": true, "hour": false} {
		const user = "- key: user\n  rate_limit: {unit: UNIT, requests_per_unit: "
		b := newBoard("")
		put := func(text string) {
			b.put(strings.ReplaceAll("domain: shop\n"+text+"}\n", "UNIT", unit))
		}
		synctest.Test(t, func(t *testing.T) {
			b.changed = make(chan struct{})
			put("descriptors:\n" + user + "10")
			l := newLimiter(t, hybrid.NewMemory(), b, rules.Config{})
			used := admitted(t, l, "shop", 20, rules.Of("user", "ann"))
			for _, c := range []struct {
				about, text string
				used        int // by now
			}{
				{"lowered", "descriptors:\n" + user + "5", 10},
				{"raised, another order, a name", "descriptors:\n- key: tenant\n  rate_limit:" +
					" {unit: day, requests_per_unit: 1}\n" + user + "12, name: n", 12},
				{"for one user", "descriptors:\n" + user + "10}\n- key: user\n  value: ann\n" +
					"  rate_limit: {unit: UNIT, requests_per_unit: 13", 13},
				{"for some users", "descriptors:\n" + user + "10}\n- key: user\n  value: a*\n" +
					"  rate_limit: {unit: UNIT, requests_per_unit: 14", 14},
				{"another outage", "outage: deny\ndescriptors:\n" + user + "15", 15},
				{"another fairness", "fairness: max-min\ndescriptors:\n" + user + "16", 16},
				{"another key", "descriptors:\n- key: client\n  bucket: user\n" +
					"  rate_limit: {unit: UNIT, requests_per_unit: 17", 17},
			} {
				d := rules.Of("user", "ann")
				if strings.Contains(c.text, "client") {
					d = rules.Of("client", "ann")
				}
				put(c.text)
				for range 20 { // the key is in use
					time.Sleep(250 * time.Millisecond)
					used += admitted(t, l, "shop", 3, d)
				}
				if !raises {
					c.used = 10 // a raised bucket fills by its rate
				}
				if s := l.Stats().Source; used != c.used || s.Err != nil {
					t.Errorf("%s, %s: %d were admitted, not %d: %+v", unit, c.about, used, c.used, s)
				}
			}
		})
	}
}

// TestChangeWithinASecond: of eight processes that use a key, all go by a new limit within a
// second of the change.
func TestChangeWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := func(n int) string {
			return fmt.Sprintf("domain: shop\ndescriptors:\n- key: user\n"+
				"  rate_limit: {unit: second, requests_per_unit: %d}\n", n)
		}
		b, store := newBoard(text(1000)), hybrid.NewMemory()
		fleet := make([]*rules.Limiter, 8)
		for i := range fleet {
			config := rules.Config{Limiter: hybrid.Config{Process: hybrid.NewProcess()}}
			fleet[i] = newLimiter(t, store, b, config)
		}
		use := func(d time.Duration) (limits []hybrid.Limit) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				limits = nil
				for _, l := range fleet {
					r, err := l.Take(t.Context(), "shop", rules.Of("user", "ann"))
					if err != nil {
						t.Fatal(err)
					}
					limits = append(limits, r.Each[0].Decision.Limit)
				}
			}
			return limits
		}
		use(3 * time.Second)
		for _, n := range []int{500, 2000, 100, 1000} {
			b.put(text(n))
			for _, limit := range use(time.Second) {
				if limit != hybrid.PerSecond(float64(n)) {
					t.Errorf("after a second a process goes by %v, not %d/s", limit, n)
				}
			}
		}
	})
}

// TestClose: leases are handed back, so that the next process has what is left at once.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := hybrid.NewMemory()
		for _, want := range []int{4, 6} {
			config := rules.Config{Limiter: hybrid.Config{Process: hybrid.NewProcess()}}
			l, err := rules.New(store, newBoard(shop), config)
			must(t, err)
			n := 4
			if want == 6 {
				n = 30
			}
			if yes := admitted(t, l, "shop", n, rules.Of("user", "ann")); yes != want {
				t.Errorf("%d were admitted, not %d", yes, want)
			}
			must(t, l.Close(t.Context()))
			must(t, l.Close(t.Context()))
			_, err = l.Take(t.Context(), "shop", rules.Of("user", "ann"))
			if !errors.Is(err, hybrid.ErrClosed) {
				t.Error(err)
			}
		}
	})
}

// TestBlocked: a rule of 0 requests admits nothing, from when it is in force.
func TestBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(shop)
		l := newLimiter(t, hybrid.NewMemory(), b, rules.Config{})
		if yes := admitted(t, l, "shop", 2, rules.Of("user", "ann")); yes != 2 {
			t.Errorf("%d were admitted, not 2", yes)
		}
		b.put(strings.ReplaceAll(shop, "10", "0"))
		time.Sleep(time.Second)
		admitted(t, l, "shop", 1, rules.Of("user", "ann")) // the limit is asked for beside it
		time.Sleep(time.Second)
		if yes := admitted(t, l, "shop", 30, rules.Of("user", "ann")); yes != 0 {
			t.Errorf("%d were admitted, not 0", yes)
		}
	})
}

// TestChangesUnderLoad: requests go on without an error while rules, settings and domains change.
// No bucket is refilled by that.
func TestChangesUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const other = "domain: other\ndescriptors:\n- {key: user, " +
			"rate_limit: {unit: day, requests_per_unit: 9}}\n"
		lines := []string{"outage: deny\n", "fairness: max-min\n", "outage: allow\n", ""}
		b := newBoard(shop, other)
		l := newLimiter(t, hybrid.NewMemory(), b, rules.Config{})
		var all sync.WaitGroup
		var yes atomic.Int64
		for range 8 {
			all.Go(func() {
				for range 1000 {
					time.Sleep(10 * time.Millisecond)
					r, err := l.Take(t.Context(), "shop", rules.Of("tenant", "t").And("user", "ann"))
					if err != nil {
						t.Error(err)
					}
					if r.Allowed {
						yes.Add(1)
					}
					if _, err := l.Take(t.Context(), "other", rules.Of("user", "ann")); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for i := range 60 {
			texts := []string{lines[i%len(lines)] + shop, other}
			b.put(texts[:1+i%2]...)
			time.Sleep(150 * time.Millisecond)
		}
		all.Wait()
		if s := l.Stats().Source; yes.Load() != 5 || s.Err != nil || s.Changes < 30 {
			t.Errorf("%d were admitted, not 5: %+v", yes.Load(), s)
		}
	})
}

// TestConfig: a Config that makes no sense is an error, and so is a source without rules.
func TestConfig(t *testing.T) {
	store, source := hybrid.NewMemory(), newBoard(shop)
	limit := hybrid.PerSecond(5)
	limitFor := func(string) hybrid.Limit { return limit }
	for says, c := range map[string]rules.Config{
		"Config.LoadTimeout 1ms is not from 10ms to 10m": {LoadTimeout: time.Millisecond},
		"Config.Limiter.Limit 5/s burst 5 is set":        {Limiter: hybrid.Config{Limit: limit}},
		`Config.Limiter.Namespace "n" is set`:            {Limiter: hybrid.Config{Namespace: "n"}},
		"Config.Limiter.LimitFor is set":                 {Limiter: hybrid.Config{LimitFor: limitFor}},
		"hybrid: Config.Timeout 1ns is not":              {Limiter: hybrid.Config{Timeout: 1}},
	} {
		if _, err := rules.New(store, source, c); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, not %s", err, says)
		}
	}
	for says, s := range map[string]rules.Source{
		"rules: source is nil": nil, "the source has no documents": newBoard(),
		"doc0.yaml:1:1: the domain is missing": newBoard("descriptors: []"),
	} {
		_, err := rules.New(store, s, rules.Config{})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, not %s", err, says)
		}
	}
	if _, err := rules.New(nil, source, rules.Config{}); err == nil {
		t.Error("a nil store is no error")
	}
}

// TestCloseWithHangingSource: Close does not wait for a source.
func TestCloseWithHangingSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		m := &mad{board: newBoard(shop)}
		l := newLimiter(t, hybrid.NewMemory(), m, rules.Config{})
		m.mu.Lock()
		m.loadNow = func(context.Context) error { <-end; return nil }
		m.mu.Unlock()
		m.put(shop)
		time.Sleep(time.Second)
		start := time.Now()
		must(t, l.Close(t.Context()))
		if waited := time.Since(start); waited > 0 {
			t.Errorf("Close waited for %v", waited)
		}
		close(end)
	})
}

// TestCloseInAChange: Close waits for what goes on no longer than its context.
func TestCloseInAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		board := newBoard(shop)
		l, err := rules.New(hybrid.NewMemory(), board, rules.Config{Limiter: hybrid.Config{
			SlogLogger: slog.New(slog.NewTextHandler(hanging(end), nil)),
		}})
		must(t, err)
		board.put("domain: [") // the log of it hangs
		time.Sleep(time.Second)
		soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		start := time.Now()
		err = l.Close(soon)
		if waited := time.Since(start); waited != 50*time.Millisecond ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v after %v", err, waited)
		}
		close(end)
	})
}

// A hanging writer ends when the channel is closed.
type hanging chan struct{}

func (h hanging) Write(p []byte) (int, error) {
	<-h
	return len(p), nil
}

// TestOutageChanges: another outage policy of a domain is in force within a second, while the
// store is away.
func TestOutageChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &stuck{hybrid.NewMemory(), make(chan struct{})}
		b := newBoard("outage: deny\n" + shop)
		l := newLimiter(t, store, b, rules.Config{})
		for _, outage := range []string{"deny", "allow", "deny"} {
			b.put("outage: " + outage + shop)
			time.Sleep(time.Second)
			for range 5 { // until the outage is noticed
				_, _ = l.Take(t.Context(), "shop", rules.Of("user", "ann"))
			}
			want := map[string]int{"deny": 0, "allow": 30}[outage]
			if yes := admitted(t, l, "shop", 30, rules.Of("user", "ann")); yes != want {
				t.Errorf("%s: %d were admitted, not %d", outage, yes, want)
			}
		}
		close(store.until)
	})
}

// TestWaitsThroughAChange: a request that waits for the store while its domain gets another
// outage policy begins anew by it, whatever its verb.
func TestWaitsThroughAChange(t *testing.T) {
	for name, ask := range map[string]func(context.Context, *rules.Limiter) (rules.Result, error){
		"Take": func(ctx context.Context, l *rules.Limiter) (rules.Result, error) {
			return l.Take(ctx, "shop", rules.Of("user", "ann"))
		},
		"Peek": func(ctx context.Context, l *rules.Limiter) (rules.Result, error) {
			return l.Peek(ctx, "shop", rules.Of("user", "ann"), rules.Of("user", "eve"))
		},
		"Reserve": func(ctx context.Context, l *rules.Limiter) (rules.Result, error) {
			r, err := l.Reserve(ctx, "shop", rules.Of("user", "ann"))
			if err != nil {
				return rules.Result{}, err
			}
			return r.Result, r.Cancel()
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := &stuck{hybrid.NewMemory(), make(chan struct{})}
			b := newBoard("outage: deny" + shop)
			l := newLimiter(t, store, b, rules.Config{})
			time.Sleep(time.Second)
			done := make(chan rules.Result)
			go func() {
				r, err := ask(t.Context(), l)
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				done <- r
			}()
			time.Sleep(10 * time.Millisecond)
			b.put("outage: allow" + shop)
			if r := <-done; !r.Allowed {
				t.Errorf("%s: %+v", name, r)
			}
			close(store.until)
		})
	}
}
