package main

import (
	"slices"
	"time"
)

// A span is when a request of a key was decided, in between; or when a job had its slot, surely.
// Times are those of the wall clock, ns.
type span struct {
	key      int
	from, to int64
}

// byKey divides spans by their keys.
func byKey(spans []span) map[int][]span {
	keys := map[int][]span{}
	for _, s := range spans {
		keys[s.key] = append(keys[s.key], s)
	}
	return keys
}

// bounds are the beginnings and the ends of spans, each in order.
func bounds(spans []span) (from, to []int64) {
	for _, s := range spans {
		from, to = append(from, s.from), append(to, s.to)
	}
	slices.Sort(from)
	slices.Sort(to)
	return from, to
}

// within is how many lie in the time from a up to b. No span is longer than that.
func within(from, to []int64, a, b int64) int {
	ended, _ := slices.BinarySearch(to, b)
	before, _ := slices.BinarySearch(from, a)
	return max(0, ended-before)
}

// mostInCalendar is the most spans that surely lie in one window of the calendar.
func mostInCalendar(spans []span, window time.Duration) (most int) {
	from, to := bounds(spans)
	for _, at := range from {
		a := at - at%int64(window)
		most = max(most, within(from, to, a, a+int64(window)))
	}
	return most
}

// mostInAny is the most spans that surely lie in one window, wherever it begins.
func mostInAny(spans []span, window time.Duration) (most int) {
	from, to := bounds(spans)
	for _, a := range from {
		most = max(most, within(from, to, a, a+int64(window)))
	}
	return most
}

// mostAtOnce is the most spans that have a moment in common.
func mostAtOnce(spans []span, _ time.Duration) (most int) {
	from, to := bounds(spans)
	for i, a := range from {
		ended, _ := slices.BinarySearch(to, a+1) // one may end when another one begins
		most = max(most, i+1-ended)
	}
	return most
}

// idealQuota is how many requests one central quota admits, of those that came at these times.
func idealQuota(at []int64, l limit) (admitted int) {
	counts := map[int64]int64{}
	for _, t := range at {
		if number := t / int64(l.window); counts[number] < l.n {
			counts[number]++
			admitted++
		}
	}
	return admitted
}

// idealLog is how many requests one central log of times admits. They are in order.
func idealLog(at []int64, l limit) int {
	var kept []int64
	for _, t := range at {
		if i := len(kept) - int(l.n); i < 0 || kept[i] <= t-int64(l.window) {
			kept = append(kept, t)
		}
	}
	return len(kept)
}

// idealBucket is how many requests one central bucket admits, which is full at first.
func idealBucket(at []int64, l limit) (admitted int) {
	b := l.bucket(0)
	tokens, last := float64(b.Burst), int64(0)
	for _, t := range at {
		tokens = min(float64(b.Burst), tokens+float64(t-last)/1e9*b.Rate)
		last = t
		if tokens >= 1 {
			tokens--
			admitted++
		}
	}
	return admitted
}
