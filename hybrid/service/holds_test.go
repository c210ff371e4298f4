package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/seed13b07268/ration/hybrid/service/internal/envoy/kuadrantv1"
	"github.com/seed13b07268/ration/remote/redistest"
)

// order is the body of a request for tokens of a user of the shop.
func order(user string, hits int, more string) string {
	return fmt.Sprintf(`{"domain": "shop", "descriptors": [
		{"entries": [{"key": "user", "value": "%s"}], "hits": %d}]%s}`, user, hits, more)
}

// left takes tokens of a user, one by one, until there are none at any of the replicas for a while.
// It is an error if that are not so many.
func left(user string, want int, all ...*whole) error {
	n := 0
	take := func() bool {
		for _, w := range all {
			if w.allowed("v1/take", order(user, 1, "")) {
				n++
			}
		}
		return n >= want
	}
	held(take)
	for range 20 {
		take()
	}
	if n != want {
		return fmt.Errorf("%d tokens of %s are left, not %d", n, user, want)
	}
	return nil
}

func (w *whole) allowed(path, body string) bool {
	w.Helper()
	var answer struct{ Allowed bool }
	text := w.api(http.StatusOK, "POST", path, body).Text
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		w.Fatal(err)
	}
	return answer.Allowed
}

// reserve is an error if the tokens are not there.
func (w *whole) reserve(body string) (answer string, err error) {
	w.Helper()
	answer = w.api(http.StatusOK, "POST", "v1/reserve", body).Text
	if strings.Contains(answer, `"reservation_id":null`) {
		err = fmt.Errorf("denied: %s", answer)
	}
	return answer, err
}

// replicas are two of a shop, on a Redis and a data folder.
func replicas(t *testing.T) (first, second *whole) {
	t.Helper()
	args := []string{"-data", t.TempDir(), "-redis", "redis://" + redistest.Start(t).Addr}
	first = shop(t, args...)
	second = startWhole(t, args...)
	second.visitor = first.visitor.At(second.http)
	second.soon("its rules are in force", func() bool { return second.limit() == "10/hour" })
	return first, second
}

// TestReplicas: what one replica has reserved another settles, also once the first has ended. What
// a job has not used comes back to all; what it has used above its estimate is charged.
func TestReplicas(t *testing.T) {
	first, second := replicas(t)
	if _, err := first.reserve(order("ann", 6, `, "reservation_id": "a"`)); err != nil {
		t.Fatal(err)
	}
	second.api(http.StatusNoContent, "POST", "v1/reservations/a/settle", `{"used": [2]}`)
	first.api(http.StatusNoContent, "POST", "v1/reservations/a/settle", `{"used": [2]}`)
	if err := left("ann", 8, first, second); err != nil {
		t.Fatal(err)
	}

	job := order("bob", 6, `, "reservation_id": "b"`)
	made, err := first.reserve(job)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := second.reserve(job); again != made {
		t.Errorf("one replica answers %s, and the other %s", made, again)
	}
	first.end(t)
	second.api(http.StatusOK, "POST", "v1/reservations/b/extend", `{"ttl": 600}`)
	second.api(http.StatusNoContent, "POST", "v1/reservations/b/settle", `{"used": [8]}`)
	if err := left("bob", 2, second); err != nil {
		t.Fatal(err)
	}
	second.end(t)
}

// TestReplicasOfKuadrant: a gateway reserves at one replica, and commits at another one after the
// first was ended.
func TestReplicasOfKuadrant(t *testing.T) {
	first, second := replicas(t)
	descriptors := []*ratelimit.RateLimitDescriptor{{
		Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "user", Value: "ann"}},
	}}
	made, err := kuadrantv1.NewRateLimitServiceClient(first.dial(t)).Reserve(t.Context(),
		&kuadrantv1.ReserveRequest{Domain: "shop", Descriptors: descriptors, Amount: 6})
	if err != nil || made.GetCode() != pb.RateLimitResponse_OK {
		t.Fatal(made, err)
	}
	first.end(t)
	ended, err := kuadrantv1.NewRateLimitServiceClient(second.dial(t)).Commit(t.Context(),
		&kuadrantv1.CommitRequest{Domain: "shop", Descriptors: descriptors, ActualAmount: 8,
			ReservationId: made.GetReservationId()})
	if err != nil || !ended.GetReservationReleased() {
		t.Fatal(ended, err)
	}
	if err := left("ann", 2, second); err != nil {
		t.Fatal(err)
	}
	second.end(t)
}
