package engine

import (
	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local/gauge"
	"github.com/seed13b07268/ration/sim/measure"
)

// level gives each ideal limit what the fleet has of its key: what a limiter
// has saved up in the warm-up would else look like tokens from nowhere. Of requests that are
// under way it has decided as they came.
func (m *meter) level() {
	saved := map[*key]float64{}
	for _, c := range present(m.cells) {
		saved[c.key] += held(c.entry.Lease(m.now))
	}
	for _, k := range m.keys {
		if k == nil || m.now == 0 {
			continue
		}
		has := float64(k.limit.Burst) // before the first exchange
		if k.opened >= 0 {
			has, _ = k.pool(m.now)
			has += saved[k]
		}
		k.ideal.Level(m.now, has, k.gauge)
	}
	m.lineUp()
}

// tick ends a window.
func (m *meter) tick() {
	m.quiet++
	m.settling.tick(m)
	if m.patience > 0 && m.pending > 0 {
		m.wait()
	}
	m.share()
	if m.classes != nil {
		m.classes.tick(m.engine)
	}
	for i := range m.processes {
		m.processes[i].short.offered, m.processes[i].short.admitted = 0, 0
	}
	if (m.ticks+1)%second == 0 {
		m.endSecond()
		m.look()
	}
	m.pass()
}

// pass lets a window pass, with what there was in it.
func (m *meter) pass() {
	m.ticks++
	if m.ticks%m.step == 0 {
		t := &m.timeline
		t.Offered = append(t.Offered, m.sum.offered/t.Step)
		t.Admitted = append(t.Admitted, m.sum.admitted/t.Step)
		t.Ideal = append(t.Ideal, m.sum.ideal/t.Step)
		t.Limit = append(t.Limit, m.capacity())
		m.sum.offered, m.sum.admitted, m.sum.ideal = 0, 0, 0
		if len(t.Admitted) == mostSteps {
			m.coarsen()
		}
	}
}

// coarsen makes one step of each two: however long the run is, and whenever it
// is interrupted, there are enough steps for a chart.
func (m *meter) coarsen() {
	t := &m.timeline
	for _, list := range []*[]float64{&t.Offered, &t.Admitted, &t.Ideal, &t.Limit} {
		for i := range len(*list) / 2 {
			(*list)[i] = ((*list)[2*i] + (*list)[2*i+1]) / 2
		}
		*list = (*list)[:len(*list)/2]
	}
	m.step *= 2
	t.Step *= 2
}

// share adds the fair shares of the window that ends. They are of one window
// after the other, because load comes and goes: whoever asks while nobody else
// does has a right to more.
func (m *meter) share() {
	for _, k := range m.touched {
		if m.classes != nil {
			m.classes.share(k)
			k.touched, k.tallies.offered, k.tallies.ideal = k.touched[:0], 0, 0
			continue
		}
		demand := func(c *cellTally) float64 { return c.short }
		m.divide(m.policy.Fairness, k.touched, demand, k.tallies.ideal, func(c *cellTally, fair float64) {
			c.process.fair += fair
			c.process.long.fair += fair
			c.short = 0
		})
		k.touched, k.tallies.offered, k.tallies.ideal = k.touched[:0], 0, 0
	}
	m.touched = m.touched[:0]
}

// endSecond notes how fair the last second was.
func (m *meter) endSecond() {
	m.shares = m.shares[:0]
	for i := range m.processes {
		l := &m.processes[i].long
		if l.fair > 0 {
			m.shares = append(m.shares, l.admitted/l.fair)
		}
		l.admitted, l.fair = 0, 0
	}
	if len(m.shares) > 0 && m.now > m.begins {
		m.jains = append(m.jains, gauge.Jain(m.shares))
	}
}

// divide gives each cell its fair part of what the ideal bucket admitted.
func (m *meter) divide(fairness lease.Fairness, cells []*cellTally, demand func(*cellTally) float64,
	ideal float64, give func(*cellTally, float64)) {
	m.shares = m.shares[:0]
	for _, c := range cells {
		m.shares = append(m.shares, demand(c))
	}
	m.fair = measure.Divide(m.fair[:0], fairness, m.shares, ideal)
	for i, fair := range m.fair {
		give(cells[i], fair)
	}
}
