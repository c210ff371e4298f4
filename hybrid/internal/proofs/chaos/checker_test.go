//go:build linux || darwin

package chaos

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

const ms = time.Millisecond

// TestExcesses holds the tree against all windows, one by one.
func TestExcesses(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		at := func() time.Duration { return time.Duration(random.IntN(50)) * 10 * ms }
		limit := lease.Limit{Rate: 1 + 100*random.Float64(), Burst: 1 + random.Int64N(10)}
		var list []admission
		for range 1 + random.IntN(30) {
			from := at()
			list = append(list, admission{span{from, from + at()/4}, float64(1 + random.IntN(5))})
		}
		var allowances []allowance
		for range random.IntN(4) {
			from := at()
			allowances = append(allowances,
				allowance{span{from, from + at()}, 10 * random.Float64()})
		}
		got := excesses(limit, list, allowances)
		ordered := inOrder(list)
		for i, last := range ordered {
			want := math.Inf(-1)
			for _, first := range list {
				if first.from > last.from {
					continue // the window does not contain the last
				}
				sum := -float64(limit.Burst) - limit.Rate*(last.to-first.from).Seconds()
				for _, a := range ordered[:i+1] {
					if a.from >= first.from {
						sum += a.n
					}
				}
				for _, a := range allowances {
					if a.from <= last.to && a.to >= first.from {
						sum -= a.extra
					}
				}
				want = max(want, sum)
			}
			if math.Abs(got[i]-want) > 1e-9 {
				t.Fatalf("seed %d: %v at %d, want %v", seed, got[i], i, want)
			}
		}
	}
}

// greedy is a history of a key whose limit is used to the last token: a Burst,
// and then each as it comes.
func greedy() *history {
	limit := lease.Limit{Rate: 100, Burst: 20}
	h := &history{
		keys: []key{{Name: "k", Limit: limit}}, policy: lease.Policy{MaxHold: 250 * ms},
		processes: 4, timeout: timeout, span: span{0, 10 * time.Second},
	}
	l := h.begin()
	for i := range 1000 {
		at := max(time.Duration(i-19)*10*ms, 0)
		l.decisions = append(l.decisions, decision{before: at, after: at, n: 1})
	}
	return h
}

// TestJudge: what the judge lets pass, and that it sees the least that it should
// not.
func TestJudge(t *testing.T) {
	more := func(n int, at time.Duration) func(*history) {
		return func(h *history) {
			l := h.begin()
			for range n {
				l.decisions = append(l.decisions, decision{before: at, after: at, n: 1})
			}
		}
	}
	lost := func(from, to time.Duration) func(*history) {
		return func(h *history) {
			h.suffer(fault{
				kind: "flushall", span: span{from, to}, lost: true,
			})
		}
	}
	outage := func(noticed time.Duration) func(*history) {
		return func(h *history) {
			h.shares = true
			for range h.processes {
				l := h.begin()
				for at := 2 * time.Second; at < noticed; at += 10 * ms {
					l.away = append(l.away, span{at, at + 10*ms})
				}
			}
		}
	}
	// alone lets a key fail for one process only, which shares it.
	alone := func(h *history) {
		h.shares = true
		l := h.begin()
		for i, v := range []verdict{closed, shared, closed, shared} {
			at := 2*time.Second + time.Duration(i)*time.Second
			l.decisions = append(l.decisions, decision{before: at, after: at, n: 1, verdict: v})
		}
	}
	away := func(kind string) func(*history) {
		return func(h *history) {
			h.suffer(fault{
				kind: kind, span: span{900 * ms, 4100 * ms},
				gone: span{time.Second, 4 * time.Second}, lost: kind == "restart",
			})
		}
	}
	cut, restart := away("cut"), away("restart")
	// share lets the outage policy of four processes decide while they are away,
	// at so much of the rate.
	share := func(part float64) func(*history) {
		return func(h *history) {
			h.shares = true
			first := h.lives[0]
			first.decisions = slices.DeleteFunc(first.decisions,
				func(d decision) bool { return d.before > time.Second && d.before < 4*time.Second })
			for i := range h.processes {
				l := h.begin()
				l.away = []span{{time.Second, 4 * time.Second}}
				every := time.Duration(4 / part * float64(10*ms))
				for at := time.Second + every*time.Duration(i+1)/4; at < 4*time.Second; at += every {
					l.decisions = append(l.decisions,
						decision{before: at, after: at, n: 1, verdict: shared})
				}
			}
		}
	}
	do := func(list ...func(*history)) func(*history) {
		return func(h *history) {
			for _, f := range list {
				f(h)
			}
		}
	}
	unansweredAt := func(at time.Duration) func(*history) {
		return func(h *history) {
			for _, l := range h.lives {
				l.unanswered = append(l.unanswered, at)
			}
		}
	}
	late := func(h *history) { h.faults[0].gone.from = 3 * time.Second }
	const middle = 5 * time.Second
	for _, c := range []struct {
		name   string
		change func(*history)
		want   string // of a violation, or none
	}{
		{"the last token", do(), ""},
		{"one too many", more(1, middle), "k (100/s burst 20): 1.000 tokens above"},
		{"one too many at the end", more(1, 9800*ms), "1.000 tokens above"},
		{"one too many, but it may have been spent before", func(h *history) {
			h.lives[0].decisions = h.lives[0].decisions[1:]
			*h.begin() = life{
				decisions: []decision{{before: 0, after: middle, n: 1}},
				stalls:    []span{{ms, middle}},
			}
		}, ""},
		{
			"one of two tokens", func(h *history) { h.lives[0].decisions[500].n = 2 },
			"1.000 tokens above",
		},
		{"by the outage policy", func(h *history) { more(1, middle)(h); h.lives[1].decisions[0].verdict = shared }, "1.000 tokens above"},
		{"denied", func(h *history) { more(1, middle)(h); h.lives[1].decisions[0].verdict = denied }, ""},

		// A Burst and 2.25 MaxRefresh at 100/s are 76.25.
		{"lost state", do(lost(middle, middle), more(76, middle)), ""},
		{
			"one too many after lost state", do(lost(middle, middle), more(77, middle)),
			"0.750 tokens above",
		},
		{
			"before lost state", do(lost(middle, middle), more(1, middle-10*ms)),
			"1.000 tokens above",
		},
		{"soon after lost state", do(lost(middle, middle), more(76, middle+time.Second)), ""},
		{"long after lost state", do(lost(middle, middle), more(76, middle+2*time.Second)), "tokens above"}, // old leases have died
		{
			"the same again", do(lost(middle, middle), more(76, middle), more(1, 7*time.Second)),
			"0.750 tokens above",
		},
		{"lost twice", do(lost(middle, middle), lost(middle, middle), more(152, middle)), ""},

		// A Burst, and the Rate until all have noticed. Four processes may round up.
		{"when an outage ends", do(cut, outage(middle), more(124, middle)), ""},
		{
			"one too many when it ends", do(cut, outage(middle), more(125, middle)),
			"1.000 tokens above",
		},
		{"some notice late", do(cut, outage(6*time.Second), more(224, middle)), ""},
		{"some notice too late", do(cut, outage(6100*ms)), "for 2.1s after the store was back"},
		{"all notice soon", do(cut, outage(4500*ms), more(74, 4500*ms)), ""},
		{"one too many then", do(cut, outage(4500*ms), more(75, 4500*ms)), "1.000 tokens above"},
		{"in an outage", do(cut, outage(middle), more(4, 3*time.Second)), ""},
		{
			"one too many in it", do(cut, outage(middle), more(5, 3*time.Second)),
			"1.000 tokens above",
		},
		{
			"when all have noticed", do(cut, outage(middle), more(20, middle+10*ms)),
			"1.000 tokens above",
		},
		{"the store forgets while away", do(restart, outage(middle), more(200, middle)), ""},
		{
			"one too many of them", do(restart, outage(middle), more(201, middle)),
			"0.750 tokens above",
		},
		{
			"in an outage that ends without its state",
			do(restart, outage(middle), more(5, 3*time.Second)), "1.000 tokens above",
		},
		{"the rate, shared", do(cut, share(1)), ""},
		{"more than the rate, shared", do(cut, share(1.3)), "tokens above"},
		{"more than the rate, shared until a restart", do(restart, share(1.3)), "tokens above"},

		// Each process may share its part while it takes the store for away: three seconds
		// of the Rate in all.
		{"an outage without a cause", do(outage(middle), more(300, middle)), ""},
		{
			"one too many without a cause", do(outage(middle), more(301, middle)),
			"1.000 tokens above",
		},
		{
			"before an outage without a cause", do(outage(middle), more(1, 1900*ms)),
			"1.000 tokens above",
		},
		{
			"after an outage without a cause", do(outage(middle), more(20, middle+10*ms)),
			"1.000 tokens above",
		},
		{"before they have heard of each other", func(h *history) {
			h.heard = 2010 * ms
			do(outage(middle), more(1200, middle))(h)
		}, ""},
		{"one too many then, too", func(h *history) {
			h.heard = 2010 * ms
			do(outage(middle), more(1201, middle))(h)
		}, "1.000 tokens above"},
		// A second of the Rate until the store has gone, and four may round up.
		{"an outage before its fault", do(cut, outage(middle), late, more(104, 3500*ms)), ""},
		{
			"one too many before it", do(cut, outage(middle), late, more(105, 3500*ms)),
			"1.000 tokens above",
		},
		{
			"one too many as some notice late", do(cut, outage(6*time.Second), more(225, middle)),
			"1.000 tokens above",
		},
		{
			"an outage that goes on after its fault",
			do(cut, outage(7*time.Second), unansweredAt(5*time.Second), more(324, 6*time.Second)), "",
		},
		{
			"one too many as it goes on",
			do(cut, outage(7*time.Second), unansweredAt(5*time.Second), more(325, 6*time.Second)),
			"1.000 tokens above",
		},
		{
			"it goes on for too long",
			do(cut, outage(7100*ms), unansweredAt(5*time.Second)), "for 2.1s after the store was back",
		},
		{"and did not run", do(cut, outage(7*time.Second), func(h *history) {
			for _, l := range h.lives {
				l.stalls = []span{{5 * time.Second, 6 * time.Second}}
			}
		}), ""},
		// Of the last three of four seconds two tokens were shared.
		{"a key that fails alone", do(alone, more(73, 4*time.Second)), ""},
		{"one too many of it", do(alone, more(74, 4*time.Second)), "1.000 tokens above"},
		{"its requests beside each other", do(alone, func(h *history) {
			d := h.lives[1].decisions
			d[0], d[1] = d[1], d[0]
		}, more(73, 4*time.Second)), ""},
		// Two tokens were shared, of three and a half seconds.
		{"one that failed before the store was back", do(alone, func(h *history) {
			h.lives[1].away = []span{{1500 * ms, 2100 * ms}}
			h.lives[1].decisions[2].verdict = denied
		}, more(85, 4*time.Second)), ""},
		{"denied while the store is slow", do(alone, func(h *history) {
			h.lives[1].decisions[1].verdict, h.lives[1].decisions[3].verdict = closed, closed
		}, more(1, 4*time.Second)), "1.000 tokens above"},

		{"nothing", func(h *history) { h.lives = nil }, "nothing was admitted"},
		{"nothing of one that was stopped", func(h *history) {
			h.lives = []*life{{stalls: []span{{0, 4 * time.Second}}}}
		}, "nothing was admitted"},
		{"nothing of processes that hardly ran", func(h *history) {
			h.lives = []*life{{stalls: []span{{0, 5 * time.Second}}}}
		}, "not judged: k: nothing was admitted"},
		{"slow", func(h *history) {
			h.begin().decisions = []decision{
				{before: middle, after: middle + 2*timeout + slack + ms, n: 1, verdict: denied},
			}
		}, "a request took 601ms"},
		{"behind an exchange", func(h *history) {
			h.begin().decisions = []decision{
				{before: middle, after: middle + 2*timeout, n: 1, verdict: denied},
			}
		}, ""},
		{"slow, but stopped", func(h *history) {
			*h.begin() = life{
				decisions: []decision{
					{before: middle, after: middle + time.Second, n: 1, verdict: denied},
				},
				stalls: []span{
					{middle - time.Second, middle - ms}, {middle + ms, middle + 900*ms},
				},
			}
		}, ""},
		{"no verdict at the end", func(h *history) {
			h.begin().decisions = []decision{
				{before: middle, after: middle + ms, n: 1, verdict: failed},
				{before: 9500 * ms, after: 9501 * ms, n: 1, verdict: closed},
			}
		}, "without a verdict since 5s"},
		{"no verdict at the end of a process that hardly ran", func(h *history) {
			*h.begin() = life{
				decisions: []decision{
					{before: middle, after: middle + ms, n: 1, verdict: failed},
					{before: 9500 * ms, after: 9501 * ms, n: 1, verdict: closed},
				},
				stalls: []span{{middle, middle + 1100*ms}},
			}
		}, "not judged: k: a process is without a verdict"},
		{"a verdict at last", func(h *history) {
			h.begin().decisions = []decision{
				{before: middle, after: middle + ms, n: 1, verdict: failed},
				{before: 9500 * ms, after: 9501 * ms, n: 1, verdict: denied},
			}
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := greedy()
			c.change(h)
			f := h.judge()
			found := f.violations
			for _, why := range f.unjudged {
				found = append(found, "not judged: "+why)
			}
			if c.want == "" && len(found) > 0 || c.want != "" && !slices.ContainsFunc(found, func(v string) bool { return strings.Contains(v, c.want) }) {
				t.Errorf("%q, want %q", found, c.want)
			}
		})
	}
}

// TestFigures: what the judge measures.
func TestFigures(t *testing.T) {
	h := greedy()
	l := h.begin()
	for i, v := range []verdict{denied, failed, closed, abandoned, denied, failed} {
		at := time.Duration(i) * time.Second
		l.decisions = append(l.decisions, decision{before: at, after: at + 10*ms, n: 1, verdict: v})
	}
	l.stalls = []span{{2 * time.Second, 2500 * ms}}
	h.suffer(fault{kind: "cut", span: span{time.Second, 3 * time.Second}})
	f := h.judge()
	got := fmt.Sprint(f.count, f.faults, f.unavailable, f.recovery, f.slowest, f.spent)
	want := fmt.Sprint(map[verdict]int{
		admitted: 1000, denied: 2, closed: 1, failed: 2, abandoned: 1,
	}, map[string]int{"cut": 1},
		2510*ms, 1010*ms, 10*ms, 1000.0)
	if got != want {
		t.Errorf("%s, not %s", got, want)
	}
	if f.ideal < 998 || f.ideal > 1000 || f.excess < -1.0/20 || f.excess > rounding {
		t.Errorf("an ideal bucket admits %v, excess %v", f.ideal, f.excess)
	}
	for range 2 * lanes {
		l.decisions = append(l.decisions,
			decision{before: 9 * time.Second, after: 9 * time.Second, n: 1})
	}
	g := h.judge()
	f.add(g)
	if f.excess != g.excess || f.spent != 2004 || f.count[admitted] != 2004 ||
		f.faults["cut"] != 2 || len(f.violations) == 0 {
		t.Errorf("%+v", f)
	}
}

func TestRecords(t *testing.T) {
	h := greedy()
	h.lives = nil
	l := h.begin()
	want := decision{
		before: 1, after: math.MaxInt64, key: 2, n: 65535, verdict: began, job: math.MaxUint32,
		fence: math.MaxUint64, taken: math.MaxInt64,
	}
	records := decision{before: 3, after: 4, verdict: stalled}.append(want.append(nil))
	for _, d := range []decision{{before: 5, verdict: held}, {before: 6, verdict: released}} {
		d.job = want.job
		records = d.append(records)
	}
	h.note(l, records)
	if len(l.decisions) != 1 || l.decisions[0] != want || len(l.stalls) != 1 ||
		l.stalls[0] != (span{3, 4}) {
		t.Errorf("%+v", l)
	}
	if j := l.jobs[want.job]; j == nil || *j != (job{want, 6, true}) {
		t.Errorf("%+v", j)
	}
	h.note(l, decision{before: 7, verdict: lost, job: want.job}.append(nil))
	if j := l.jobs[want.job]; j.seen != 6 {
		t.Errorf("%+v", j)
	}
	if n := len(want.append(nil)); n != recordSize {
		t.Errorf("%d bytes, not %d", n, recordSize)
	}
}
