package engine

import (
	"math"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local/ideal"
)

// debits measure the worst window of a key with grants counted when the ledger
// debits them: then the time that a reply is under way excuses nothing. Whether a
// grant finds its callers is known only when it arrives, so what happens
// meanwhile waits for it here.
type debits struct {
	gauge   ideal.Gauge
	excess  float64
	waiting []debit
	first   int // number of waiting[0]
}

// debit is tokens that left for good, or another limit.
type debit struct {
	at     time.Duration
	tokens float64
	hold   time.Duration // of a job
	open   bool          // how many tokens is not known yet
	limit  *lease.Limit  // nil of tokens
}

// newDebits returns those of a key, of which nothing has been admitted.
func newDebits(unused ideal.Gauge) debits {
	return debits{gauge: unused.Copy(), excess: math.Inf(-1)}
}

// spend counts tokens of a lease.
func (d *debits) spend(at time.Duration, tokens float64, hold time.Duration) {
	d.add(debit{at: at, tokens: tokens, hold: hold})
}

func (d *debits) setLimit(at time.Duration, limit lease.Limit) {
	d.add(debit{at: at, limit: &limit})
}

// grant counts tokens that are on their way, until arrive says what became of them.
func (d *debits) grant(at time.Duration) (number int) {
	d.add(debit{at: at, open: true})
	return d.first + len(d.waiting) - 1
}

func (d *debits) arrive(number int, tokens float64) {
	x := &d.waiting[number-d.first]
	x.open, x.tokens = false, tokens
	n := 0
	for n < len(d.waiting) && !d.waiting[n].open {
		d.pour(&d.waiting[n])
		n++
	}
	d.first += n
	d.waiting = d.waiting[:copy(d.waiting, d.waiting[n:])]
}

// worst is the excess of the worst window until now. A grant that is under way gives
// out nothing that is known: what came after it counts all the same.
func (d *debits) worst() float64 {
	if len(d.waiting) == 0 {
		return d.excess
	}
	rest := debits{gauge: d.gauge.Copy(), excess: d.excess}
	for i := range d.waiting {
		rest.pour(&d.waiting[i])
	}
	return rest.excess
}

func (d *debits) add(x debit) {
	if len(d.waiting) == 0 && !x.open {
		d.pour(&x)
		return
	}
	d.waiting = append(d.waiting, x)
}

func (d *debits) pour(x *debit) {
	switch {
	case x.limit != nil:
		d.gauge.SetLimit(x.at, *x.limit)
	case x.tokens != 0:
		d.excess = max(d.excess, d.gauge.Pour(x.at, x.at, x.tokens, x.hold))
	}
}
