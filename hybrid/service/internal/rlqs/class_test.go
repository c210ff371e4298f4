package rlqs_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"

	"github.com/seed13b07268/ration/hybrid/rules"
)

// TestClasses: Envoy's buckets of two classes have one limit, and the class with a floor has it
// while the other one wants three times the limit.
func TestClasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = "{unit: second, requests_per_unit: 200}, " +
			"classes: [{value: critical, floor: 0.6}, {value: batch, weight: 1}]"
		r, critical := alone(t, newBook(limit, limit), "critical")
		defer r.end(t)
		batch := &client{id: &pb.BucketId{Bucket: map[string]string{"user": "batch"}}}
		r.connect(batch, time.Millisecond, 2)
		each, err := r.limiter.Rules().Explain("shop", rules.Of("user", "critical"), rules.Of("user", "batch"))
		if err != nil || each[0].Key != each[1].Key || each[0].Class != "critical" || each[1].Class != "batch" {
			t.Fatalf("%+v, %v", each, err)
		}
		play := func(d time.Duration) (c, b int) {
			var group sync.WaitGroup
			group.Go(func() { c = drive(critical, 1, d) })
			group.Go(func() { b = drive(batch, 6, d) })
			group.Wait()
			return c, b
		}
		play(10 * time.Second) // until their demands are known
		c, b := play(20 * time.Second)
		t.Logf("in 20 s: %d critical requests of 2000, %d of batch, by 200/s", c, b)
		if c < 1600 || b < 1000 || c+b > 20*200+400 {
			t.Errorf("in 20 s: %d critical requests of 2000, %d of batch, by 200/s", c, b)
		}
	})
}
