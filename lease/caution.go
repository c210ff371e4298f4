package lease

import "math"

// A part of a bucket that one holder has is of no use to another one. How much may be lent nobody
// knows beforehand: it depends on how requests come. So the ledger goes by what it costs. Tokens
// that were lost shortly before or after others were denied raise the caution. Each part is smaller
// by 1 + caution, and batches take the place of slices: a batch takes tokens from the pool as they
// are asked for, and a slice the rate that others may need. Caution falls again by
// itself: at rest a 140th of the Rate is lost (ADR 183).
type losses struct {
	caution float64 // 0 and above
	denied  float64 // tokens denied lately, less those lost: at most a second's Rate of either
	forgets float64 // µs without an exchange, after which nothing that was denied counts
}

const (
	cautionFor  = 10e6 // µs in which 1 + caution, and what is denied or lost, fall to less than a half
	cautionGain = 14.0 // of 1 + caution, for a second's Rate that is lost
	cautionMost = 15.0 // no part is smaller than a sixteenth
	batchesFor  = 4.0  // the smallest slice is larger by 1 + batchesFor x caution

	// losses.forgets is so many MaxRefresh, or times in which 2 x Smallest flow, if that is longer:
	// who was denied could have asked again.
	deniedFor   = 1.25
	deniedLeast = 1e-3 // fewer tokens are none
)

// deny counts tokens that a holder has denied.
func (l *Ledger) deny(tokens float64) { l.weigh(tokens) }

// regret counts tokens that were lost.
func (l *Ledger) regret(tokens float64) { l.weigh(-tokens) }

// weigh counts tokens that were denied, or below 0 those that were lost. A token of each kind, in
// either order, is one that was missed.
func (l *Ledger) weigh(tokens float64) {
	missed := min(math.Abs(tokens), math.Abs(l.denied))
	if missed > 0 && (tokens < 0) != (l.denied < 0) {
		rise := float64(cautionGain*(1+l.caution)*missed) / l.rate
		l.caution = min(l.caution+rise, cautionMost)
	}
	l.denied = max(min(l.denied+tokens, l.rate), -l.rate)
}

// calm lets both fall in dt µs.
func (l *Ledger) calm(dt float64) {
	l.caution = max(l.caution-float64(dt*(1+l.caution))/cautionFor, 0)
	l.denied *= max(1-dt/cautionFor, 0)
	if dt >= l.forgets || math.Abs(l.denied) < deniedLeast {
		l.denied = 0
	}
}
