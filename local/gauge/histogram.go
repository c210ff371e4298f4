package gauge

import (
	"iter"
	"math/bits"
	"time"
)

// A Histogram counts durations in buckets that are a 32nd of their value wide,
// so that a quantile is at most 3 % too high, at a constant cost each. It takes 8 bytes for
// each bucket up to the largest one in use: 4 KiB for milliseconds. A copy shares them.
type Histogram struct {
	counts []uint64
	total  uint64
}

const fineBits = 5

// Add counts d once; below zero counts as zero.
func (h *Histogram) Add(d time.Duration) {
	i := slot(uint64(max(d, 0)))
	h.grow(i + 1)
	h.counts[i]++
	h.total++
}

// Quantile is the smallest duration that no more than a part 1-q of all exceed,
// rounded up to the end of its bucket; zero if nothing was counted.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := uint64(q * float64(h.total))
	var below uint64
	for i, n := range h.counts {
		if below += n; below > rank || below == h.total && n > 0 {
			return time.Duration(limit(i))
		}
	}
	return 0
}

// All yields what was counted, bucket by bucket: the smallest duration of each, in
// ascending order, and how many fell into it. Empty buckets are left out.
func (h *Histogram) All() iter.Seq2[time.Duration, uint64] {
	return func(yield func(time.Duration, uint64) bool) {
		least := uint64(0)
		for i, n := range h.counts {
			if n > 0 && !yield(time.Duration(least), n) {
				return
			}
			least = limit(i) + 1
		}
	}
}

// grow makes room for so many buckets, by whole doublings of a duration.
func (h *Histogram) grow(buckets int) {
	if more := buckets - len(h.counts); more > 0 {
		const step = 1 << fineBits
		h.counts = append(h.counts, make([]uint64, (more+step-1)/step*step)...)
	}
}

// Merge adds what other has counted.
func (h *Histogram) Merge(other *Histogram) {
	h.grow(len(other.counts))
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
}

// Reset forgets everything, and keeps the room.
func (h *Histogram) Reset() {
	clear(h.counts)
	h.total = 0
}

// slot numbers the buckets: exact up to 2^fineBits, then 2^fineBits for each
// doubling.
func slot(v uint64) int {
	shift := max(bits.Len64(v)-fineBits-1, 0)
	return shift<<fineBits + int(v>>shift)
}

// limit is the largest value of a bucket.
func limit(i int) uint64 {
	if i < 2<<fineBits {
		return uint64(i)
	}
	shift := i>>fineBits - 1
	top := uint64(i - shift<<fineBits)
	return (top+1)<<shift - 1
}
