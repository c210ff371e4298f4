package lua_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote"
)

// FuzzState spoils what Redis keeps of a key in any way, and lets holders go on.
// Each exchange is an error and changes nothing, or a reply that makes sense; and
// whatever is believed, no more is handed out than if the state had been lost:
// one Burst more, once (I6).
func FuzzState(f *testing.F) { fuzzState(f, request("", 1).Limit) }

// FuzzQuotaState does so with a quota, whose window does not end meanwhile.
func FuzzQuotaState(f *testing.F) {
	fuzzState(f, lease.Limit{Kind: lease.KindQuota, Burst: 100, Window: 3650 * lease.Day})
}

// FuzzSlidingState does so with a sliding window, which nothing leaves meanwhile.
func FuzzSlidingState(f *testing.F) {
	fuzzState(f, lease.Limit{Kind: lease.KindSliding, Burst: 100, Window: 3650 * lease.Day})
}

func fuzzState(f *testing.F, limit lease.Limit) {
	c := clockedRedis(f)
	for seed := range uint64(16) {
		f.Add(randomBytes(seed, 60))
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		s := &spoiler{t: t, c: c, limit: limit, store: remote.New(c), history: &history{script: script[:min(len(script), 200)]}, now: time.Duration(1e18)}
		s.begin()
		s.spoil()
		for range 12 {
			s.goOn()
		}
		if s.slots() {
			if s.most > 2*float64(limit.Burst) {
				t.Fatalf("%v slots were lent at a time", s.most)
			}
			return
		}
		times := []time.Duration{s.now} // and when each lease has refilled for the last time
		for _, l := range s.leases {
			times = append(times, max(l.until, s.now))
		}
		slices.Sort(times)
		for _, at := range times {
			for i := range s.leases {
				s.use(i, at)
			}
			allowed := 2*float64(limit.Burst) + limit.Rate*(at-s.spoilt).Seconds() + s.old
			if s.granted > allowed+1e-3 {
				t.Fatalf("%.3f tokens were handed out in %v, %.3f are allowed", s.granted, at-s.spoilt, allowed)
			}
		}
	})
}

// A spoiler drives three holders that use up at once whatever they get.
type spoiler struct {
	t       *testing.T
	c       *redis.Client
	limit   lease.Limit
	store   *remote.Store
	history *history // of which the bytes decide what happens
	now     time.Duration
	spoilt  time.Duration
	leases  [3]refill
	seqs    [3]uint64
	granted float64 // since it was spoilt
	old     float64 // what leases of before refill
	most    float64 // slots, at a time
}

// A refill is what a holder adds by itself.
type refill struct {
	rate         float64
	since, until time.Duration
	expires      time.Duration
	seen         uint64  // the request that was answered with it
	got          float64 // what has come of it, all used up
}

const spoiltKey = "ration:k"

// begin gives two of the three a lease, or lets a lease of theirs end.
func (s *spoiler) begin() {
	s.c.Del(s.t.Context(), spoiltKey)
	for range 2 + s.history.pick(4) {
		s.now += 100 * time.Millisecond
		for i := range 2 {
			if err := s.exchange(i); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	s.now += s.pause()
	for i, l := range s.leases {
		s.use(i, s.now)
		s.old += l.rate * max(l.until-s.now, 0).Seconds()
	}
	s.spoilt, s.granted = s.now, 0
}

func (s *spoiler) pause() time.Duration {
	return choose(s.history, 0, time.Millisecond, 50*time.Millisecond, 200*time.Millisecond, 700*time.Millisecond, 5*time.Second)
}

// spoil changes bytes, or whole fields, takes fields away, and adds new ones.
func (s *spoiler) spoil() {
	h, ctx := s.history, s.t.Context()
	for range 1 + h.pick(6) {
		field := choose(h, "#", "@", "=", name(0), name(1), name(2), "\x00", "&1", "&4")
		if s.slots() && (field == name(1) || field == name(2)) {
			continue // the sum of blocks is what is believed of more than one record
		}
		value := []byte(s.c.HGet(ctx, spoiltKey, field).Val())
		switch h.pick(6) {
		case 0:
			s.c.HDel(ctx, spoiltKey, field)
			continue
		case 1:
			value = s.bytes(h.pick(80))
		case 2: // of another field
			value = []byte(s.c.HGet(ctx, spoiltKey, choose(h, name(0), name(1), "#")).Val())
		default:
			if len(value) > 0 {
				at := h.pick(len(value))
				copy(value[at:], s.bytes(1+h.pick(9)))
			}
		}
		s.c.HSet(ctx, spoiltKey, field, value)
	}
}

func (s *spoiler) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(s.history.pick(256))
	}
	return b
}

// goOn lets time pass, and a holder ask.
func (s *spoiler) goOn() {
	s.now += s.pause()
	i := s.history.pick(len(s.leases))
	before := s.c.HGetAll(s.t.Context(), spoiltKey).Val()
	if err := s.exchange(i); err != nil {
		s.expected(err)
		if after := s.c.HGetAll(s.t.Context(), spoiltKey).Val(); !maps.Equal(after, before) && !strings.Contains(err.Error(), "odd reply") {
			s.t.Fatalf("%v, but %q\nhas become %q", err, before, after)
		}
	}
	if _, err := s.store.Inspect(s.t.Context(), "k"); err != nil {
		s.expected(err)
	}
}

// expected fails the test if an error is of another kind than those of the scripts.
func (s *spoiler) expected(err error) {
	text := err.Error()
	if len(text) > 2000 || !slices.ContainsFunc([]string{"RATION ", "ERR ", "odd reply"}, func(s string) bool { return strings.Contains(text, s) }) {
		s.t.Fatalf("an error that nobody expects: %v", err)
	}
}

func name(i int) string { return fmt.Sprint("h", i) }

// exchange lets holder i come back with nothing and ask for all.
func (s *spoiler) exchange(i int) error {
	s.use(i, s.now)
	if err := setClock(s.t.Context(), s.c, s.now); err != nil {
		s.t.Fatal(err)
	}
	s.seqs[i]++
	call := &lease.Call{Key: "k", Request: request(name(i), s.seqs[i])}
	q := &call.Request
	q.Limit = s.limit
	q.Demand = 80
	q.Take, q.Min = float64(q.Limit.Burst), float64(s.history.pick(2))
	l := s.leases[i]
	q.Seen, q.Got = l.seen, l.got
	if s.now < l.expires {
		q.Claim = lease.Claim{Rate: l.rate, Burst: 1, Left: l.expires - s.now}
	}
	s.store.Exchange(s.t.Context(), []*lease.Call{call})
	if call.Err != nil {
		return call.Err
	}
	r := call.Reply
	s.granted += r.Taken + r.Add
	s.leases[i] = refill{
		rate: r.Rate, since: s.now, until: s.now + r.RateUntil, expires: s.now + r.Expires,
		seen: r.Seq, got: r.Add,
	}
	s.lent()
	return nil
}

func (s *spoiler) slots() bool { return s.limit.Kind == lease.KindSlots }

// lent counts the slots of leases that are live.
func (s *spoiler) lent() {
	n := 0.0
	for _, l := range s.leases {
		if s.now < l.expires {
			n += l.got
		}
	}
	s.most = max(s.most, n)
}

// use adds what holder i has refilled until then.
func (s *spoiler) use(i int, until time.Duration) {
	l := &s.leases[i]
	if end := min(until, l.until); end > l.since {
		came := l.rate * (end - l.since).Seconds()
		s.granted += came
		l.got += came
		l.since = end
	}
}
