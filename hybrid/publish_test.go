package hybrid_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/seed13b07268/ration/hybrid"
)

// TestFleet: what each Limiter tells is there while it lives and three intervals longer.
func TestFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := hybrid.NewMemory()
		config := hybrid.Config{Limit: hybrid.PerSecond(10), Publish: 5 * time.Second}
		var limiters []*hybrid.Limiter
		for _, name := range []string{"b", "a", ""} {
			config.PublishName = name
			if name == "" {
				config.Publish = 0
			}
			limiters = append(limiters, newLimiter(t, store, config))
		}
		for range 15 {
			limiters[1].Allow("secret")
		}
		time.Sleep(12 * time.Second)
		fleet, err := hybrid.Fleet(t.Context(), store)
		if err != nil || len(fleet) != 2 || fleet[0].Name != "a" || fleet[1].Name != "b" ||
			fleet[0].ID == fleet[1].ID || fleet[0].ID != limiters[1].Stats().ID {
			t.Fatalf("%+v, %v", fleet, err)
		}
		s := fleet[0].Stats
		if s.Lease.Admitted+s.Ledger.Admitted != 10 || fleet[0].Age > 5*time.Second ||
			len(s.MostDenied) > 0 {
			t.Errorf("%+v", fleet[0])
		}
		limiters[1].Close(ctx)
		time.Sleep(9 * time.Second) // less than two intervals after it told something last
		if fleet, err := hybrid.Fleet(t.Context(), store); err != nil || len(fleet) != 2 {
			t.Errorf("%+v, %v", fleet, err)
		}
		time.Sleep(7 * time.Second)
		if fleet, err := hybrid.Fleet(t.Context(), store); err != nil || len(fleet) != 1 ||
			fleet[0].Name != "b" {
			t.Errorf("%+v, %v", fleet, err)
		}
	})
}

// A secretive store publishes nothing, or something odd.
type secretive struct {
	hybrid.Store
	err error
}

func (s *secretive) Publish(context.Context, string, []byte, time.Duration) error { return s.err }

func (s *secretive) Published(_ context.Context, each func(string, time.Duration, []byte)) error {
	each("odd", 0, []byte("{"))
	each("good", time.Second, []byte(`{"Name":"x","Later":1,"Stats":{"Keys":3}}`))
	return s.err
}

// TestFleetOdd: what cannot be read hides nothing else.
func TestFleetOdd(t *testing.T) {
	store := &secretive{err: errors.New("down")}
	fleet, err := hybrid.Fleet(t.Context(), store)
	if len(fleet) != 1 || fleet[0].ID != "good" || fleet[0].Stats.Keys != 3 ||
		fleet[0].Age != time.Second {
		t.Errorf("%+v", fleet)
	}
	for _, want := range []string{`what "odd" published`, "down"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// TestPublishLogs: one line when it begins to fail.
func TestPublishLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.WarnLevel)
		store := &secretive{Store: hybrid.NewMemory(), err: errors.New("not today")}
		newLimiter(t, store,
			hybrid.Config{Limit: hybrid.PerSecond(10), Publish: time.Second, Logger: zap.New(core)})
		time.Sleep(time.Minute)
		if n := logs.FilterMessage("Stats are not published").Len(); n != 1 {
			t.Errorf("%d lines: %v", n, logs.All())
		}
	})
}

// TestPublishRefused: a setting that cannot work is an error of New.
func TestPublishRefused(t *testing.T) {
	for want, c := range map[string]hybrid.Config{
		"Config.Publish 1ms is not":    {Publish: time.Millisecond},
		"Config.Publish 1h0m0s is not": {Publish: time.Hour},
		"Config.PublishName \"xx": {
			Publish: time.Second, PublishName: strings.Repeat("x", 257),
		},
		"is no Publisher": {Publish: time.Second},
	} {
		c.Limit = hybrid.PerSecond(1)
		if _, err := hybrid.New(newFickle(0), c); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}
