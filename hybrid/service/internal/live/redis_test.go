package live

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest"
)

// eventually waits until something holds, for a minute at most.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// TestRedis: fleet and holders of two processes are those in Redis. While it is away the page says
// so, and shows what was known. Afterwards all is known again.
func TestRedis(t *testing.T) {
	server := redistest.Start(t)
	client := redis.NewClient(remote.Options(server.Addr))
	defer client.Close()
	store := remote.New(client)
	var fleet []*rules.Limiter
	for _, name := range []string{"host-1", "host-2"} {
		l, err := rules.New(store, newBoard(`
domain: d
outage: deny
descriptors: [{key: user, rate_limit: {unit: second, requests_per_unit: 2000}}]
`), rules.Config{Limiter: hybrid.Config{
			SlogLogger: quiet, Process: hybrid.NewProcess(), Publish: time.Second, PublishName: name,
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close(context.Background())
		fleet = append(fleet, l)
	}
	traffic := func() {
		for range 300 {
			for _, l := range fleet {
				_, _ = l.Take(t.Context(), "d", rules.Of("user", "ann"))
			}
		}
	}
	l := New(fleet[0], Remote(store), Config{Log: quiet})
	start := time.Now()
	page := func() string {
		traffic()
		l.sample(time.Since(start))
		l.readFleet(t.Context())
		tick := l.history.tick
		l.inspect(t.Context(), tick)
		_, text := get(t, l, "/live/d")
		return text
	}
	page()
	eventually(t, "rates of two processes and an index of a key", func() bool {
		text := page()
		v := l.fleet.view(time.Now(), l.stats.Domains[0].Limiter.Namespace, "", nil)
		k, ok := l.fairness.of("d", "user=ann")
		return v.Processes == 2 && v.Unknown == 0 && v.Exchanges > 0 && v.Members[1].P99 > 0 && ok &&
			k.refills == 2 && k.jain > 0 && k.jain <= 1 && strings.Contains(text, "host-2")
	})
	eventually(t, "two holders that refill", func() bool {
		traffic()
		_, text := get(t, l, "/live/d/key?descriptor=user%3Dann")
		return strings.Contains(text, "over 2 that refill") && strings.Contains(text, "2000/s")
	})

	server.Kill()
	eventually(t, "a store that is away", func() bool {
		text := page()
		return strings.Contains(text, `class="live-bad">away`) && strings.Contains(text, "host-2") &&
			l.fairness.domains["d"].err && l.fleet.failing
	})
	_, text := get(t, l, "/live/d/key?descriptor=user%3Dbob")
	if !strings.Contains(text, "The store does not answer now") {
		t.Errorf("holders: %s", text)
	}

	server.Restart()
	eventually(t, "a store that is there again", func() bool {
		text := page()
		return strings.Contains(text, `class="live-good">answers`) && !l.fleet.failing &&
			!l.fairness.domains["d"].err && len(l.fairness.domains["d"].keys) > 0
	})
}

// TestSumsOnRedis: each of three services on one Redis shows what all three have counted, to the
// last request, by rule and in all, and each process shows its own.
func TestSumsOnRedis(t *testing.T) {
	server := redistest.Start(t)
	client := redis.NewClient(remote.Options(server.Addr))
	defer client.Close()
	store, counters := remote.New(client), remote.New(client, remote.WithPrefix("ration:page:"))
	var fleet []replica
	for range 3 {
		limiter := newLimiter(t, store, newBoard(twoRules), hybrid.NewProcess(), "")
		l := New(limiter, Remote(store), Config{Log: quiet, Counters: counters})
		run(t, l)
		fleet = append(fleet, replica{Live: l, limiter: limiter})
	}
	eventually(t, "each has heard the others", func() bool {
		heard := 0
		for _, r := range fleet {
			r.mu.Lock()
			heard += len(r.sums.peers)
			r.mu.Unlock()
		}
		return heard == 6
	})
	for i, r := range fleet {
		for range 40 * (i + 1) {
			for _, d := range []rules.Descriptor{rules.Of("path", "x"), rules.Of("user", "ann")} {
				if _, err := r.limiter.Take(t.Context(), "d", d); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	want := map[string][2]uint64{} // admitted and denied
	for _, r := range fleet {
		for _, rule := range r.limiter.Stats().Domains[0].Rules {
			sum := want[rule.Path]
			want[rule.Path] = [2]uint64{sum[0] + rule.Admitted, sum[1] + rule.Denied}
		}
	}
	if u, p := want["user"], want["path"]; u[0]+u[1] != 240 || p[0]+p[1] != 240 || u[1] == 0 {
		t.Fatalf("counted: %v", want)
	}
	for _, r := range fleet {
		eventually(t, "its sums are those of all", func() bool {
			for path, sum := range want {
				if row := rowOf(t, r.Live, "d", path, recent); row.AdmittedSum != sum[0] ||
					row.DeniedSum != sum[1] {
					return false
				}
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			h, own := &r.history, fleet[2].limiter.Stats().Domains[0].Limiter.ID
			total := h.sum(&h.domain("d").total, recent, ofAll...)
			return total == 480 && (r.limiter == fleet[2].limiter ||
				h.sum(&h.domain(processKey(own)).total, recent, ofAll...) == 240)
		})
	}
}
