//go:build linux

package load

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/seed13b07268/ration/hybrid/service/internal/servicetest"
	"github.com/seed13b07268/ration/remote/redistest"
)

// A replica is a service that reserves tokens of users, who have 10 a year: no window ends while
// the test runs, but at New Year's Eve.
type replica struct {
	*process
	*servicetest.Visitor
}

const yearly = `domain: shop
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 10, kind: quota}}
`

// replicas are two processes on a Redis and a data folder, in which the rules are in force.
func replicas(t *testing.T, more ...string) (first, second *replica) {
	t.Helper()
	args := append([]string{"-data", t.TempDir(), "-timeout", "20s", // a busy machine stands still
		"-redis", "redis://" + redistest.Start(t).Addr}, more...)
	a := start(t, args...)
	b := start(t, args...)
	first = &replica{a, a.visit()}
	second = &replica{b, first.At("http://" + b.HTTP + "/")}
	must(t, first.Visitor, "PUT", "v1/domains/shop?reason=test", yearly,
		"If-None-Match", "*", "Content-Type", "application/yaml")
	for _, r := range []*replica{first, second} {
		await(t, "the rules are in force", func() bool {
			a, err := r.API(t.Context(), "GET", "v1/explain?domain=shop&descriptor=user=x", "")
			return err == nil && a.Status == http.StatusOK
		})
	}
	return first, second
}

// of is the body of a request for tokens of a user.
func of(user string, hits int, more string) string {
	return fmt.Sprintf(`{"domain": "shop", "descriptors": [
		{"entries": [{"key": "user", "value": %q}], "hits": %d}]%s}`, user, hits, more)
}

// left takes tokens of a user one by one, until there are as many as are wanted, or none for long.
func (r *replica) left(user string, want int) (n int) {
	r.t.Helper()
	for dry := 0; dry < 100 && n <= want; {
		var answer struct{ Allowed bool }
		text := must(r.t, r.Visitor, "POST", "v1/take", of(user, 1, "")).Text
		if err := json.Unmarshal([]byte(text), &answer); err != nil {
			r.t.Fatal(err)
		}
		if dry++; answer.Allowed {
			n, dry = n+1, 0
		}
	}
	return n
}

// TestSettledWhileItEnds: after SIGTERM a service hears of reservations until its last request has
// ended: what another replica settles meanwhile comes back.
func TestSettledWhileItEnds(t *testing.T) {
	first, second := replicas(t, "-drain", "5s")
	must(t, first.Visitor, "POST", "v1/reserve", of("ann", 6, `, "reservation_id": "a"`))
	if err := first.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	await(t, "the first one is not ready", func() bool {
		a, err := first.Get(t.Context(), "readyz")
		return err == nil && a.Status == http.StatusServiceUnavailable
	})
	must(t, second.Visitor, "POST", "v1/reservations/a/settle", `{"used": [2]}`)
	<-first.Ended
	if n := second.left("ann", 8); n != 8 {
		t.Errorf("%d of 10 tokens were left after a job of 2", n)
	}
}

// TestReplicaKilled: a replica is killed, and the other one ends its reservations. What it has
// reserved counts as at least its estimate; of reservations of others nothing is lost.
func TestReplicaKilled(t *testing.T) {
	first, second := replicas(t)
	reserve := func(r *replica, user, more string) {
		t.Helper()
		must(t, r.Visitor, "POST", "v1/reserve",
			of(user, 6, fmt.Sprintf(`, "reservation_id": %q%s`, user, more)))
	}
	settle := func(r *replica, user string, used int) {
		t.Helper()
		must(t, r.Visitor, "POST", "v1/reservations/"+user+"/settle", fmt.Sprintf(`{"used": [%d]}`, used))
	}
	reserve(first, "more", "")
	reserve(first, "less", "")
	reserve(first, "nobody", `, "ttl": 1, "unsettled": "returned"`)
	reserve(second, "other", "")
	settle(first, "other", 2)
	first.Kill()
	settle(second, "more", 8)
	settle(second, "less", 2)
	settle(second, "other", 2) // a repeat
	for user, want := range map[string]int{"more": 2, "less": 4, "nobody": 4, "other": 8} {
		if n := second.left(user, want); n != want {
			t.Errorf("%s: %d of 10 tokens are left, not %d", user, n, want)
		}
	}
}

// TestReplicaKilledInTheMiddle: while a replica is killed, each of many users reserves tokens at
// one replica and settles at the other, job by job, and repeats at the survivor what has no answer.
// Jobs and what is left are never more than the limit, and less by the single job that was under
// way.
func TestReplicaKilledInTheMiddle(t *testing.T) {
	first, second := replicas(t)
	var done atomic.Int32
	var all sync.WaitGroup
	var jobs [16]int // by user
	for i := range jobs {
		all.Go(func() {
			for j := range 10 {
				here, there := first, second
				if (i+j)%2 == 1 {
					here, there = second, first
				}
				if !job(t, here, there, second, i, j) {
					continue
				}
				jobs[i]++
				if done.Add(1) == 40 {
					first.Kill()
				}
			}
		})
	}
	all.Wait()
	for i, n := range jobs {
		if n += second.left(fmt.Sprint("user", i), 10-n); n != 10 && n != 9 {
			t.Errorf("user %d: %d tokens of 10, of which jobs have used %d", i, n, jobs[i])
		}
	}
}

// job reserves a token for a user's job at one replica and settles it at another, or at the
// survivor. It reports whether there was one.
func job(t *testing.T, here, there, survivor *replica, user, n int) bool {
	id := fmt.Sprintf("user%d-job%d", user, n)
	order := of(fmt.Sprint("user", user), 1, fmt.Sprintf(`, "reservation_id": %q`, id))
	if !strings.Contains(try(t, "v1/reserve", order, here, survivor), `"allowed":true`) {
		return false
	}
	try(t, "v1/reservations/"+id+"/settle", `{"used": [1]}`, there, survivor)
	return true
}

// try sends a request to one replica after the other until one answers.
func try(t *testing.T, path, body string, replicas ...*replica) string {
	for _, r := range replicas {
		if a, err := r.API(t.Context(), "POST", path, body); err == nil {
			if a.Status/100 != 2 {
				t.Errorf("%s: %d %s", path, a.Status, a.Text)
			}
			return a.Text
		}
	}
	t.Errorf("%s: no replica answers", path)
	return ""
}
