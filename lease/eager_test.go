package lease_test

import (
	"testing"

	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// eager is what holders admit before they ask.
type eager struct {
	most    float64 // tokens of each, 0 for none
	ran     int     // requests that were admitted so
	forgot  int     // holders that were idle, and are others now
	crashes int     // holders that are no more, and were not idle
}

// forget makes idle holders anew, as processes do.
func (h *history) forget() {
	for i, a := range h.actors {
		if h.now >= a.frozen && a.holder.Idle(a.clock(h.now)) && h.rng.IntN(4) == 0 {
			h.start(a, i)
			h.eager.crashes--
			h.eager.forgot++
		}
	}
}

// TestEager: whatever holders admit before they ask, and however often they crash or are
// forgotten, no more than their most is above the limit for each that lives or has crashed.
func TestEager(t *testing.T) {
	seeds := longform.Histories(400, 4000)
	ran, forgot, full, worst := 0, 0, 0, 0.0
	begin := func(seed uint64) *history {
		h := newHistory(9000 + seed)
		h.charges, h.settles, h.waits = true, false, false
		h.eager.most = float64(1 + h.rng.IntN(20))
		return h
	}
	playHistories(t, seeds, begin, func(h *history) {
		for range 400 {
			h.run(1)
			most := h.eager.most * float64(len(h.actors)+h.eager.crashes)
			above := h.above()
			if above > most+rounding {
				h.fail("%v tokens above the limit, and most is %v of each of %d",
					above, h.eager.most, len(h.actors)+h.eager.crashes)
			}
			worst = max(worst, above/h.eager.most)
			h.forget()
		}
		ran, forgot = ran+h.eager.ran, forgot+h.eager.forgot
		if h.owed > h.eager.most {
			full++
		}
	})
	t.Logf("%d histories: %d were eager, %d forgotten; in %d more than one's was owed, %.1f above",
		seeds, ran, forgot, full, worst)
	if ran < 10*seeds || forgot < 10*seeds || full < seeds/10 {
		t.Error("too few to mean anything")
	}
}
