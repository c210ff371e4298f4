package hybrid_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/seed13b07268/ration/hybrid"
)

// A tardy store takes its time to say that it has not published.
type tardy struct {
	*hybrid.Memory
}

func (tardy) Publish(context.Context, string, []byte, time.Duration) error {
	time.Sleep(5 * time.Second)
	return errors.New("tardy")
}

// TestNothingAfterClose: a Close that does not wait for what hangs any longer is the end of
// the log and of the Stats, whatever returns or becomes overdue afterwards.
func TestNothingAfterClose(t *testing.T) {
	limit := hybrid.PerSecond(100)
	memory := func() hybrid.Store { return hybrid.NewMemory() }
	slowly := func() hybrid.Store { return tardy{hybrid.NewMemory()} }
	hung := func() hybrid.Store {
		s := &stuck{Store: hybrid.NewMemory()}
		s.frozen.Store(true)
		return s
	}
	begun := time.Time{}
	for name, c := range map[string]struct {
		store  func() hybrid.Store
		config hybrid.Config
	}{
		"store":   {hung, hybrid.Config{Limit: limit}},
		"publish": {slowly, hybrid.Config{Limit: limit, Publish: time.Second}},
		"limit": {memory, hybrid.Config{LimitFor: func(string) hybrid.Limit {
			if time.Since(begun) > 100*time.Millisecond {
				time.Sleep(5 * time.Second)
				panic("LimitFor")
			}
			return limit
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun = time.Now()
				core, log := observer.New(zap.InfoLevel)
				c.config.Logger = zap.New(core)
				l := newLimiter(t, c.store(), c.config)
				for range 4 { // in time for two failures, and no third one
					go l.Allow("a")
					go l.Allow("b")
					time.Sleep(100 * time.Millisecond)
				}
				soon, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
				defer cancel()
				if err := l.Close(soon); name != "limit" &&
					!errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("nothing hangs: %v", err)
				}
				before := l.Stats()
				time.Sleep(time.Minute)
				after := l.Stats()
				if log.Len() > 0 {
					t.Errorf("log: %v", log.All())
				}
				if after.Exchanges != before.Exchanges || after.Away != before.Away {
					t.Errorf("%+v\nhas become\n%+v", before, after)
				}
			})
		})
	}
}

// TestCloseWaitsForTheLog: a line that is being written is written when Close returns, unless its
// context ends before.
func TestCloseWaitsForTheLog(t *testing.T) {
	for _, patience := range []time.Duration{time.Second / 2, 10 * time.Second} {
		closeWaits(t, patience)
	}
}

func closeWaits(t *testing.T, patience time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		store := &stuck{Store: hybrid.NewMemory()}
		store.frozen.Store(true)
		var begun, written atomic.Bool
		core, _ := observer.New(zap.InfoLevel)
		slowly := zap.Hooks(func(zapcore.Entry) error {
			begun.Store(true)
			time.Sleep(time.Second)
			written.Store(true)
			return nil
		})
		l := newLimiter(t, store, hybrid.Config{
			Limit: hybrid.PerSecond(100), Logger: zap.New(core, slowly),
		})
		for !begun.Load() {
			go l.Allow("k")
			time.Sleep(100 * time.Millisecond)
		}
		soon, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		err := l.Close(soon)
		if enough := patience > time.Second; written.Load() != enough || (err == nil) != enough {
			t.Errorf("a line of 1 s, and %v for Close: written is %v, %v",
				patience, written.Load(), err)
		}
		time.Sleep(10 * time.Second) // until the store's client gives up
	})
}
