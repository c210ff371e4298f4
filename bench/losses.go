package main

import "fmt"

// A Loss is a figure in which ration is worse than a peer.
type Loss struct {
	Where, Figure string
	Ours, Theirs  Spread
	Peer          string
}

// figures are what a Sample is compared in.
var figures = []struct {
	name string
	of   func(Sample) float64
	more bool // more is better
}{
	{"decisions/s", rateOf, true},
	{"p50, µs", func(s Sample) float64 { return s.P50 }, false},
	{"p99, µs", func(s Sample) float64 { return s.P99 }, false},
	{"p999, µs", func(s Sample) float64 { return s.P999 }, false},
	{"Redis calls per decision", callsOf, false},
	{"server CPU per decision, µs", func(s Sample) float64 { return s.ServerCPU }, false},
	{"client CPU per decision, µs", func(s Sample) float64 { return s.ClientCPU }, false},
	{"allocations per decision", func(s Sample) float64 { return s.Allocs }, false},
	{"bytes allocated per decision", func(s Sample) float64 { return s.Bytes }, false},
}

// worse says that ours is, beyond both spreads and 1 %: what overlaps is no
// loss, and no win either.
func worse(ours, theirs Spread, more bool) bool {
	if more {
		return ours.Max < 0.99*theirs.Min
	}
	return ours.Min > 1.01*theirs.Max
}

// Losses are all rows in which a peer does better than ration with its
// defaults. Of several peers the best one is named.
func (r Report) Losses() []Loss {
	var losses []Loss
	for _, row := range r.Rows {
		us := row.result(ration.Name)
		if len(us.Samples) == 0 {
			continue
		}
		for _, figure := range figures {
			loss := Loss{
				Where: row.Load.Name, Figure: figure.name, Ours: over(us.Samples, figure.of),
			}
			for _, x := range row.Results {
				if x.Ours || x.Refused != "" || len(x.Samples) == 0 {
					continue
				}
				theirs := over(x.Samples, figure.of)
				most := loss.Peer == "" || worse(loss.Theirs, theirs, figure.more)
				if most && worse(loss.Ours, theirs, figure.more) {
					loss.Peer, loss.Theirs = x.Name, theirs
				}
			}
			if loss.Peer != "" {
				losses = append(losses, loss)
			}
		}
		losses = append(losses, usedLoss(row, us)...)
	}
	return append(losses, r.sizeLosses()...)
}

// usedLoss is about tokens that a lease holds and nobody uses.
func usedLoss(row RowResult, us Result) []Loss {
	control := row.result(row.Control)
	if row.Load.Generous || len(control.Samples) == 0 {
		return nil
	}
	used := func(s Sample) float64 { return s.Used }
	ours, theirs := over(us.Samples, used), over(control.Samples, used)
	if !worse(ours, theirs, true) {
		return nil
	}
	return []Loss{{row.Load.Name, "part of the limit that is used", ours, theirs, control.Name}}
}

// sizeLosses are about memory and the server's time for a script.
func (r Report) sizeLosses() []Loss {
	var losses []Loss
	exact := func(x float64) Spread { return Spread{x, x, x} }
	least := func(where string, of func(Memory) (float64, bool)) {
		loss := Loss{Where: "memory", Figure: where}
		for _, m := range r.Memory {
			if x, ok := of(m); ok && m.Subject == ration.Name {
				loss.Ours = exact(x)
			}
		}
		for _, m := range r.Memory {
			x, ok := of(m)
			least := loss.Peer == "" || x < loss.Theirs.Median
			if ok && m.Subject != ration.Name && x < loss.Ours.Median && least {
				loss.Peer, loss.Theirs = m.Subject, exact(x)
			}
		}
		if loss.Peer != "" {
			losses = append(losses, loss)
		}
	}
	least("bytes per key in the process",
		func(m Memory) (float64, bool) { return m.Process, m.Refused == "" })
	least("bytes per key in Redis, one process",
		func(m Memory) (float64, bool) { x, ok := m.Redis[1]; return x, ok })
	for _, holders := range costHolders {
		c := r.Costs[holders]
		ours := over(c, func(c Cost) float64 { return c.Exchange })
		theirs := over(c, func(c Cost) float64 { return c.Control })
		if len(c) > 0 && worse(ours, theirs, false) {
			losses = append(losses, Loss{
				fmt.Sprintf("one script call, %d processes on the key", holders),
				"server's time, µs", ours, theirs, controlName,
			})
		}
	}
	return losses
}
