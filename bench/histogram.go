package main

import (
	"math/bits"
	"time"
)

// A Histogram counts durations in buckets of 1/32 of their power of two: a
// percentile is at most 3 % too high.
type Histogram struct {
	counts [32 * 60]uint64
	total  uint64
}

// Add counts d.
func (h *Histogram) Add(d time.Duration) {
	h.counts[bucketOf(uint64(max(d, 0)))]++
	h.total++
}

// Merge adds what other has counted.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
}

// Percentile returns the duration that the part p of all does not exceed, or 0
// if there are none.
func (h *Histogram) Percentile(p float64) time.Duration {
	if h.total == 0 {
		return 0
	}
	rank := uint64(p * float64(h.total))
	rank = min(rank, h.total-1)
	for i, n := range h.counts {
		if rank < n {
			return time.Duration(bucketEnd(i))
		}
		rank -= n
	}
	return 0
}

// bucketOf is x itself below 32, then 32 buckets for each power of two.
func bucketOf(x uint64) int {
	if x < 32 {
		return int(x)
	}
	shift := bits.Len64(x) - 6
	return shift*32 + int(x>>shift)
}

// bucketEnd is the largest value in bucket i.
func bucketEnd(i int) uint64 {
	if i < 64 {
		return uint64(i)
	}
	shift := i/32 - 1
	return (uint64(i-shift*32)+1)<<shift - 1
}
