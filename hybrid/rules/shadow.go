package rules

import (
	"errors"
	"hash/fnv"

	"github.com/seed13b07268/ration/hybrid"
)

const (
	// shadowWorkers count for shadows. Each may wait for the store.
	shadowWorkers = 32

	// mostShadows wait for them. Further ones are counted as unknown.
	mostShadows = 1024
)

// A shadow is an ask that nobody waits for.
type shadow struct {
	domain     string
	limiter    *hybrid.Limiter
	ask        hybrid.Ask
	counts     *counts
	descriptor int  // of the request
	used       bool // it counts though it does not fit
}

// cast leaves shadows to the workers.
func (l *Limiter) cast(shadows ...shadow) {
	for _, s := range shadows {
		select {
		case l.shadows <- s:
		default:
			s.counts.shadowUnknown.Add(1)
		}
	}
}

// countShadows is a worker.
func (l *Limiter) countShadows() {
	for {
		select {
		case s := <-l.shadows:
			d, err := as(s.limiter, s.ask.Class).Take(l.life, s.ask.Key, s.ask.N)
			if s.used && (err != nil || !d.Allowed) {
				err = errors.Join(err, l.owe(l.life, s.domain, s.limiter, s.ask))
			}
			switch {
			case err == nil && d.Allowed:
				s.counts.shadowAdmitted.Add(1)
			case err == nil, errors.Is(err, hybrid.ErrExceedsBurst):
				s.counts.shadowDenied.Add(1)
			default:
				s.counts.shadowUnknown.Add(1)
			}
		case <-l.life.Done():
			return
		}
	}
}

// chosen reports whether a bucket is among so many percent of all. A higher percentage has the
// same ones, and more.
func chosen(domain, bucket string, percent float64) bool {
	if percent <= 0 || percent >= 100 {
		return percent >= 100
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(domain))
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(bucket))
	x := h.Sum64()
	x ^= x >> 33 // FNV's high bits hardly depend on the last bytes
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return float64(x>>11)/(1<<53) < percent/100
}
