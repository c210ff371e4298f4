package ideal

import (
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// TestReplay: each key has a limit of its own, which begins full with its first request. What was
// charged is admitted, and is a debt of a bucket, which ends with the window of a quota.
func TestReplay(t *testing.T) {
	bucket := lease.Per(2, time.Second)
	quota := lease.Limit{Kind: lease.KindQuota, Burst: 2, Window: 10 * time.Second}
	sliding := lease.Limit{Kind: lease.KindSliding, Burst: 2, Window: 10 * time.Second}
	replays := map[lease.Limit]*Replay{}
	for i, step := range []struct {
		limit   lease.Limit
		key     int32
		at      time.Duration
		n       int64
		charged bool
		want    bool
	}{
		{bucket, 0, time.Second, 2, false, true},
		{bucket, 0, time.Second, 1, false, false},
		{bucket, 1, time.Second, 2, false, true},
		{bucket, 0, 2 * time.Second, 8, true, true}, // -6
		{bucket, 0, 5 * time.Second, 1, false, false},
		{bucket, 0, 6 * time.Second, 1, false, true},
		{quota, 0, time.Second, 8, true, true},
		{quota, 0, 9 * time.Second, 1, false, false},
		{quota, 0, 10 * time.Second, 2, false, true},
		{sliding, 0, time.Second, 1, true, true},
		{sliding, 0, 2 * time.Second, 8, true, true}, // does not fit, and does not count
		{sliding, 0, 3 * time.Second, 1, false, true},
		{sliding, 0, 10 * time.Second, 1, false, false},
		{sliding, 0, 11 * time.Second, 1, false, true},
	} {
		r := replays[step.limit]
		if r == nil {
			r = NewReplay(step.limit, 2)
			replays[step.limit] = r
		}
		if got := r.Admits(step.key, step.at, step.n, step.charged); got != step.want {
			t.Errorf("step %d: %+v: %v", i, step, got)
		}
	}
}

// TestFates: the worst key is the one of the largest part, and the first of several.
func TestFates(t *testing.T) {
	all, keys, worst := Fates{{}, {10, 1}, {4, 2}, {2, 1}, {5, 0}}.Sum()
	if all != (Fate{21, 4}) || keys != 3 || worst != 2 {
		t.Errorf("%+v, %d keys, worst %d", all, keys, worst)
	}
	if p := (Fate{}).Part(); p != 0 {
		t.Errorf("of nothing %v was denied", p)
	}
}
