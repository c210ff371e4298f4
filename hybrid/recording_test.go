package hybrid_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
	"weak"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// A tape is a Writer that keeps what it is given. harm comes first.
type tape struct {
	mu    sync.Mutex
	text  bytes.Buffer
	sizes []int
	harm  func() error
}

func (w *tape) Write(text []byte) (int, error) {
	if w.harm != nil {
		if err := w.harm(); err != nil {
			return 0, err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sizes = append(w.sizes, len(text))
	return w.text.Write(text)
}

// A recorded is a line of a record.
type recorded struct {
	Time    time.Time
	Key     string
	N, Cost int64
	Verdict string
}

func (w *tape) lines(t *testing.T) (all []recorded) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for line := range strings.Lines(w.text.String()) {
		var r recorded
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, r)
	}
	return all
}

// text is a line without its time.
func (r recorded) String() string {
	return fmt.Sprintf("%s %d %d %s", r.Key, r.N, r.Cost, r.Verdict)
}

// TestRecordingOfVerbs: each verb writes what it decides, and no more.
func TestRecordingOfVerbs(t *testing.T) {
	const blocked, kind = "blocked", "slots"
	for name, c := range map[string]struct {
		play func(l *hybrid.Limiter)
		want []string
	}{
		"allow": {func(l *hybrid.Limiter) {
			l.AllowN("k", 3)
			l.Key("k").AllowN(2)
			l.AllowN("k", 6)
			l.AllowN("k", 11) // above the burst
			l.AllowN("k", 0)
			l.AllowN("k", -1)
		}, []string{"k 3 3 admitted", "k 2 2 admitted", "k 6 6 denied", "k 11 11 denied"}},
		"take": {func(l *hybrid.Limiter) {
			_, _ = l.Take(ctx, "k", 4)
			_, _ = l.Key("k").Take(ctx, 7)
			_, _ = l.Take(ctx, "", 1)
			_, _ = l.Peek(ctx, "k")
			ended, cancel := context.WithCancel(ctx)
			cancel()
			_, _ = l.Take(ended, "k", 1)
			_, _, _ = l.TakeUpTo(ctx, "k", 8)
		}, []string{"k 4 4 admitted", "k 7 7 denied", "k 8 8 denied", "k 6 6 admitted"}},
		"try": {func(l *hybrid.Limiter) {
			for _, err := l.Try("k", 1); errors.Is(err, hybrid.ErrPending); _, err = l.Try("k", 1) {
				time.Sleep(10 * time.Millisecond)
			}
		}, []string{"k 1 1 admitted"}},
		"wait": {func(l *hybrid.Limiter) {
			_ = l.Wait(ctx, "k", 10)
			_ = l.Wait(ctx, "k", 1) // a second later
			soon, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_ = l.Wait(soon, "k", 5) // too late
			gone, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second/4, cancel)
			_ = l.Wait(gone, "k", 1)
			_ = l.Wait(ctx, blocked, 1)
		}, []string{"k 10 10 admitted", "k 1 1 admitted", "k 5 5 denied", "blocked 1 1 denied"}},
		"several": {func(l *hybrid.Limiter) {
			l.AllowAll("a", "b")
			_, _ = l.TakeAll(ctx, hybrid.Ask{Key: "a", N: 8}, hybrid.Ask{Key: "b", N: 0})
			_, _ = l.TakeAll(ctx, hybrid.Ask{Key: "a", N: 8}, hybrid.Ask{Key: "b", N: 1}) // a denies
			_, _ = l.TakeAll(ctx, hybrid.Ask{Key: "a", N: 1}, hybrid.Ask{Key: "b", N: 11})
			_ = l.WaitAll(ctx, hybrid.Ask{Key: "b", N: 1}, hybrid.Ask{Key: "b", N: 2})
		}, []string{"a 1 1 admitted", "b 1 1 admitted", "a 8 8 admitted", "a 8 8 denied",
			"b 11 11 denied", "b 3 3 admitted"}},
		"reserve": {func(l *hybrid.Limiter) {
			r, _ := l.Reserve(ctx, "k", 8)
			_, _ = l.Reserve(ctx, "k", 7)
			_ = r.Settle(2)
			_ = r.Settle(2)
			r, _ = l.WaitReserve(ctx, "k", 3)
			_ = r.Settle(5)
			r, _ = l.Reserve(ctx, "k", 1)
			_ = r.Cancel()
			_ = l.Charge("k", 9)
			_ = l.Charge("k", 0)
			_, _ = l.Refund("k", 1)
		}, []string{"k 7 7 denied", "k 8 2 admitted", "k 3 5 admitted", "k 0 9 charged"}},
		"slots": {func(l *hybrid.Limiter) {
			slot, _ := l.Acquire(ctx, kind, 1)
			_ = slot.Release()
			l.Allow(kind)
			_ = l.Charge(kind, 1)
			both := []hybrid.Ask{{Key: kind, N: 1}, {Key: "k", N: 2}}
			r, _ := l.ReserveAll(ctx, both...)
			_, _ = l.ReserveAll(ctx, both...)
			_ = r.Settle(1)
		}, []string{"k 2 1 admitted"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var w tape
				l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{
					Record: hybrid.Recording{To: &w, Name: true},
					LimitFor: func(key string) hybrid.Limit {
						switch key {
						case blocked:
							return hybrid.Blocked
						case kind:
							return hybrid.Slots(1)
						}
						return hybrid.PerSecond(1).WithBurst(10)
					},
				})
				c.play(l)
				time.Sleep(time.Second)
				var got []string
				for _, line := range w.lines(t) {
					got = append(got, line.String())
				}
				slices.Sort(got) // of several keys, the order is any
				slices.Sort(c.want)
				if fmt.Sprint(got) != fmt.Sprint(c.want) {
					t.Errorf("written: %q, want %q", got, c.want)
				}
			})
		})
	}
}

// TestRecordingOfPockets: where pockets decide, as many decisions are written as Stats count, with
// the time of each.
func TestRecordingOfPockets(t *testing.T) {
	longform.None(t)
	synctest.Test(t, func(t *testing.T) {
		var w tape
		l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{
			Limit: hybrid.PerSecond(50_000), Record: hybrid.Recording{To: &w},
		})
		k, begun := l.Key("k"), time.Now()
		const each = 10 * time.Microsecond
		for range 100_000 {
			k.Allow()
			time.Sleep(each)
		}
		s := l.Stats()
		if err := l.Close(ctx); err != nil {
			t.Fatal(err)
		}
		counts := map[string]uint64{}
		lines := w.lines(t)
		for i, line := range lines {
			counts[line.Verdict]++
			if at := begun.Add(time.Duration(i) * each); !line.Time.Equal(at) || line.Key != lines[0].Key {
				t.Fatalf("line %d is of %v, key %s; want %v", i, line.Time, line.Key, at)
			}
		}
		admitted := s.Lease.Admitted + s.Ledger.Admitted
		denied := s.Lease.Denied + s.Ledger.Denied
		if counts["admitted"] != admitted || counts["denied"] != denied || admitted+denied != 100_000 ||
			s.LostRecords != 0 || denied == 0 {
			t.Errorf("written: %v; Stats: %+v", counts, s)
		}
	})
}

// TestRecordingSamplesKeys: a Part of the keys is recorded, by their names, all of each; two
// processes choose the same.
func TestRecordingSamplesKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen [2]map[string]int
		for i := range seen {
			var w tape
			l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{
				Limit: hybrid.PerSecond(5), Record: hybrid.Recording{To: &w, Part: 0.1, Name: i == 0},
			})
			for range 3 {
				for key := range 2000 {
					l.Allow(fmt.Sprintf("tenant:%d", key))
				}
			}
			if err := l.Close(ctx); err != nil {
				t.Fatal(err)
			}
			seen[i] = map[string]int{}
			for _, line := range w.lines(t) {
				seen[i][line.Key]++
			}
		}
		if n := len(seen[0]); n < 160 || n > 240 || n != len(seen[1]) {
			t.Errorf("%d keys of 2000 are recorded, %d by hashes; want a tenth", n, len(seen[1]))
		}
		for i := range seen {
			for key, n := range seen[i] {
				if n != 3 || strings.HasPrefix(key, "tenant:") != (i == 0) {
					t.Fatalf("key %s has %d lines", key, n)
				}
			}
		}
	})
}

// TestHarmfulWriter: whatever the Writer of a record does, requests are decided at once, what is
// not written is counted, and Close returns in its time.
func TestHarmfulWriter(t *testing.T) {
	const requests = 40_000
	for name, c := range map[string]struct {
		harm func(end chan struct{}) error
		most uint64 // lost
	}{
		"panics":             {func(chan struct{}) error { panic("writer") }, requests},
		"ends its goroutine": {func(chan struct{}) error { runtime.Goexit(); return nil }, requests},
		"fails":              {func(chan struct{}) error { return errors.New("disk full") }, requests},
		"hangs":              {func(end chan struct{}) error { <-end; return nil }, requests},
		"takes half a second": {
			func(chan struct{}) error { time.Sleep(time.Second / 2); return nil }, requests - 3<<13,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var warned atomic.Int64
				end := make(chan struct{})
				w := &tape{harm: func() error { return c.harm(end) }}
				l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{
					Limit: hybrid.Unlimited, Record: hybrid.Recording{To: w},
					SlogLogger: slog.New(teller{slog.DiscardHandler, func(slog.Record) { warned.Add(1) }}),
				})
				begun := time.Now()
				for range 4 {
					for range requests / 4 {
						l.Allow("k")
					}
					time.Sleep(time.Millisecond)
				}
				if took := time.Since(begun); took > 4*time.Millisecond {
					t.Errorf("requests took %v", took)
				}
				soon, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				if err := l.Close(soon); (err != nil) != (name == "hangs") {
					t.Errorf("Close: %v", err)
				}
				s := l.Stats()
				written := uint64(len(w.lines(t)))
				if written+s.LostRecords != requests || s.LostRecords == 0 || s.LostRecords > c.most ||
					(s.Panics > 0) != (name == "panics") || warned.Load() > 1 || (warned.Load() > 0) != (name == "fails") {
					t.Errorf("%d written, %d lines logged, Stats: %+v", written, warned.Load(), s)
				}
				close(end)
				time.Sleep(time.Minute)
				if again := uint64(len(w.lines(t))); name != "hangs" && again != written {
					t.Errorf("%d lines are written after Close", again-written)
				}
				if again := l.Stats().LostRecords; again != s.LostRecords {
					t.Errorf("%d decisions are lost, and after the last Write %d", s.LostRecords, again)
				}
			})
		})
	}
}

// TestRecordingOfKeysBeyondUTF8: keys that JSON cannot name are told apart.
func TestRecordingOfKeysBeyondUTF8(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w tape
		l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{
			Limit: hybrid.PerSecond(5), Record: hybrid.Recording{To: &w, Name: true},
		})
		for _, key := range []string{"\xff", "\xfe", "a\xff", "\ufffd", "é"} {
			l.Allow(key)
		}
		if err := l.Close(ctx); err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, line := range w.lines(t) {
			seen[line.Key] = true
		}
		if len(seen) != 5 || !seen["\ufffd"] || !seen["é"] {
			t.Errorf("five keys are recorded as %v", seen)
		}
	})
}

// TestRecordingForgetsKeys: a key whose line has been written is not kept in memory.
func TestRecordingForgetsKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{
			Limit: hybrid.PerSecond(1), Record: hybrid.Recording{To: io.Discard},
		})
		key := strings.Repeat("k", 100)
		kept := weak.Make(unsafe.StringData(key))
		hybrid.Note(l, key)
		time.Sleep(time.Second)
		runtime.GC()
		if kept.Value() != nil {
			t.Error("the key is kept")
		}
	})
}

// TestRecordingWritesWholeLines: a Write has whole lines and no more than 64 KiB, unless a line is
// longer; what comes after one that failed begins a line of its own.
func TestRecordingWritesWholeLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := true
		w := &tape{}
		l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{
			Limit: hybrid.PerSecond(1e6),
			Record: hybrid.Recording{Name: true, To: writer(func(text []byte) (int, error) {
				if fail {
					fail = false
					n, _ := w.Write(text[:len(text)-5])
					return n, errors.New("disk full")
				}
				if text[len(text)-1] != '\n' {
					t.Errorf("a Write ends with %q", text[len(text)-5:])
				}
				return w.Write(text)
			})},
		})
		l.Allow("torn")
		time.Sleep(time.Second)
		l.Allow(strings.Repeat("\x01\"", 50_000))
		for range 5000 {
			l.Allow("k")
		}
		if err := l.Close(ctx); err != nil {
			t.Fatal(err)
		}
		long := 0
		for _, size := range w.sizes {
			if size > 1<<16 {
				long++
			}
		}
		lines := strings.Split(w.text.String(), "\n")
		if len(lines) != 1+5001+1 || long != 1 || !strings.Contains(lines[0], "torn") ||
			!json.Valid([]byte(lines[1])) {
			t.Errorf("%d lines, writes of %v", len(lines), w.sizes)
		}
	})
}

// A writer is a function that writes.
type writer func([]byte) (int, error)

func (w writer) Write(text []byte) (int, error) { return w(text) }
