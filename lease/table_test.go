package lease_test

import (
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

func scenarios() []fleet {
	base := fleet{
		limit: lease.Limit{Rate: 1000, Burst: 1000}, procs: 10, offered: 2, skew: 1,
		rtt: time.Millisecond, timeout: 50 * time.Millisecond, duration: 30 * time.Second,
	}
	with := func(name string, change func(*fleet)) fleet {
		f := base
		f.name = name
		change(&f)
		return f
	}
	return []fleet{
		with("offered 0.95 r", func(f *fleet) { f.offered = 0.95 }),
		with("offered 1.2 r", func(f *fleet) { f.offered = 1.2 }),
		with("offered 2 r", func(f *fleet) {}),
		with("offered 5 r", func(f *fleet) { f.offered = 5 }),
		with("hot process moves every 1 s", func(f *fleet) { f.moves = time.Second }),
		with("r = 100000/s", func(f *fleet) {
			f.limit = lease.Limit{Rate: 100000, Burst: 100000}
		}),
		with("on 20 %, 4 s period", func(f *fleet) { f.period = 4 * time.Second }),
		with("on 20 %, 1 s period", func(f *fleet) { f.period = time.Second }),
		with("r = 100/s", func(f *fleet) { f.limit = lease.Limit{Rate: 100, Burst: 100} }),
		with("50 processes, B = 0.1 s", func(f *fleet) { f.procs, f.limit.Burst = 50, 100 }),
		with("5 % lost, 10 % repeated", func(f *fleet) { f.lose, f.repeat = 0.05, 0.1 }),
		with("two crashes a second", func(f *fleet) { f.crashes = 2 }),
		with("r = 10000/s, RTT 20 ms", func(f *fleet) {
			f.limit, f.rtt = lease.Limit{Rate: 10000, Burst: 10000}, 20*time.Millisecond
		}),
		with("state lost at 10 s", func(f *fleet) { f.flush = 10 * time.Second }),
	}
}

func TestTable(t *testing.T) {
	for _, f := range scenarios() {
		var runs []outcome
		for seed := range uint64(3) {
			runs = append(runs, f.run(seed+1))
		}
		show := func(of func(outcome) float64) []float64 { lo, hi := spread(runs, of); return []float64{lo, hi} }
		t.Logf("%-30s util %.4f J(acc) %.4f J(ideal) %.4f calls %.4f excess %.1f", f.name,
			show(func(o outcome) float64 { return o.util }), show(func(o outcome) float64 { return o.jainAccepted }),
			show(func(o outcome) float64 { return o.jainIdeal }), show(func(o outcome) float64 { return o.calls }),
			show(func(o outcome) float64 { return o.excess }))
	}
}
