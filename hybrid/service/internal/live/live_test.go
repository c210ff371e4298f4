package live

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/lease"
)

// rowOf is a rule's row of a domain's table.
func rowOf(t *testing.T, l *Live, domain, path string, at span) ruleView {
	t.Helper()
	all := l.limiter.Rules()
	d, ok := all.Domain(domain)
	if !ok {
		t.Fatalf("no domain %q", domain)
	}
	v := l.view(all, d, at, "", "")
	i := slices.IndexFunc(v.Rules, func(r ruleView) bool { return r.Path == path })
	if i < 0 {
		t.Fatalf("no rule %s in %+v", path, v.Rules)
	}
	return v.Rules[i]
}

// TestCountsOverChanges: the table has what was decided, to the last request, while rules come and
// go and the domain gets another hybrid.Limiter.
func TestCountsOverChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		document := func(fairness string, keys ...string) string {
			text := "domain: d\nfairness: " + fairness + "\ndescriptors:\n"
			for _, k := range keys {
				text += "- {key: " + k + ", rate_limit: {unit: day, requests_per_unit: 10}}\n"
			}
			return text
		}
		store, source := hybrid.NewMemory(), newBoard(document("proportional", "a"))
		limiter := newLimiter(t, store, source, hybrid.NewProcess(), "")
		take := func(key string, n int) {
			for i := range n {
				_, err := limiter.Take(t.Context(), "d", rules.Of(key, fmt.Sprint(i/20)))
				if err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(sampleEvery)
		}
		take("a", 7) // before anybody looked
		l := New(limiter, store, Config{Log: quiet})
		run(t, l)
		synctest.Wait()
		change := func(text string) {
			source.put(text)
			time.Sleep(sampleEvery)
		}
		take("a", 20)
		change(document("max-min", "a", "b"))
		take("b", 40)
		change(document("max-min", "b"))
		change(document("max-min", "a", "b"))
		take("a", 11)
		for range 5 {
			_, err := limiter.Take(t.Context(), "d", rules.Descriptor{
				Entries: rules.Of("a", "x").Entries, Limit: hybrid.Quota(3, hybrid.Day),
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(sampleEvery)
		synctest.Wait()
		for at := range spans {
			if own := rowOf(t, l, "d", overrides, at); own.AdmittedSum != 3 || own.DeniedSum != 2 {
				t.Errorf("span %d: requests' own limits %+v", at, own)
			}
			a, b := rowOf(t, l, "d", "a", at), rowOf(t, l, "d", "b", at)
			if a.AdmittedSum != 3 || a.DeniedSum != 28 || b.AdmittedSum != 20 || b.DeniedSum != 20 {
				t.Errorf("span %d: a %+v, b %+v", at, a, b)
			}
		}
		change(document("max-min", "b"))
		for path, want := range map[string]bool{overrides: true, "a": true, "b": true, "c": false, "": false} {
			if l.Measured("d", path) != want || l.Measured("e", path) {
				t.Errorf("%q is measured: %v", path, !want)
			}
		}
		if a := rowOf(t, l, "d", "a", recent); a.DeniedSum != 28 || a.Note == "" {
			t.Errorf("a rule that is gone: %+v", a)
		}
		time.Sleep(5 * time.Minute)
		if a := rowOf(t, l, "d", "b", recent); a.DeniedSum != 0 || a.Denied != 0 {
			t.Errorf("after 5 minutes: %+v", a)
		}
	})
}

// TestShadowBesideItsRule: the chart of a rule has what its trial would have denied, in the same
// seconds, and says nothing of the time before the first sample.
func TestShadowBesideItsRule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := hybrid.NewMemory()
		limiter := newLimiter(t, store, newBoard(`
domain: d
descriptors:
- key: a
  rate_limit: {unit: day, requests_per_unit: 30}
  trial: {unit: day, requests_per_unit: 10, percent: 0}
`), hybrid.NewProcess(), "")
		l := New(limiter, store, Config{Log: quiet})
		run(t, l)
		synctest.Wait()
		time.Sleep(sampleEvery / 2) // between two samples
		for range 4 {
			for range 10 {
				if _, err := limiter.Take(t.Context(), "d", rules.Of("a", "x")); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(sampleEvery)
		}
		synctest.Wait()
		all := limiter.Rules()
		d, _ := all.Domain("d")
		c := l.rulePage(all, d, recent, "a", nil).Chart
		nan := "NaN"
		for i, want := range []string{
			"[" + nan + " 5 5 5 0]", "[" + nan + " 0 0 0 5]", "[" + nan + " 0 5 5 0]",
		} {
			if i >= len(c.Lines) {
				t.Fatalf("%d lines", len(c.Lines))
			}
			if got := fmt.Sprint(c.Lines[i].Values[recentSlots-5:]); got != want {
				t.Errorf("%s: %s, not %s", c.Lines[i].Name, got, want)
			}
		}
		if name := c.Lines[2].Name; name != "trial would deny" || len(c.Lines) != 3 {
			t.Errorf("%s, %d lines", name, len(c.Lines))
		}
		_, text := get(t, l, "/live/d/rule?path=a")
		if !strings.Contains(text, `d="M976.7 0L983.3 0L990 0L996.7 1000"`) {
			t.Errorf("no line with those values: %s", text)
		}
	})
}

// TestHandler: only GET, only domains that are there, whatever they are called.
func TestHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := hybrid.NewMemory()
		l := New(newLimiter(t, store, newBoard("domain: a/b é\ndescriptors: [{key: user, rate_limit: "+
			"{unit: day, requests_per_unit: 1}}, {key: free, rate_limit: {unlimited: true}}]"),
			hybrid.NewProcess(), ""), store, Config{Log: quiet})
		here := "/live/" + url.PathEscape("a/b é")
		for _, c := range []struct {
			url, text string
			status    int
		}{
			{here, "No key was denied", 200},
			{here + "?span=24h", "true\">24 hours", 200},
			{here + "?filter=ree", "free", 200},
			{here + "?filter=none", "None of the 2 rules", 200},
			{here + "?span=1h", "span", 400},
			{here + "/rule?path=none", "Nothing was measured", 200},
			{here + "/rule?path=user&span=24h", "true\">24 hours", 200},
			{here + "/rule?path=user&span=1h", "span", 400},
			{here + "/rule?path=user&mark=1", "mark", 400},
			{here + "/rule?path=user&mark=1.x", "mark", 400},
			{here + "/rule?path=user" + strings.Repeat("&mark=1.1", mostMarks+1), "mark", 400},
			{here + "/rule", "path", 400},
			{here + "/rule?path=" + strings.Repeat("a", rules.MaxBytes+1), "path", 400},
			{here + "/key?key=user%3Dann", "as if new", 200},
			{here + "/key?descriptor=user%3Dann", "as if new", 200},
			{here + "/key?descriptor=free%3Dann", "it is unlimited", 200},
			{here + "/key?descriptor=%3D", "A descriptor is", 200},
			{here + "/key?key=user%3Dann!trial", "No rule has this key", 200},
			{here + "/key?key=%00", "", 400},
			{here + "/key?key=" + strings.Repeat("a", rules.MaxBytes+1), "", 400},
			{here + "/key", "A descriptor is", 200},
			{here + "/other", "", 404},
			{"/live/a", "", 404}, {"/live/a/rule?path=user", "", 404},
			{"/live/a/key?key=user%3Dann", "", 404}, {"/live/", "", 404},
		} {
			status, text := get(t, l, c.url)
			if status != c.status || !strings.Contains(text, c.text) {
				t.Errorf("%s: %d %s", c.url, status, text)
			}
		}
		for _, method := range []string{"POST", "PUT", "DELETE", "PATCH"} {
			for _, path := range []string{here, here + "/rule", here + "/key"} {
				w := httptest.NewRecorder()
				l.Handler().ServeHTTP(w, httptest.NewRequest(method, path, nil))
				if w.Code != 405 {
					t.Errorf("%s %s: %d", method, path, w.Code)
				}
			}
		}
	})
}

// TestMarks: versions stand where their time is on the axis, and those before it are left out.
func TestMarks(t *testing.T) {
	now := time.Now()
	marks := []mark{{now.Add(time.Second), 5}, {now, 4}, {now.Add(-9 * time.Second), 3},
		{now.Add(-150 * time.Second), 2}, {now.Add(-10 * time.Minute), 1}}
	var c chart
	c.mark(recent, now, marks)
	if got := fmt.Sprint(c.Marks); got != "[{98% v4 } {95.5%  } {55.5% v2 }]" {
		t.Error(got)
	}
	back, ok := marksOf([]string{marks[3].String()})
	if !ok || len(back) != 1 || back[0].Version != 2 ||
		back[0].At.UnixMilli() != marks[3].At.UnixMilli() {
		t.Errorf("%v, %v", back, ok)
	}
}

// TestPartsAreReplaced: each part that a fragment takes from the next one is in it once, whatever
// there is to show, so that it is also in the next one.
func TestPartsAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, source := hybrid.NewMemory(), newBoard("domain: d")
		limiter := newLimiter(t, store, source, hybrid.NewProcess(), "")
		l := New(limiter, store, Config{Log: quiet})
		run(t, l)
		list := regexp.MustCompile(`hx-select-oob="([^"]*)"`)
		var all []string
		for range 3 {
			_, text := get(t, l, "/live/d")
			parts := list.FindAllStringSubmatch(text, -1)
			if len(parts) != 1 {
				t.Fatalf("%d lists: %s", len(parts), text)
			}
			all = append(all, parts[0][1])
			for id := range strings.SplitSeq(parts[0][1], ",") {
				if n := strings.Count(text, ` id="`+strings.TrimPrefix(id, "#")+`"`); n != 1 {
					t.Errorf("%s is there %d times", id, n)
				}
			}
			source.put("domain: d\ndescriptors: [{key: user, rate_limit: {unit: second, " +
				"requests_per_unit: 5}}]")
			for range 200 {
				time.Sleep(100 * time.Millisecond)
				if _, err := limiter.Take(t.Context(), "d", rules.Of("user", "a")); err != nil {
					t.Fatal(err)
				}
			}
		}
		if all[0] != all[1] || all[1] != all[2] || strings.Count(all[0], "#") != 11 {
			t.Errorf("%q", all)
		}
	})
}

// TestManyRules: the table has those that did most, of those that the filter leaves.
func TestManyRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := "domain: d\ndescriptors:\n"
		for i := range 200 {
			text += fmt.Sprintf("- {key: k%03d, rate_limit: {unit: day, requests_per_unit: 9}}\n", i)
		}
		store := hybrid.NewMemory()
		limiter := newLimiter(t, store, newBoard(text), hybrid.NewProcess(), "")
		l := New(limiter, store, Config{Log: quiet})
		run(t, l)
		synctest.Wait()
		for i := range 100 {
			for range 1 + i/10 {
				_, err := limiter.Take(t.Context(), "d", rules.Of(fmt.Sprintf("k%03d", 199-i), "a"))
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		time.Sleep(sampleEvery)
		synctest.Wait()
		all := limiter.Rules()
		d, _ := all.Domain("d")
		v := l.view(all, d, day, "", "")
		if len(v.Rules) != mostRules || v.More != 150 || v.Rules[0].Path != "k100" {
			t.Errorf("%d rules and %d, %+v", len(v.Rules), v.More, v.Rules[:2])
		}
		v = l.view(all, d, day, "k00", "")
		if len(v.Rules) != 10 || v.More != 0 || v.Rules[1].Path != "k001" {
			t.Errorf("filtered: %d rules and %d, %+v", len(v.Rules), v.More, v.Rules)
		}
		if p := l.rulePage(all, d, day, "k150", nil); p.Row.Path != "k150" || p.Row.AdmittedSum == 0 {
			t.Errorf("a rule's own: %+v", p.Row)
		}
	})
}

// TestHostileNames: what domains, rules, keys and processes are called is text, and no markup.
func TestHostileNames(t *testing.T) {
	const bad = `"><img src=x onerror=alert(1)>'</script>` + "`{{.}}"
	synctest.Test(t, func(t *testing.T) {
		store := hybrid.NewMemory()
		limiter := newLimiter(t, store, newBoard(fmt.Sprintf("domain: %q\ndescriptors: [{key: %q, "+
			"rate_limit: {name: %q, unit: day, requests_per_unit: 1}}]", bad, bad, bad)),
			hybrid.NewProcess(), bad)
		l := New(limiter, store, Config{Log: quiet})
		run(t, l)
		synctest.Wait()
		for range 5 {
			if _, err := limiter.Take(t.Context(), bad, rules.Of(bad, bad)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(15 * time.Second)
		here := "/live/" + url.PathEscape(bad)
		key := rules.PathOf(rules.Entry{Key: bad, Value: bad})
		for _, u := range []string{
			here, here + "/rule?path=" + url.QueryEscape(rules.PathOf(rules.Entry{Key: bad})),
			here + "?filter=" + url.QueryEscape(bad), here + "/key?key=" + url.QueryEscape(key),
			here + "/key?descriptor=" + url.QueryEscape(bad),
		} {
			status, text := get(t, l, u)
			if status != 200 || !strings.Contains(text, "onerror") {
				t.Errorf("%s: %d, %s", u, status, text)
			}
			for _, markup := range []string{"<img", "</script", "style=", " onerror=alert(1)>"} {
				if strings.Contains(text, markup) {
					t.Errorf("%s has %s: %s", u, markup, text)
				}
			}
		}
	})
}

// A counting store counts Inspects, and may fail or hang.
type counting struct {
	*hybrid.Memory
	mu    sync.Mutex
	keys  map[string]int // how often each was inspected
	err   error
	hangs bool
}

func (c *counting) Inspect(ctx context.Context, key string) (lease.View, error) {
	c.mu.Lock()
	c.keys[key]++
	err, hangs := c.err, c.hangs
	c.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return lease.View{}, ctx.Err()
	}
	if err != nil {
		return lease.View{}, err
	}
	return c.Memory.Inspect(ctx, key)
}

// take returns how many calls there were since the last take, and for how many namespaces.
func (c *counting) take() (calls int, domains map[string]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	domains = map[string]int{}
	for key, n := range c.keys {
		calls += n
		namespace, _, _ := strings.Cut(key, ":")
		domains[namespace] += n
	}
	clear(c.keys)
	return calls, domains
}

// TestInspectionsAreBounded: each 10 s at most five of a domain and 50 in all, of each domain in
// its turn; one where the store fails, and none where nothing is denied.
func TestInspectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const domains = 25
		var texts []string
		for i := range domains {
			texts = append(texts, fmt.Sprintf("domain: d%d\ndescriptors: [{key: user, rate_limit: "+
				"{unit: day, requests_per_unit: 1}}]", i))
		}
		store := &counting{Memory: hybrid.NewMemory(), keys: map[string]int{}}
		limiter := newLimiter(t, store, newBoard(texts...), hybrid.NewProcess(), "")
		l := New(limiter, store, Config{Log: quiet})
		run(t, l)
		synctest.Wait()
		time.Sleep(time.Minute + time.Second)
		if calls, _ := store.take(); calls != 0 {
			t.Errorf("%d calls before anything was denied", calls)
		}
		for i := range domains {
			for user := range 9 {
				for range 3 {
					_, err := limiter.Take(t.Context(), fmt.Sprint("d", i), rules.Of("user", fmt.Sprint(user)))
					if err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		seen := map[string]int{}
		for range 5 {
			time.Sleep(jainEvery)
			calls, of := store.take()
			if calls != keysOfAll || len(of) != keysOfAll/keysOfDomain {
				t.Errorf("%d calls for %d domains", calls, len(of))
			}
			for name, n := range of {
				seen[name] += n
			}
		}
		for name, n := range seen {
			if n != 10 || len(seen) != domains {
				t.Errorf("%s: %d calls of %d domains", name, n, len(seen))
			}
		}
		store.mu.Lock()
		store.err = errors.New("away")
		store.mu.Unlock()
		time.Sleep(jainEvery)
		if calls, _ := store.take(); calls != 1 {
			t.Errorf("%d calls to a store that fails", calls)
		}
	})
}

// TestLooksAreBounded: those who look at one key share a call, and a store that hangs has at most
// four calls under way; whoever waits for one of them is told within 2 s.
func TestLooksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counting{Memory: hybrid.NewMemory(), keys: map[string]int{}}
		limiter := newLimiter(t, store, newBoard("domain: d\ndescriptors: [{key: user, rate_limit: "+
			"{unit: day, requests_per_unit: 1}}]"), hybrid.NewProcess(), "")
		l := New(limiter, store, Config{Log: quiet})
		for range 10 {
			get(t, l, "/live/d/key?key=user%3Da")
		}
		if calls, _ := store.take(); calls != 1 {
			t.Errorf("%d calls for one key", calls)
		}
		time.Sleep(lookLasts)
		get(t, l, "/live/d/key?key=user%3Da")
		if calls, _ := store.take(); calls != 1 || len(l.looks.seen) != 1 {
			t.Errorf("%d calls after a while, %d kept", calls, len(l.looks.seen))
		}
		store.hangs = true
		start := time.Now()
		var all sync.WaitGroup
		texts := make([]string, 10)
		for i := range texts {
			all.Go(func() { _, texts[i] = get(t, l, fmt.Sprintf("/live/d/key?key=user%%3D%d", i)) })
		}
		synctest.Wait()
		if calls, _ := store.take(); calls != mostLooks {
			t.Errorf("%d calls at once", calls)
		}
		all.Wait()
		if waited := time.Since(start); waited > 2*patience {
			t.Errorf("%v", waited)
		}
		for _, text := range texts {
			if !strings.Contains(text, "live-bad") {
				t.Error(text)
			}
		}
	})
}

// TestFleet: the sums of a namespace, by what its processes told twice, and how they are.
func TestFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fleet{members: map[string]member{}}
		tell := func(id, namespace string, age time.Duration, n uint64, slow bool) hybrid.Published {
			return hybrid.Published{ID: id, Age: age, Name: "host " + id, Stats: hybrid.Stats{
				Namespace: namespace, Exchanges: n, Slow: slow,
				Lease: hybrid.Verdicts{Admitted: 2 * n, Denied: n}, Ledger: hybrid.Verdicts{Admitted: n},
				RoundTripP50: time.Duration(n) * time.Microsecond,
				RoundTripP99: time.Duration(n) * time.Millisecond,
			}}
		}
		f.add(time.Now(), []hybrid.Published{
			tell("a", "n", time.Second, 10, false), tell("b", "n", 2*time.Second, 20, false),
			tell("gone", "n", 0, 1000, false),
		})
		time.Sleep(5 * time.Second)
		f.add(time.Now(), []hybrid.Published{
			tell("a", "n", 1100*time.Millisecond, 40, true), tell("b", "n", 7*time.Second, 20, false),
			tell("c", "n", 0, 5, false), tell("x", "other", 0, 7, false),
		})
		v := f.view(time.Now(), "n", "", nil)
		seconds := 4.9
		if v.Processes != 3 || v.Unknown != 2 || v.Slow != 1 || v.Late != 0 ||
			fmt.Sprintf("%.3f", v.Exchanges) != fmt.Sprintf("%.3f", 30/seconds) {
			t.Errorf("%+v", v)
		}
		time.Sleep(4 * time.Second)
		if v := f.view(time.Now(), "n", "", nil); v.Late != 1 || v.Members[1].Problem != "not in the sums, late" ||
			v.Age != 4*time.Second {
			t.Errorf("%+v", v)
		}
		for i := range 50 {
			f.members[fmt.Sprint(i)] = member{Published: tell(fmt.Sprint(i), "n", 0, 1, false)}
		}
		if v := f.view(time.Now(), "n", "b", map[string]bool{"a": true}); v.Processes != 53 ||
			v.Missing != 51 || len(v.Members)+v.More != 53 ||
			len(v.Members) != mostMembers || v.Members[0].ID != "b" || !v.Members[0].Here ||
			v.Members[1].Here {
			t.Errorf("%d processes, %d and %d", v.Processes, len(v.Members), v.More)
		}
	})
}

// TestJainOverTime: the rings have the mean and the lowest of the keys with two holders or more,
// and gaps where there were none.
func TestJainOverTime(t *testing.T) {
	f := fairness{domains: map[string]*indexes{}}
	for round := range int64(40) {
		f.advance(5 * round)
		found := indexes{keys: []keyIndex{{jain: 0.5, refills: 1}}}
		if round != 38 {
			found.keys = append(found.keys, keyIndex{jain: 0.7, refills: 2},
				keyIndex{jain: 0.9, refills: 3})
		}
		if round == 36 {
			found.keys[1].jain = 0.3
		}
		f.put(5*round, "d", found)
	}
	mean, low := f.over("d", recent, 1)
	got := fmt.Sprintf("%d %.2f %.2f", len(mean), mean[27:], low[27:])
	if want := "30 [0.80 NaN 0.80] [0.70 NaN 0.70]"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
	if mean[0] != mean[29] {
		t.Errorf("the oldest is %v", mean[0])
	}
	mean, low = f.over("d", day, 4)
	got = fmt.Sprintf("%d %.2f %.2f", len(mean), mean[357:], low[357:])
	if want := "360 [NaN 0.80 0.79] [NaN 0.70 0.30]"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
	f.advance(5*40 + 10*daySlots*tickMinute)
	if mean, _ := f.over("d", day, 4); fmt.Sprint(mean[358:]) != "[NaN NaN]" {
		t.Errorf("days later: %v", mean[358:])
	}
	if mean, _ := f.over("other", recent, 1); len(mean) != 30 {
		t.Errorf("%v", mean)
	}
}
