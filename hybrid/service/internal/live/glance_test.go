package live

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

// TestGlance: a list of domains has the rates of each, and says what needs a look and nothing else.
func TestGlance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := hybrid.NewMemory()
		text := "domain: d\ndescriptors:\n" +
			"- {key: user, rate_limit: {unit: day, requests_per_unit: 5}}\n" +
			"- {key: path, rate_limit: {unit: day, requests_per_unit: 900}}\n" +
			"- {key: seen, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}\n" +
			"- {key: idle, rate_limit: {unit: day, requests_per_unit: 1}}\n"
		r := newReplica(t, store, nil, text)
		if g := r.Glance("d"); len(sentences(g)) != 0 || g.Lines != [2]string{} {
			t.Errorf("at first: %+v", g)
		}
		time.Sleep(10 * time.Second)
		takes(t, r.limiter, 20, rules.Of("path", "x"))
		takes(t, r.limiter, 10, rules.Of("user", "ann"))
		takes(t, r.limiter, 3, rules.Of("seen", "ann"))
		time.Sleep(sampleEvery)
		synctest.Wait()
		g := r.Glance("d")
		want := []string{
			"Denies much, in the last 5 minutes: user (50 %).",
			"Would deny, in the last 24 hours: seen (2 of 3).",
		}
		if !slices.Equal(sentences(g), want) || g.Admitted != 2.5 || g.Denied != 0.5 ||
			!strings.HasPrefix(g.Lines[0], "M") || !strings.HasPrefix(g.Lines[1], "M") {
			t.Errorf("%+v", g)
		}
		newReplica(t, store, nil, text) // which shares no counts
		time.Sleep(10 * time.Second)
		if g := r.Glance("d"); !slices.Contains(g.Looks,
			"1 of 2 processes have not reported what they count.") {
			t.Errorf("%q", g.Looks)
		}
		if g := r.Glance("nowhere"); len(sentences(g)) != 0 {
			t.Errorf("%+v", g)
		}
	})
}

// TestGlanceBans: what bans deny much needs a look, of all services, and is in no total but a row.
func TestGlanceBans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, counters := hybrid.NewMemory(), shared{hybrid.NewMemory()}
		text := "domain: d\ndescriptors:\n" +
			"- {key: user, rate_limit: {unit: day, requests_per_unit: 900}}\n"
		bans := "domain: d\nbans:\n- {descriptor: user=eve, until: 2000-01-03T00:00:00Z, reason: r}\n"
		var both []*Live
		for range 2 {
			l := newLimiter(t, store, newBoard(text, bans), hybrid.NewProcess(), "")
			both = append(both, New(l, store, Config{Log: quiet, Counters: counters}))
			run(t, both[len(both)-1])
		}
		time.Sleep(10 * time.Second)
		takes(t, both[0].limiter, 30, rules.Of("user", "ann"))
		takes(t, both[1].limiter, 10, rules.Of("user", "eve"))
		time.Sleep(2 * reportRest)
		synctest.Wait()
		for i, r := range both {
			g := r.Glance("d")
			want := []string{"Bans deny much, in the last 5 minutes: 25 %."}
			if !slices.Equal(sentences(g), want) {
				t.Errorf("service %d: %q", i, sentences(g))
			}
			if n := r.history.sum(&r.history.domains["d"].total, recent, ofDenied...); n != 0 {
				t.Errorf("service %d: bans are %d in the total", i, n)
			}
			if row := rowOf(t, r, "d", byBans, recent); row.DeniedSum != 10 ||
				row.Note != "" || row.URL != "/domains/d/bans" {
				t.Errorf("service %d: %+v", i, row)
			}
		}
	})
}

// sentences are all that needs a look in a domain, as a list shows it.
func sentences(g Glance) []string {
	list := slices.Clone(g.Looks)
	for _, look := range g.Rules {
		var names []string
		for i, path := range look.Paths {
			if note := look.Notes[i]; note != "" {
				path += " (" + note + ")"
			}
			names = append(names, path)
		}
		text := look.Text + ": " + strings.Join(names, ", ")
		if look.More > 0 {
			text += fmt.Sprintf(" and %d more", look.More)
		}
		list = append(list, text+".")
	}
	return list
}
