package holds_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/hybrid/holds"
	"github.com/seed13b07268/ration/hybrid/holds/redisholds"
	"github.com/seed13b07268/ration/remote/redistest"
)

// TestManyEnds: a batch ends a bounded number of holds, so that no script takes long, and those
// that it names. All have ended after some batches.
func TestManyEnds(t *testing.T) {
	const all, most = 250, 100
	server := miniredis.RunT(t)
	now := time.UnixMilli(1_800_000_000_000)
	server.SetTime(now)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	store := redisholds.New(client, "ration:")
	do := func(calls ...holds.Call) holds.Reply {
		r, err := store.Do(t.Context(), holds.Batch{Home: "home", Calls: calls})
		must(t, err)
		return r
	}
	for i := range all {
		do(holds.Call{
			Verb: holds.Reserve, Name: fmt.Sprintf("%03d", i), Life: time.Second, Until: now.Add(time.Minute),
			Estimate: []int{7},
		})
	}
	server.SetTime(now.Add(time.Second))
	late := do(holds.Call{Verb: holds.Settle, Name: "249", Used: []int{1}})
	if len(late.Notices) != most+1 || late.Answers[0].Verdict != holds.Over {
		t.Errorf("%d have ended, and the last one is %q", len(late.Notices), late.Answers[0].Verdict)
	}
	for _, want := range []int{2*most + 1, all, all} {
		if n := len(do().Notices); n != want {
			t.Errorf("%d have ended, not %d", n, want)
		}
	}
}

// TestSize prints how much of Redis a hold of the service takes, of which one descriptor is asked
// for: while it is open, and until Kept after its end.
func TestSize(t *testing.T) {
	const all = 2000
	client := redistest.Start(t).Client()
	store := redisholds.New(client, "ration:")
	used := func() (n int) {
		text, err := client.Info(t.Context(), "memory").Result()
		must(t, err)
		_, text, _ = strings.Cut(text, "used_memory:")
		_, err = fmt.Sscan(text, &n)
		must(t, err)
		return n
	}
	var told []string // notices
	do := func(c holds.Call) time.Time {
		r, err := store.Do(t.Context(), holds.Batch{
			Home: "EUOHSZ4RJAXHVNXDF2GVGSJXSE", Acks: told, Calls: []holds.Call{c},
		})
		must(t, err)
		told = nil
		for _, n := range r.Notices {
			told = append(told, n.ID())
		}
		return r.Now
	}
	name := func(i int) string { return fmt.Sprintf("3:ann:JT6LLK7UEKZMNPBQR2EU%06d", i) }
	now := do(holds.Call{Verb: holds.Look, Name: "none"})
	before := used()
	for i := range all {
		do(holds.Call{
			Verb: holds.Reserve, Name: name(i),
			Life: time.Minute, Until: now.Add(time.Hour), Estimate: []int{700}, Spent: true,
			Content: strings.Repeat("x", 190), Token: fmt.Sprint("EUOHSZ4RJAXHVNXDF2GVGSJXSE", i),
			Answer: strings.Repeat("x", 300),
		})
	}
	open := (used() - before) / all
	for i := range all {
		do(holds.Call{Verb: holds.Settle, Name: name(i), Used: []int{1200}})
	}
	do(holds.Call{Verb: holds.Look, Name: "none"})
	ended := (used() - before) / all
	key, err := client.MemoryUsage(t.Context(), "ration:{holds}:h:"+name(0)).Result()
	must(t, err)
	t.Logf("bytes of Redis for each hold: %d while it is open, %d after its end (MEMORY USAGE: %d)",
		open, ended, key)
	if open > 1100 || ended > 250 {
		t.Errorf("%d and %d bytes are more than 1100 and 250", open, ended)
	}
}

// TestKeysOfRedis: a hold that was extended is kept for as long; one that Redis has evicted is in
// nobody's way; and no key stays for ever.
func TestKeysOfRedis(t *testing.T) {
	server := miniredis.RunT(t)
	now := time.UnixMilli(1_800_000_000_000)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	store := redisholds.New(client, "ration:")
	do := func(d time.Duration, calls ...holds.Call) holds.Reply {
		now = now.Add(d)
		server.SetTime(now)
		server.FastForward(d)
		r, err := store.Do(t.Context(), holds.Batch{Home: "home", Calls: calls})
		must(t, err)
		return r
	}
	reserve := func(name string) holds.Call {
		return holds.Call{
			Verb: holds.Reserve, Name: name, Life: time.Second, Until: now.Add(time.Minute), Estimate: []int{7},
		}
	}
	do(0, reserve("long"), reserve("evicted"))
	for _, key := range server.Keys() {
		if server.TTL(key) <= 0 {
			t.Errorf("%s stays for ever", key)
		}
	}
	do(0, holds.Call{Verb: holds.Extend, Name: "long", Life: time.Hour})
	server.Del("ration:{holds}:h:evicted")
	r := do(30*time.Minute, holds.Call{Verb: holds.Settle, Name: "long", Used: []int{7}})
	if r.Answers[0].Verdict != holds.Done || len(r.Notices) != 1 {
		t.Errorf("settled after half an hour: %+v", r)
	}
}
