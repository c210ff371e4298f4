package accesslog_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/sim/accesslog"
)

func TestSpread(t *testing.T) {
	var file strings.Builder
	const seconds, each = 50, 200
	for i := range each { // a pass over all seconds for each client
		for s := range seconds {
			fmt.Fprintf(&file, "c%d - - [02/Mar/2024:08:00:%02d +0000] \"-\" 200 -\n", i, s)
		}
	}
	spread := func(seed uint64) *accesslog.Log {
		return read(t, file.String(), accesslog.Options{Seed: seed})
	}
	log := spread(1)
	if log.Spread != time.Second || log.Inversions != each-1 {
		t.Fatalf("spread %v, inversions %d", log.Spread, log.Inversions)
	}
	start := time.Date(2024, 3, 2, 8, 0, 0, 0, time.UTC)
	var sum time.Duration
	all := requests(log)
	for i, q := range all {
		if want := start.Add(time.Duration(i/each) * time.Second); !q.At.Truncate(time.Second).Equal(want) || q.Key != fmt.Sprint("c", i%each) {
			t.Fatalf("request %d: %s at %v, want c%d within %v", i, q.Key, q.At, i%each, want)
		}
		if i > 0 && q.At.Before(all[i-1].At) {
			t.Fatalf("request %d: out of order", i)
		}
		sum += q.At.Sub(q.At.Truncate(time.Second))
	}
	// Five standard deviations of the mean of 10,000 uniform offsets: 5*sqrt(1/12)/100 s.
	if mean := sum / (seconds * each); (mean - time.Second/2).Abs() > 15*time.Millisecond {
		t.Errorf("mean offset %v, want half a second", mean)
	}
	if !reflect.DeepEqual(log, spread(1)) {
		t.Error("the same seed gives another log")
	}
	if reflect.DeepEqual(log, spread(2)) {
		t.Error("another seed gives the same log")
	}

	// Whole minutes are spread, unless they are few, or one stamp is finer.
	for _, c := range []struct {
		lines int
		last  string
		want  time.Duration
	}{{11, "08:11:00", time.Minute}, {3, "08:03:00", time.Second}, {11, "08:11:30", time.Second}} {
		text := "time\n"
		for i := range c.lines - 1 {
			text += fmt.Sprintf("2024-03-02T08:%02d:00Z\n", i)
		}
		log := read(t, text+"2024-03-02T"+c.last+"Z\n", accesslog.Options{Seed: 1})
		late := 0
		for _, q := range requests(log) {
			if q.At.Second() > 0 {
				late++
			}
		}
		if log.Spread != c.want || (c.want == time.Minute) != (late > 5) {
			t.Errorf("%d lines until %s: spread %v, %d of them within their minute", c.lines, c.last, log.Spread, late)
		}
	}

	// One finer stamp shows that the clock was: then equal seconds are real.
	fine, err := accesslog.Read(strings.NewReader("time\n1\n1\n1.001\n"), accesslog.Options{})
	if err != nil || fine.Spread > 0 || !requests(fine)[0].At.Equal(requests(fine)[1].At) {
		t.Errorf("got %v, %+v", err, fine)
	}
}
