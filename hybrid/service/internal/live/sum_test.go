package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

// A replica is a service of a fleet that shares a store.
type replica struct {
	*Live
	limiter *rules.Limiter
	end     func()
}

func newReplica(
	t *testing.T, store *hybrid.Memory, counters Counters, text string,
) replica {
	t.Helper()
	return newNamed(t, store, counters, text, "")
}

// newNamed is newReplica with a name by which others miss it.
func newNamed(
	t *testing.T, store *hybrid.Memory, counters Counters, text, name string,
) replica {
	t.Helper()
	limiter := newLimiter(t, store, newBoard(text), hybrid.NewProcess(), "")
	l := New(limiter, store, Config{Log: quiet, Counters: counters, Name: name})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); l.Run(ctx) }()
	end := func() { cancel(); <-ended }
	t.Cleanup(end)
	synctest.Wait()
	return replica{l, limiter, end}
}

const twoRules = "domain: d\ndescriptors:\n" +
	"- {key: user, rate_limit: {unit: day, requests_per_unit: 5}}\n" +
	"- {key: path, rate_limit: {unit: day, requests_per_unit: 900}}\n"

// TestSums: each of three services shows the sums of all, to the last request, and a fourth that
// begins later what is counted from then on. One that ends takes nothing with it.
func TestSums(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, counters := hybrid.NewMemory(), shared{hybrid.NewMemory()}
		var fleet []replica
		for range 3 {
			fleet = append(fleet, newReplica(t, store, counters, twoRules))
		}
		take := func() {
			for i, r := range fleet {
				takes(t, r.limiter, 10*(i+1), rules.Of("path", "x"))
				takes(t, r.limiter, 4, rules.Of("user", "ann"))
			}
			time.Sleep(6 * time.Second)
			synctest.Wait()
		}
		sees := func(r replica, path, user uint64) {
			t.Helper()
			a, b := rowOf(t, r.Live, "d", "path", recent), rowOf(t, r.Live, "d", "user", recent)
			if a.AdmittedSum+a.DeniedSum != path || b.AdmittedSum+b.DeniedSum != user {
				t.Errorf("%+v %+v, not %d %d", a, b, path, user)
			}
		}
		time.Sleep(6 * time.Second)
		take()
		for _, r := range fleet {
			sees(r, 60, 12)
			want(t, says(t, r.Live, "/live/d"), "Decisions are the sums of all 3 processes",
				"no: not in the")
		}
		id := fleet[2].limiter.Stats().Domains[0].Limiter.ID
		want(t, says(t, fleet[0].Live, "/live/d?process="+id),
			"The numbers and the chart here are of process "+id, "Admitted 3", "no: Decisions are")
		late := newReplica(t, store, counters, twoRules)
		time.Sleep(6 * time.Second)
		fleet = append(fleet, late)
		take()
		sees(fleet[0], 60+100, 12+16)
		sees(late, 100, 16)
		fleet[1].end()
		time.Sleep(time.Minute)
		sees(fleet[0], 160, 28)
		want(t, says(t, fleet[0].Live, "/live/d"), "Decisions are those of 3 of 4 processes",
			"not in the sums")
	})
}

// A refusing store of counts is away while it is told to be.
type refusing struct {
	*hybrid.Memory
	mu    sync.Mutex
	away  bool
	texts map[string]int // the longest
	calls int
	trips int
}

// A shared memory keeps what services count, as Redis does.
type shared struct{ *hybrid.Memory }

func (s shared) PublishAll(
	ctx context.Context, texts map[string][]byte, life time.Duration,
) error {
	for id, text := range texts {
		if err := s.Publish(ctx, id, text, life); err != nil {
			return err
		}
	}
	return nil
}

func (r *refusing) PublishAll(
	ctx context.Context, texts map[string][]byte, life time.Duration,
) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.away {
		return errors.New("away")
	}
	r.trips++
	for id, text := range texts {
		r.calls++
		r.texts[id] = max(r.texts[id], len(text))
	}
	return shared{r.Memory}.PublishAll(ctx, texts, life)
}

func (r *refusing) set(away bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = away
}

// told is how many reports there were, and how long the longest was.
func (r *refusing) told() (calls, longest int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.texts {
		longest = max(longest, n)
	}
	return r.calls, longest
}

// TestSumsAway: what was counted while the store was away is added when it is back.
func TestSumsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := hybrid.NewMemory()
		counters := &refusing{Memory: hybrid.NewMemory(), texts: map[string]int{}}
		a, b := newReplica(t, store, counters, twoRules), newReplica(t, store, counters, twoRules)
		time.Sleep(6 * time.Second)
		counters.set(true)
		takes(t, a.limiter, 7, rules.Of("path", "x"))
		time.Sleep(30 * time.Second)
		if row := rowOf(t, b.Live, "d", "path", recent); row.AdmittedSum != 0 {
			t.Errorf("while it is away: %+v", row)
		}
		counters.set(false)
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if row := rowOf(t, b.Live, "d", "path", recent); row.AdmittedSum != 7 {
			t.Errorf("after that: %+v", row)
		}
	})
}

// TestReportsAreBounded: a report has 4 KiB at most and the rules that count most, whose sums are
// right, as that of the domain is; and there are 32 of a service. An idle domain is told each 5 s.
func TestReportsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := "domain: d\ndescriptors:\n"
		for i := range 300 {
			text += fmt.Sprintf("- {key: %q, rate_limit: {unit: day, requests_per_unit: 9}}\n",
				fmt.Sprintf("<%03d>%s", i, strings.Repeat("k", 20)))
		}
		store := hybrid.NewMemory()
		counters := &refusing{Memory: hybrid.NewMemory(), texts: map[string]int{}}
		a, b := newReplica(t, store, counters, text), newReplica(t, store, counters, text)
		time.Sleep(6 * time.Second)
		for round := range 3 {
			for i := range 300 {
				n := 1
				if i < 20 {
					n = 3
				}
				takes(t, a.limiter, n, rules.Of(fmt.Sprintf("<%03d>%s", i, strings.Repeat("k", 20)), "x"))
			}
			time.Sleep(6 * time.Second)
			synctest.Wait()
			if _, ok := b.limiter.Rules().Domain("d"); !ok {
				t.Fatal(round)
			}
		}
		b.mu.Lock()
		sum := b.history.sum(&b.history.domain("d").total, recent, ofAll...)
		b.mu.Unlock()
		if want := uint64(3 * (280 + 60)); sum != want {
			t.Errorf("the domain has %d, not %d", sum, want)
		}
		busy := rules.PathOf(rules.Entry{Key: "<001>" + strings.Repeat("k", 20)})
		row := rowOf(t, b.Live, "d", busy, recent)
		if n := row.AdmittedSum + row.DeniedSum; n != 9 {
			t.Errorf("a busy rule has %d", n)
		}
		before, longest := counters.told()
		if longest > mostReport {
			t.Errorf("a report has %d bytes", longest)
		}
		time.Sleep(time.Minute)
		after, _ := counters.told()
		if n := after - before; n > 2*13 || n < 2*11 {
			t.Errorf("%d reports of two idle services in a minute", n)
		}
		var many []rules.DomainStats
		for i := range 100 {
			many = append(many, rules.DomainStats{Domain: fmt.Sprint("m", i)})
		}
		a.end()
		before, _ = counters.told()
		trips := counters.trips
		err := a.tell(t.Context(), many)
		if after, _ = counters.told(); err != nil || after-before != mostReports {
			t.Errorf("%d reports at once, %v", after-before, err)
		}
		if n := counters.trips - trips; n != 1 {
			t.Errorf("they took %d round trips", n)
		}
	})
}

// TestOddReports: what others have written is not believed to make sense.
func TestOddReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, counters := hybrid.NewMemory(), shared{hybrid.NewMemory()}
		r := newReplica(t, store, counters, twoRules)
		odd, err := json.Marshal(report{Limiter: "x", Domain: "d", Total: make(counts, 99),
			Rules: map[string]counts{"user": {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, "": {5}}})
		if err != nil {
			t.Fatal(err)
		}
		for i, text := range []string{"", "[]", "{", `{"Domain": 3}`,
			`{"Limiter": "x", "Domain": "d", "Rules": null}`,
			`{"Limiter": "x", "Domain": "d", "Total": [-1]}`, string(odd)} {
			_ = counters.Publish(t.Context(), fmt.Sprint(i), []byte(text), time.Minute)
		}
		time.Sleep(5 * time.Second)
		for i := range 7 { // numbers that fall
			text := []byte(`{"Limiter": "x", "Domain": "d"}`)
			_ = counters.Publish(t.Context(), fmt.Sprint(i), text, time.Minute)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if status, text := get(t, r.Live, "/live/d"); status != 200 {
			t.Error(text)
		}
	})
}

// TestForgedReports: what others have written takes no more room than the rules that there are.
func TestForgedReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, counters := hybrid.NewMemory(), shared{hybrid.NewMemory()}
		r := newReplica(t, store, counters, twoRules)
		tell := func(id, domain, path string, n uint64) {
			text, err := json.Marshal(report{Limiter: "x", Domain: domain, Total: counts{n},
				Rules: map[string]counts{path: {n}}})
			if err == nil {
				err = counters.Publish(t.Context(), id, text, 3*time.Second)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(reportEvery / 2) // between two that read
		for round := range 3 {
			n := uint64(10 * round)
			tell("a", "d", "user", n)
			tell("b", "d", "invented", n)
			tell("c", "invented", "user", n)
			tell("d", processKey("another"), "user", n)
			tell("e", "d", strings.Repeat("p", mostReport), n)
			time.Sleep(time.Second)
		}
		for round := range 30 { // ids that change
			for i := range 200 {
				tell(fmt.Sprintf("id %d of %d", i, round), "d", "user", 1)
			}
			time.Sleep(time.Second)
		}
		synctest.Wait()
		r.mu.Lock()
		defer r.mu.Unlock()
		for name, d := range r.history.domains {
			if name != "d" && name != processKey("x") && name != processKey(r.limiter.Stats().Domains[0].Limiter.ID) {
				t.Errorf("there is domain %q", name)
			}
			for path := range d.rules {
				if path != "user" && path != "path" {
					t.Errorf("%q has rule %.20q", name, path)
				}
			}
		}
		if _, long := r.sums.peers["e"]; long {
			t.Error("a report of more than 4 KiB is heard")
		}
		if sum := r.history.sum(r.history.domains["d"].rules["user"], recent, ofAll...); sum != 20 {
			t.Errorf("the rule has %d, not 20", sum)
		}
		if n := len(r.sums.peers); n != mostPeers {
			t.Errorf("there are %d peers", n)
		}
	})
}
