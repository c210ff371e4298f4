//go:build linux || darwin

package chaos

import (
	"syscall"
	"testing"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
)

// TestFrozen: a process that was stopped for longer than a lease spends nothing
// of it when it goes on. It is cut off, so that it gets no other one.
func TestFrozen(t *testing.T) {
	needsTheMachine(t)
	t.Parallel()
	w := &world{}
	w.alone(t)
	w.connect(t, 1, 1)
	ctx := t.Context()
	policy := lease.Policy{MaxRefresh: 200 * time.Millisecond, MaxHold: 200 * time.Millisecond}
	const life = 850 * time.Millisecond // 4.25 MaxRefresh
	h := &history{
		// It has tokens left whenever it is stopped: it asks for a tenth of the rate.
		keys: []key{{
			Name: "k", Limit: lease.Limit{Rate: 1000, Burst: 1000}, Offered: 100, Most: 1, Clump: 1,
		}},
		policy: policy, timeout: timeout,
	}
	f := launch(orders{
		Topology: single, Servers: w.told, Keys: h.keys, Policy: policy, Outage: hybrid.Deny,
		Timeout: timeout,
	}, h, w.routes)
	defer f.stop()
	last := func() decision { // the last that was admitted
		h.mu.Lock()
		defer h.mu.Unlock()
		d := decision{}
		for _, x := range h.lives[0].decisions {
			if x.verdict == admitted {
				d = x
			}
		}
		return d
	}
	process := f.running[0].cmd.Process
	for range 3 {
		begun := clock()
		must(t, eventually(ctx, "it lives on a lease",
			func() bool { return last().before > begun+200*time.Millisecond }))
		w.links[0].cut.Store(true)
		must(t, process.Signal(syscall.SIGSTOP))
		time.Sleep(life) // of another process, which the machine measures
		thawed := clock()
		must(t, process.Signal(syscall.SIGCONT))
		must(t, eventually(ctx, "it asks again", func() bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			n := len(h.lives[0].decisions)
			return n > 0 && h.lives[0].decisions[n-1].before > thawed+100*time.Millisecond
		}))
		if d := last(); d.before > thawed {
			t.Fatalf("admitted %v after it was stopped for %v", d.before-thawed, life)
		}
		w.links[0].cut.Store(false)
	}
}
