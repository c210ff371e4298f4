package whatif

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// A memory is a Store, which may be away.
type memory struct {
	mu    sync.Mutex
	texts map[string][]byte
	ends  map[string]time.Time
	away  bool
}

func newMemory() *memory {
	return &memory{texts: map[string][]byte{}, ends: map[string]time.Time{}}
}

func (m *memory) PublishAll(_ context.Context, texts map[string][]byte, life time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return errors.New("away")
	}
	for id, text := range texts {
		if len(text) > 4096 {
			return fmt.Errorf("%s has %d bytes", id, len(text))
		}
		m.texts[id], m.ends[id] = slices.Clone(text), time.Now().Add(life)
	}
	return nil
}

func (m *memory) Published(
	_ context.Context, each func(id string, age time.Duration, text []byte),
) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return errors.New("away")
	}
	for id, text := range m.texts {
		if time.Now().Before(m.ends[id]) {
			each(id, 0, text)
		}
	}
	return nil
}

// services are Records that ask each other, until the context ends.
func services(ctx context.Context, t *testing.T, n int) (all []*Record, questions, answers *memory) {
	t.Helper()
	questions, answers = newMemory(), newMemory()
	for range n {
		r := newRecord(t, 8<<20)
		r.Share(questions, answers, slog.New(slog.DiscardHandler))
		go r.Run(ctx)
		all = append(all, r)
	}
	time.Sleep(2 * readEvery) // they know each other
	return all, questions, answers
}

// TestServices: the requests of a key that several services have decided are played as one, in the
// order of time.
func TestServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		all, _, _ := services(ctx, t, 3)
		for i := range 3000 {
			write(t, all[i%3], line(fmt.Sprintf("user=%d", i%4), "admitted", 1))
			time.Sleep(100 * time.Millisecond)
		}
		began := time.Now()
		a := ask(t, all[1], "user", hybrid.PerMinute(75))
		if took := time.Since(began); took > 1500*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		// Each key asks for 150 a minute, for five minutes: half of that fits, and the burst.
		if a.Requests != 3000 || a.Keys != 4 || a.Services != 3 || a.Missing != 0 ||
			a.Would < 1500-4*76 || a.Would > 1500-4*74 {
			t.Errorf("%+v", a)
		}
		if alone := ask(t, all[0], "user=crawler", hybrid.PerMinute(1)); alone.Requests != 0 ||
			alone.Services != 3 {
			t.Errorf("%+v", alone)
		}
	})
}

// TestYoung: what is played begins with the record of the youngest service, as nobody knows what those
// before it have decided.
func TestYoung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		all, questions, answers := services(ctx, t, 1)
		write(t, all[0], line("user=ann", "admitted", 1))
		time.Sleep(10 * time.Minute)
		young := newRecord(t, 1<<20)
		young.Share(questions, answers, slog.New(slog.DiscardHandler))
		go young.Run(ctx)
		time.Sleep(2 * readEvery)
		write(t, all[0], line("user=ann", "admitted", 1))
		write(t, young, line("user=bob", "admitted", 1))
		for _, r := range []*Record{all[0], young} {
			if a := ask(t, r, "user", hybrid.Blocked); a.Requests != 2 || !a.From.Equal(young.began) {
				t.Errorf("%+v, of a service that began at %v", a, young.began)
			}
		}
	})
}

// TestSilent: a service that has ended is missed while it is believed to be there, and a store that
// is away keeps nobody from the record of its own service.
func TestSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		all, questions, answers := services(ctx, t, 2)
		gone := newRecord(t, 1<<20)
		gone.Share(questions, answers, slog.New(slog.DiscardHandler))
		if err := gone.board.read(ctx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * readEvery)
		write(t, all[0], line("user=ann", "admitted", 1))
		write(t, all[1], line("user=ann", "admitted", 1))
		if a := ask(t, all[0], "user", hybrid.Blocked); a.Missing != 1 || a.Requests != 2 || a.All() != 3 {
			t.Errorf("%+v", a)
		}
		time.Sleep(life)
		if a := ask(t, all[0], "user", hybrid.Blocked); a.Missing != 0 || a.Requests != 2 {
			t.Errorf("later: %+v", a)
		}
		for _, m := range []*memory{questions, answers} {
			m.mu.Lock()
			m.away = true
			m.mu.Unlock()
			if a := ask(t, all[0], "user", hybrid.Blocked); a.Missing != 1 || a.Requests != 1 {
				t.Errorf("away: %+v", a)
			}
		}
		if _, missing := all[0].board.ask(ctx, "shop", strings.Repeat("x", 5000)); missing != 1 {
			t.Errorf("a long path: %d are missing", missing)
		}
	})
}

// TestFits: an answer of another service that does not fit has fewer keys, and so has what is played
// then; one with a single key is of a shorter time. No text is longer than a Store takes.
func TestFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		all, _, answers := services(ctx, t, 2)
		sent := map[string]int64{}
		random := rand.New(rand.NewPCG(3, 4))
		for i := range 30_000 {
			name := fmt.Sprintf("user=%040d", random.IntN(5000))
			sent[name]++
			write(t, all[i%2], line(name, "admitted", 1)+line("path=/search", "denied", 2))
			time.Sleep(100 * time.Millisecond)
		}
		a := ask(t, all[0], "user", hybrid.Blocked)
		if a.OneOf < 2 || a.Keys < 500 || a.Missing != 0 {
			t.Errorf("%+v", a)
		}
		whole := int64(0) // of the keys that are left
		for name, n := range sent {
			if hash(name) <= allKeys/uint64(a.OneOf) {
				whole += n
			}
		}
		if a.Requests != whole {
			t.Errorf("%d of %d requests of the keys that are left", a.Requests, whole)
		}
		one := all[1].part("shop", "path=/search")
		short, ok := decode(one.fit(10_000))
		if !ok || !short.from.After(one.from) || len(short.chunks) == 0 {
			t.Errorf("%v, from %v, of %v", ok, short.from, one.from)
		}
		if nothing, ok := decode(one.fit(30)); !ok || len(nothing.chunks) > 0 {
			t.Errorf("%v %+v", ok, nothing)
		}
		if n := len(answers.texts); n < 10 || n > 2*mostPieces {
			t.Errorf("%d pieces", n)
		}
	})
}

// TestOdd: texts that no service has written are passed over.
func TestOdd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		all, questions, answers := services(ctx, t, 2)
		write(t, all[0], line("user=ann", "admitted", 1))
		odd := map[string][]byte{
			"x": []byte("no JSON"), "y": []byte(`{"ID":"` + strings.Repeat("z", 4000) + `","Path":"user"}`),
			all[1].board.id + "/x": []byte("x x\n"), all[1].board.id + "/7": []byte("x 9999999\n"), "": nil,
		}
		if err := errors.Join(questions.PublishAll(ctx, odd, life), answers.PublishAll(ctx, odd, life)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * readEvery)
		if a := ask(t, all[0], "user", hybrid.Blocked); a.Requests != 1 {
			t.Errorf("%+v", a)
		}
	})
	random := rand.New(rand.NewPCG(5, 6))
	r := newRecord(t, 1<<20)
	for i := range 100 {
		write(t, r, line(fmt.Sprint("user=", i), "denied", 1+i))
	}
	if _, ok := decode(part{}.encode()); ok {
		t.Error("a part of no key is read")
	}
	whole := r.part("shop", "user").encode()
	for range 20_000 {
		text := slices.Clone(whole[:random.IntN(len(whole)+1)])
		for range random.IntN(4) {
			if len(text) > 0 {
				text[random.IntN(len(text))] = byte(random.Uint32())
			}
		}
		if p, ok := decode(text); ok {
			if _, err := play(t.Context(), []part{p}, hybrid.PerSecond(1)); err != nil {
				t.Fatal(err)
			}
		}
	}
}
