package hybrid

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"go.uber.org/zap"
)

// Publisher is a Store that keeps what processes tell of themselves: remote.Store and
// Memory do. Its methods must return in bounded time.
type Publisher interface {
	// Publish keeps text under id for a life of 3 s to 3 min, in place of what was there.
	Publish(ctx context.Context, id string, text []byte, life time.Duration) error
	// Published calls each for all that is kept, in any order. age is how long ago it was
	// published.
	Published(ctx context.Context, each func(id string, age time.Duration, text []byte)) error
}

// Published is what a Limiter told of itself.
type Published struct {
	ID    string        `json:"-"` // random, of each Limiter
	Age   time.Duration `json:"-"` // how long ago
	Name  string        // Config.PublishName
	Stats Stats         // without MostDenied
}

// Fleet returns what the Limiters whose [Config.Publish] is set have told the store lately, by Name
// and ID. It blocks for one round trip, for as long as the store's client takes: with
// remote.Options also beyond ctx. What cannot be read is left out, and an error names it.
func Fleet(ctx context.Context, store Publisher) ([]Published, error) {
	var all []Published
	var odd []error
	err := store.Published(ctx, func(id string, age time.Duration, text []byte) {
		p := Published{ID: id, Age: age}
		if err := json.Unmarshal(text, &p); err != nil {
			odd = append(odd, fmt.Errorf("hybrid: fleet: what %.100q published: %w", id, err))
			return
		}
		all = append(all, p)
	})
	if err != nil {
		odd = append(odd, fmt.Errorf("hybrid: fleet: %w", err))
	}
	slices.SortFunc(all, func(a, b Published) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	return all, errors.Join(odd...)
}

// publish tells the store the Stats, at once and until the Limiter is closed. Nobody waits
// for it, and what was told last ends by itself.
func (l *Limiter) publish(store Publisher) {
	every := l.config.Publish
	next := rand.N(every) // processes that start together do not go on together
	timer := time.NewTimer(0)
	defer timer.Stop()
	failed := false
	for {
		select {
		case <-timer.C:
		case <-l.driver.done:
			return
		}
		timer.Reset(next)
		next = every
		if l.driver.dispatch.Away() {
			continue
		}
		err := l.publishOnce(store)
		if err != nil && !failed {
			l.driver.warn("Stats are not published", zap.Error(err))
		}
		failed = err != nil
	}
}

func (l *Limiter) publishOnce(store Publisher) error {
	if !l.driver.enter() {
		return nil
	}
	text, err := json.Marshal(Published{Name: l.config.PublishName, Stats: l.Stats()})
	l.driver.leave()
	if err != nil {
		return fmt.Errorf("hybrid: publish: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.config.Timeout)
	defer cancel()
	if p := l.guard(func() { err = store.Publish(ctx, l.id, text, 3*l.config.Publish) }); p != nil {
		return p
	}
	return err
}
