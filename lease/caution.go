package lease

// A part of a bucket that one holder has is of no use to another one. How much may be lent nobody
// knows beforehand: it depends on how requests come. So the ledger goes by what it costs. Tokens
// that were lost while others were denied raise the caution. Each part is smaller by 1 + caution,
// and batches take the place of slices, and of calls: a batch takes tokens from the pool as they
// are asked for, and a slice the rate that others may need. Caution falls again by itself: at rest
// a 140th of the Rate is lost (ADR 183).
type losses struct {
	caution float64 // 0 and above
	denied  float64 // tokens that were denied lately, and none was lost for; at most a second's Rate
}

const (
	cautionFor  = 10e6 // µs in which 1 + caution falls to less than a half
	cautionGain = 14.0 // of 1 + caution, for a second's Rate that is lost
	cautionMost = 15.0 // no part is smaller than a sixteenth
	batchesFor  = 4.0  // how much larger than else slices are with a caution of 1, and batches smaller

	deniedFor   = 1e6  // µs without an exchange, in which denials are forgotten
	deniedLeast = 1e-3 // fewer tokens are none
)

// deny counts tokens that a holder has denied.
func (l *Ledger) deny(tokens float64) { l.denied = min(l.denied+tokens, l.rate) }

// regret counts tokens that were lost.
func (l *Ledger) regret(tokens float64) {
	if lost := min(tokens, l.denied); lost > 0 {
		l.denied -= lost
		rise := float64(cautionGain*(1+l.caution)*lost) / l.rate
		l.caution = min(l.caution+rise, cautionMost)
	}
}

// calm lets both fall in dt µs.
func (l *Ledger) calm(dt float64) {
	l.caution = max(l.caution-float64(dt*(1+l.caution))/cautionFor, 0)
	if l.denied *= max(1-dt/deniedFor, 0); l.denied < deniedLeast {
		l.denied = 0
	}
}
