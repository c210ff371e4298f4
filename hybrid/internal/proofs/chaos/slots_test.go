//go:build linux || darwin

package chaos

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"
)

// A job has slots in use, from after it began until it was last seen to have them.
type job struct {
	decision
	seen  time.Duration
	ended bool // by Release, which has found that it still had them
}

// note takes what a job tells.
func (j *job) note(d decision) {
	if d.verdict != lost {
		j.seen, j.ended = d.before, d.verdict == released
	}
}

// uses is from when to when a job surely had its slots. A context ends when its process runs:
// if that was kept from running, the context may end later than the lease did. What Release
// says goes by the clock.
func (l *life) uses(j *job) span {
	s := span{j.after, j.seen}
	if j.ended {
		return s
	}
	for _, x := range slices.Backward(l.stalls) {
		if x.to <= s.to-slack {
			break
		}
		if x.from < s.to {
			s.to = x.from
		}
	}
	return s
}

// judgeSlots is S1, and I6.
func (h *history) judgeSlots(f *finding, i int) {
	k := h.keys[i]
	n := float64(k.Limit.Burst)
	var list []admission
	for _, l := range h.lives {
		for _, j := range l.jobs {
			if s := l.uses(j); int(j.key) == i {
				f.jobs++
				if !j.ended {
					f.unfinished++
				}
				list = append(list, admission{s, float64(j.n)})
			}
		}
	}
	if len(list) == 0 {
		h.judgeNothing(f, k)
		return
	}
	losses := h.losses(k.Limit)
	for j, x := range losses { // the jobs of that time go on
		for _, a := range list {
			if a.from <= x.to {
				losses[j].to = max(losses[j].to, a.to)
			}
		}
	}
	bare, judged := busiest(list, nil), busiest(list, losses)
	if len(losses) == 0 {
		f.excess = max(f.excess, bare.sum/n-1)
	}
	f.beyond = max(f.beyond, judged.sum/n-1)
	if judged.sum > n {
		f.violate("%s (%v): %v slots above the limit and what is allowed are in use at %v of %v, "+
			"with %v", k.Name, k.Limit, judged.sum-n, judged.from-h.from, h.to-h.from,
			h.around(i, judged.from))
	}
	if n == 1 {
		h.judgeFences(f, i, losses)
	}
}

// busiest is when most is in use, less what is allowed then. What ends makes room before
// something begins.
func busiest(list []admission, allowances []allowance) (most filling) {
	type change struct {
		at time.Duration
		by float64
	}
	var changes []change
	for _, a := range list {
		if a.from < a.to {
			changes = append(changes, change{a.from, a.n}, change{a.to, -a.n})
		}
	}
	for _, x := range allowances {
		changes = append(changes, change{x.from, -x.extra}, change{x.to + 1, x.extra})
	}
	slices.SortFunc(changes,
		func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
	sum := 0.0
	for _, c := range changes {
		if sum += c.by; sum > most.sum {
			most = filling{c.at, sum}
		}
	}
	return most
}

// judgeFences is what Slot.Fence promises of a single slot: a job that begins after another
// one had the slot has no smaller fence, and a larger one if its process is another one. While
// leases of a lost state may live there are two slots.
func (h *history) judgeFences(f *finding, i int, losses []allowance) {
	type holder struct {
		*job
		life *life
	}
	var begun []holder
	for _, l := range h.lives {
		for _, j := range l.jobs {
			if int(j.key) == i {
				begun = append(begun, holder{j, l})
			}
		}
	}
	ended := slices.Clone(begun)
	slices.SortFunc(begun, func(a, b holder) int { return cmp.Compare(a.before, b.before) })
	slices.SortFunc(ended, func(a, b holder) int { return cmp.Compare(a.after, b.after) })
	var last holder // with the largest fence of those that surely had the slot
	for _, j := range begun {
		for ; len(ended) > 0 && ended[0].after <= j.before; ended = ended[1:] {
			if last.job == nil || ended[0].fence > last.fence {
				last = ended[0]
			}
		}
		two := slices.ContainsFunc(losses,
			func(x allowance) bool { return x.from <= j.after && j.before <= x.to })
		if last.job == nil || two || j.fence > last.fence ||
			j.fence == last.fence && j.life == last.life {
			continue
		}
		f.violate("%s (%v): the fence of a job that began at %v of %v is %d, and that of one at %v "+
			"was %d, with %v",
			h.keys[i].Name, h.keys[i].Limit, j.after-h.from, h.to-h.from, j.fence,
			last.after-h.from, last.fence, h.around(i, j.after))
	}
}

// did is a job that began between before and after, had its slots until seen, and then
// released them, or not.
func did(before, after, seen time.Duration, n uint16, fence uint64, ended bool) *job {
	return &job{
		decision: decision{before: before, after: after, n: n, verdict: began, fence: fence},
		seen:     seen, ended: ended,
	}
}

// works adds the life of a process that has had these jobs.
func (h *history) works(list ...*job) *life {
	l := h.begin()
	for i, j := range list {
		l.jobs[uint32(i)] = j
	}
	return l
}

// TestJudgeSlots: what the judge lets pass of slots, and that it sees the least that it should
// not.
func TestJudgeSlots(t *testing.T) {
	one := func(from, to time.Duration, n uint16) *job { return did(from, from, to, n, 0, true) }
	until := func(from, seen time.Duration) *job { return did(from, from, seen, 1, 0, false) }
	stop := span{900 * ms, 1040 * ms}
	for _, c := range []struct {
		name  string
		also  *job
		stall span // of its process
		lost  bool
		want  string // of a violation, or none
	}{
		{"all of them", one(0, 900*ms, 3), span{}, false, ""},
		{"one more", one(1500*ms, 1501*ms, 1), span{}, false, "1 slots above"},
		{"one more when it begins", one(500*ms, 1001*ms, 1), span{}, false, "1 slots above"},
		{"one more when another one has ended", one(2000*ms, 2500*ms, 2), span{}, false, ""},
		{"one more than that", one(2000*ms, 2500*ms, 3), span{}, false, "1 slots above"},
		{"one that may have begun later", did(1500*ms, 2000*ms, 2500*ms, 2, 0, true), span{}, false, ""},
		{"one that had lost its lease", until(1200*ms, 1200*ms), span{}, false, ""},
		{"one that was killed", until(1200*ms, 1220*ms), span{}, false, "1 slots above"},
		{"one that did not run", until(100*ms, 1050*ms), stop, false, ""},
		{"one that ran again", until(100*ms, 1150*ms), stop, false, "1 slots above"},
		{"one that did not run, and released", one(100*ms, 1050*ms, 1), stop, false, "1 slots above"},
		{"as many again when the state was lost", one(1500*ms, 1900*ms, 3), span{}, true, ""},
		{"one more than that", one(1500*ms, 1900*ms, 4), span{}, true, "1 slots above"},
		{"one more before it", one(1400*ms, 1499*ms, 1), span{}, true, "1 slots above"},
		{"as many again while old leases live", one(2500*ms, 2700*ms, 3), span{}, true, ""},
		{"as many again that go on", one(2500*ms, 3100*ms, 5), span{}, true, ""},
		{"one more when all have ended", one(3001*ms, 3100*ms, 4), span{}, true, "1 slots above"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &history{
				keys: []key{{Name: "k", Limit: slots(3), How: acquire}}, processes: 4, timeout: timeout,
				span: span{0, 6 * time.Second},
			}
			h.policy.MaxHold = 250 * ms
			h.works(one(time.Second, 2*time.Second, 2), one(time.Second, 3*time.Second, 1))
			l := h.works(c.also)
			if c.stall.to > 0 {
				l.stalls = []span{c.stall}
			}
			if c.lost {
				h.suffer(fault{kind: "flushall", span: span{1500 * ms, 1600 * ms}, lost: true})
			}
			f := h.judge()
			got := strings.Join(f.violations, ", ")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestJudgeFences: a job with a smaller fence than one before is found.
func TestJudgeFences(t *testing.T) {
	at := func(at time.Duration, fence uint64) *job { return did(at, at, at, 1, fence, true) }
	beside := did(1999*ms, 3*time.Second, 3*time.Second, 1, 6, true)
	for _, c := range []struct {
		name  string
		job   *job
		same  bool // process
		lost  bool
		finds bool
	}{
		{"larger", at(3*time.Second, 8), false, false, false},
		{"smaller", at(3*time.Second, 6), false, false, true},
		{"the same", at(3*time.Second, 7), false, false, true},
		{"the same of the same process", at(3*time.Second, 7), true, false, false},
		{"smaller of the same process", at(3*time.Second, 6), true, false, true},
		{"one that may have begun before", beside, false, false, false},
		{"smaller than one in between", at(1600*ms, 4), false, false, true},
		{"smaller when the state was lost", at(3*time.Second, 6), false, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &history{
				keys: []key{{Name: "k", Limit: slots(1), How: acquire}}, timeout: 2 * time.Second,
				span: span{0, 6 * time.Second},
			}
			h.works(did(time.Second, time.Second, 1500*ms, 1, 5, true))
			last := did(2*time.Second, 2*time.Second, 2500*ms, 1, 7, true)
			if c.same {
				h.works(last, c.job)
			} else {
				h.works(last)
				h.works(c.job)
			}
			if c.lost {
				h.suffer(fault{kind: "flushall", span: span{2900 * ms, 2950 * ms}, lost: true})
			}
			if f := h.judge(); len(f.violations) > 0 != c.finds {
				t.Errorf("%q", f.violations)
			}
		})
	}
}

// TestNoJobs: slots that no job has had are found.
func TestNoJobs(t *testing.T) {
	h := &history{keys: []key{{Name: "k", Limit: slots(1), How: acquire}}, span: span{0, time.Second}}
	h.begin()
	if f := h.judge(); len(f.violations) != 1 {
		t.Errorf("%q", f.violations)
	}
}
