//go:build linux || darwin

package chaos

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// judgeSliding is W1, and I6: an admission counts for the windows that contain all of its
// span. What the outage policy admits is beside the limit.
func (h *history) judgeSliding(f *finding, i int) {
	k := h.keys[i]
	list := h.admissions(i, admitted)
	if len(list) == 0 {
		h.judgeNothing(f, k)
		return
	}
	n, losses := float64(k.Limit.Burst), h.losses(k.Limit)
	returns := h.returns(i)
	bare := fullest(k.Limit.Window, list, nil, returns)
	judged := fullest(k.Limit.Window, list, losses, returns)
	if len(losses) == 0 {
		f.excess = max(f.excess, bare.sum/n-1)
	}
	f.beyond = max(f.beyond, judged.sum/n-1)
	if judged.sum > n {
		f.violate("%s (%v): %v tokens above the limit and what is allowed in the window that "+
			"began at %v of %v, with %v", k.Name, k.Limit, judged.sum-n, judged.from-h.from, h.to-h.from,
			h.around(i, judged.from+k.Limit.Window))
	}
}

// returns are the allowances for refunds of a sliding window. A refund takes back the newest
// tokens, and the tokens of its own request go on to count. So windows that began between request
// and refund may have as many tokens more (docs/adr/0113-a-refund-is-of-the-newest.md).
func (h *history) returns(key int) (list []allowance) {
	for _, l := range h.lives {
		for _, d := range l.decisions {
			if int(d.key) == key && d.verdict == refunded {
				list = append(list, allowance{span{d.taken, d.after}, float64(d.n)})
			}
		}
	}
	return list
}

// A filling is what is in a window, less what is allowed in it, and when that begins.
type filling struct {
	from time.Duration
	sum  float64
}

// fullest is the fullest window of length w, which contains its beginning and not its end.
// All that begin after an admission would have to and not after it did contain it.
// So each admission is a span of beginnings, and so is each allowance: O(n log n). Returns allow
// more in windows that begin in their time.
func fullest(
	w time.Duration, list []admission, allowances, returns []allowance,
) (most filling) {
	type change struct {
		at time.Duration // the last beginning of before
		by float64
	}
	var changes []change
	add := func(from, to time.Duration, n float64) {
		if from < to {
			changes = append(changes, change{from, n}, change{to, -n})
		}
	}
	for _, a := range list {
		add(a.to-w, a.from, a.n)
	}
	for _, x := range allowances {
		add(x.from-w, x.to, -x.extra)
	}
	for _, x := range returns {
		add(x.from, x.to, -x.extra)
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	sum := 0.0
	for j := 0; j < len(changes); {
		at := changes[j].at
		if sum > most.sum {
			most = filling{at, sum}
		}
		for ; j < len(changes) && changes[j].at == at; j++ {
			sum += changes[j].by
		}
	}
	return most
}

// idealLog is what a central log admits of these requests.
func idealLog(limit lease.Limit, list []decision) (admitted float64) {
	var log []decision // of the last window
	left := float64(limit.Burst)
	for _, d := range list {
		for len(log) > 0 && log[0].before <= d.before-limit.Window {
			left += float64(log[0].n)
			log = log[1:]
		}
		if n := float64(d.n); left >= n {
			left -= n
			admitted += n
			log = append(log, d)
		}
	}
	return admitted
}

// TestJudgeSliding: what the judge lets pass of a sliding window, and that it sees the least
// that it should not.
func TestJudgeSliding(t *testing.T) {
	const w = time.Second
	at := func(at time.Duration, n uint16) decision { return decision{before: at, after: at, n: n} }
	back := func(taken, at time.Duration) decision {
		return decision{before: at, after: at, n: 5, verdict: refunded, taken: taken}
	}
	beside := decision{before: 4600 * ms, after: 4900 * ms, n: 6}
	alone := decision{before: 1900 * ms, after: 1900 * ms, n: 1, verdict: shared}
	for _, c := range []struct {
		name  string
		also  decision
		lost  bool
		finds bool
	}{
		{"all of it", decision{verdict: denied}, false, false},
		{"one more", at(1900*ms, 1), false, true},
		{"one more at the end of a window", at(10*ms+w-1, 1), false, true},
		{"one more in a window that has room", at(2500*ms, 5), false, false},
		{"one too many there", at(2500*ms, 6), false, true},
		{"one too many, at the latest", at(4800*ms, 6), false, true},
		{"one that may have been before", beside, false, false},
		{"one more in an outage", alone, false, false},
		{"as many again when the state was lost", at(1900*ms, 20), true, false},
		{"one more than that", at(1900*ms, 21), true, true},
		{"one more before it", at(500*ms, 1), true, true},
		{"as many again while old leases live", at(2500*ms, 20), true, false},
		{"one more when they have ended", at(5900*ms, 6), true, true},
		{"five more, for older ones that came back", back(890*ms, 1100*ms), false, false},
		{"for some that are in a window themselves", back(950*ms, 1100*ms), false, true},
		{"for some that came back before a window", back(890*ms, 1005*ms), false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &history{
				keys: []key{{Name: "k", Limit: sliding(20, w)}}, processes: 4, timeout: timeout,
				span: span{0, 6 * time.Second},
			}
			l := h.begin()
			for i := range 2 {
				l.decisions = append(l.decisions, at(10*ms+time.Duration(i)*w, 20))
			}
			l.decisions = append(l.decisions, at(2010*ms, 5), at(2600*ms, 5), at(2990*ms, 5),
				at(5700*ms, 15), c.also)
			if c.also.verdict == refunded {
				l.decisions = append(l.decisions, at(1900*ms, 5))
			}
			if c.lost {
				h.suffer(fault{kind: "flushall", span: span{1500 * ms, 1600 * ms}, lost: true})
			}
			slices.Reverse(l.decisions)
			if f := h.judge(); len(f.violations) > 0 != c.finds {
				t.Errorf("%q", f.violations)
			}
		})
	}
}

// TestFullest holds the sweep against all windows, one by one.
func TestFullest(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		at := func() time.Duration { return time.Duration(random.IntN(60)) }
		var list []admission
		for range 1 + random.IntN(30) {
			from := at()
			list = append(list, admission{span{from, from + at()/4}, float64(1 + random.IntN(5))})
		}
		var allowances []allowance
		for range random.IntN(4) {
			from := at()
			allowances = append(allowances, allowance{span{from, from + at()/3}, float64(random.IntN(10))})
		}
		var returns []allowance
		for range random.IntN(4) {
			from := at()
			returns = append(returns, allowance{span{from, from + at()/3}, float64(random.IntN(5))})
		}
		w, want := 1+at()/2, 0.0
		for from := -2 * w; from < 100; from++ {
			sum := 0.0
			for _, a := range list {
				if a.from >= from && a.to < from+w {
					sum += a.n
				}
			}
			for _, x := range allowances {
				if x.from < from+w && x.to >= from {
					sum -= x.extra
				}
			}
			for _, x := range returns {
				if x.from < from && from <= x.to {
					sum -= x.extra
				}
			}
			want = max(want, sum)
		}
		if got := fullest(w, list, allowances, returns); got.sum != want {
			t.Fatalf("seed %d: %v, want %v", seed, got, want)
		}
	}
}
