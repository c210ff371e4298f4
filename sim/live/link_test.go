package live

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/sim/workload"
)

// slow answers after a while and counts how often it is asked.
type slow struct {
	takes time.Duration
	asked []time.Duration // since start
	start time.Time
}

func (s *slow) Exchange(_ context.Context, calls []*lease.Call) {
	time.Sleep(s.takes / 2)
	s.asked = append(s.asked, time.Since(s.start))
	time.Sleep(s.takes / 2)
	for _, c := range calls {
		c.Reply.Seq = c.Request.Seq
	}
}

func TestLink(t *testing.T) {
	const ms = time.Millisecond
	trip := func(n time.Duration) workload.RoundTrip { return workload.RoundTrip{Latency: n * ms} }
	for _, c := range []struct {
		name   string
		redis  network
		takes  time.Duration
		silent []interval
		crash  time.Duration

		lasts []time.Duration // of exchanges one after the other
		asked []time.Duration // when the store was, by the first
		fails bool
	}{
		{name: "as_drawn", redis: network{RoundTrip: trip(10)}, lasts: []time.Duration{10 * ms}, asked: []time.Duration{5 * ms}},
		{name: "real_one_is_longer", redis: network{RoundTrip: trip(10)}, takes: 30 * ms,
			lasts: []time.Duration{35 * ms, 30 * ms, 30 * ms}, asked: []time.Duration{20 * ms}}, // the first one does not know yet
		{name: "real_one_is_part_of_it", redis: network{RoundTrip: trip(10)}, takes: 4 * ms,
			lasts: []time.Duration{10 * ms, 10 * ms}, asked: []time.Duration{7 * ms}},
		{name: "lost", redis: network{RoundTrip: trip(10), Lost: 1}, lasts: []time.Duration{50 * ms}, fails: true},
		{name: "lost_but_repeated", redis: network{RoundTrip: trip(10), Lost: 1, Repeated: 1}, lasts: []time.Duration{20 * ms}, asked: []time.Duration{15 * ms}},
		{name: "repeated", redis: network{RoundTrip: trip(10), Repeated: 1}, lasts: []time.Duration{10 * ms}, asked: []time.Duration{5 * ms, 15 * ms}},
		{name: "too_long", redis: network{RoundTrip: trip(80)}, lasts: []time.Duration{50 * ms}, asked: []time.Duration{40 * ms}, fails: true},
		{name: "silent", redis: network{RoundTrip: trip(10)}, silent: []interval{{0, 6 * ms}}, lasts: []time.Duration{50 * ms}, fails: true},
		{name: "silent_on_the_way_back", redis: network{RoundTrip: trip(10)}, silent: []interval{{8 * ms, 12 * ms}}, lasts: []time.Duration{50 * ms}, asked: []time.Duration{5 * ms}, fails: true},
		{name: "silent_before", redis: network{RoundTrip: trip(10)}, silent: []interval{{0, 2 * ms}}, lasts: []time.Duration{10 * ms}, asked: []time.Duration{5 * ms}},
		{name: "crash", redis: network{RoundTrip: trip(10)}, crash: 3 * ms, lasts: []time.Duration{3 * ms}, fails: true},
		{name: "as_in_a_list", redis: network{RoundTrip: workload.RoundTrip{Trips: []time.Duration{7 * ms}}}, lasts: []time.Duration{7 * ms}, asked: []time.Duration{3500 * time.Microsecond}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				store := &slow{takes: c.takes, start: start}
				s := &setting{Timeout: 50 * ms, Duration: time.Hour, Redis: c.redis}
				l := newLink(store, s, &life{Number: 1, Silent: c.silent}, start)
				if c.crash > 0 {
					time.AfterFunc(c.crash, l.crash)
				}
				for i, want := range c.lasts {
					ctx, cancel := context.WithTimeout(t.Context(), s.Timeout)
					call := &lease.Call{Key: "k", Request: lease.Request{Seq: 7}}
					sent := time.Now()
					l.Exchange(ctx, []*lease.Call{call})
					cancel()
					if took := time.Since(sent); took != want {
						t.Errorf("exchange %d took %v, want %v", i, took, want)
					}
					if failed := call.Err != nil; failed != c.fails || !failed && call.Reply.Seq != 7 {
						t.Errorf("exchange %d: %+v, error %v", i, call.Reply, call.Err)
					}
					synctest.Wait()
				}
				time.Sleep(s.Timeout) // for copies under way
				synctest.Wait()
				for i, want := range c.asked {
					if i >= len(store.asked) || store.asked[i] != want {
						t.Fatalf("the store was asked at %v, want %v", store.asked, c.asked)
					}
				}
				if len(c.asked) == 0 && len(store.asked) > 0 {
					t.Errorf("the store was asked at %v", store.asked)
				}
				traffic := l.drain()
				if traffic.Calls != int64(len(c.lasts)) || (traffic.Failed > 0) != c.fails {
					t.Errorf("traffic %+v", traffic)
				}
				natural := c.name == "too_long" || !c.fails // what the scenario has lost tells nothing of trips
				if natural != (len(traffic.Trips) > 0) {
					t.Errorf("trips %v", traffic.Trips)
				}
			})
		})
	}
}

// Once a link is closed, nothing reaches the store: keys stay deleted.
func TestClosedLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slow{start: time.Now()}
		l := newLink(store, &setting{Timeout: time.Second, Duration: time.Hour}, &life{Number: 1}, time.Now())
		l.close()
		call := &lease.Call{}
		l.Exchange(t.Context(), []*lease.Call{call})
		if !errors.Is(call.Err, errSilent) || len(store.asked) > 0 {
			t.Errorf("error %v, asked at %v", call.Err, store.asked)
		}
	})
}

func TestUnion(t *testing.T) {
	list := union([]interval{{5, 7}, {1, 2}, {6, 9}, {2, 3}, {20, 21}})
	for now, want := range map[time.Duration]bool{0: false, 1: true, 2: true, 3: false, 5: true, 8: true, 9: false, 20: true, 21: false} {
		if during(list, now) != want {
			t.Errorf("%v in %v: %v", now, list, !want)
		}
	}
}
