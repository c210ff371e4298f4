package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
)

// A KindsRow is the cost of a warm decision by name, of keys with one kind of limit; ns,
// medians of rounds.
type KindsRow struct {
	Kind string
	One  float64   // of one key: Allow, or Acquire and Release
	All  []float64 // of as many keys as several says, in one AllowAll
}

// several are how many limits a request has to pass.
var several = []int{1, 2, 4, 8, hybrid.MaxAsks}

const (
	slotsRow   = "slots, Acquire and Release"
	controlRow = "rate.Limiter, in turn"
)

func measureKinds(o options) (rows []KindsRow, err error) {
	const much = 1 << 32 // tokens, that no run uses up
	limits := map[string]hybrid.Limit{
		"bucket": hybrid.PerSecond(1e9), "quota": hybrid.Quota(much, time.Hour),
		"sliding": hybrid.Sliding(much, time.Hour), "slots": hybrid.Slots(1e6),
	}
	// Leases that last for the run: what is measured is the decision.
	l, err := hybrid.New(bottomless{time.Now()}, hybrid.Config{
		LimitFor: func(key string) hybrid.Limit {
			kind, _, _ := strings.Cut(key, ":")
			return limits[kind]
		},
		Policy: hybrid.Policy{Mode: lease.Batches, Batch: 1e8, MaxRefresh: time.Hour},
	})
	if err != nil {
		return nil, err
	}
	defer func() { _ = l.Close(context.Background()) }()

	var all inTurn
	kinds := []struct{ name, prefix string }{
		{"token bucket", "bucket"}, {"quota", "quota"}, {"sliding window", "sliding"},
	}
	rows = make([]KindsRow, len(kinds)+2)
	for i, k := range kinds {
		row, names := &rows[i], make([]string, hybrid.MaxAsks)
		for n := range names {
			names[n] = fmt.Sprint(k.prefix, ":", n)
		}
		row.Kind, row.All = k.name, make([]float64, len(several))
		all.add(&row.One, func() bool { return l.Allow(names[0]) })
		for j, n := range several {
			all.add(&row.All[j], func() bool { return l.AllowAll(names[:n]...) })
		}
	}
	slots, control := &rows[len(kinds)], &rows[len(kinds)+1]
	slots.Kind = slotsRow
	all.add(&slots.One, func() bool {
		slot, err := l.Acquire(context.Background(), "slots:0", 1)
		return err == nil && slot.Release() == nil
	})
	all.addControl(control)
	return rows, timeInTurn(o, all.subjects, all.figures)
}

// inTurn are what is timed in turn, and where its figures go.
type inTurn struct {
	subjects []func() bool
	figures  []*float64
}

func (t *inTurn) add(to *float64, f func() bool) {
	t.subjects, t.figures = append(t.subjects, f), append(t.figures, to)
}

// addControl adds limiters that have no store.
func (t *inTurn) addControl(control *KindsRow) {
	control.Kind, control.All = controlRow, make([]float64, len(several))
	peers := make([]*rate.Limiter, hybrid.MaxAsks)
	for i := range peers {
		peers[i] = rate.NewLimiter(1e9, 1e9)
	}
	each := func(n int) func() bool {
		return func() bool {
			all := true
			for _, p := range peers[:n] {
				all = p.Allow() && all
			}
			return all
		}
	}
	t.add(&control.One, each(1))
	for j, n := range several {
		t.add(&control.All[j], each(n))
	}
}

// timeInTurn lets each subject decide many times, in turns, and writes the median cost of a
// decision to its figure. The first turns are for leases to grow, and do not count.
func timeInTurn(o options, subjects []func() bool, figures []*float64) error {
	const chunk = 500 // decisions in a turn
	measured := make([][]float64, len(subjects))
	for i := range 20 * o.rounds {
		for s, f := range subjects {
			start, denied := time.Now(), 0
			for range chunk {
				if !f() {
					denied++
				}
			}
			took := float64(time.Since(start)) / chunk
			if i < 10*o.rounds {
				continue
			}
			if denied > 0 {
				return fmt.Errorf("subject %d: %d denied, all should be admitted", s, denied)
			}
			measured[s] = append(measured[s], took)
		}
	}
	for s, to := range figures {
		*to = median(measured[s])
	}
	return nil
}
