package live

import (
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

// TestNearTheLimit: a rule of one bucket that admits 90 % of its limit or more needs a look, over 5
// minutes, or over its hour; one with a bucket for each value does not, nor a slower one.
func TestNearTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := hybrid.NewMemory()
		r := newReplica(t, store, nil, "domain: d\ndescriptors:\n"+
			"- {key: path, value: /fast, rate_limit: {unit: second, requests_per_unit: 1}}\n"+
			"- {key: path, value: /slow, rate_limit: {unit: second, requests_per_unit: 2}}\n"+
			"- {key: path, value: /hour, rate_limit: {unit: hour, requests_per_unit: 100}}\n"+
			"- {key: path, value: /half, rate_limit: {unit: hour, requests_per_unit: 200}}\n"+
			"- {key: path, value: /w*, rate_limit: {unit: hour, requests_per_unit: 95}}\n"+
			"- {key: path, rate_limit: {unit: hour, requests_per_unit: 95}}\n")
		time.Sleep(4 * time.Second)
		takes(t, r.limiter, 95, rules.Of("path", "/hour"))
		takes(t, r.limiter, 95, rules.Of("path", "/half"))
		takes(t, r.limiter, 94, rules.Of("path", "/wide"))
		takes(t, r.limiter, 94, rules.Of("path", "/other"))
		for range 290 {
			takes(t, r.limiter, 1, rules.Of("path", "/fast"))
			takes(t, r.limiter, 1, rules.Of("path", "/slow"))
			time.Sleep(time.Second)
		}
		synctest.Wait()
		const text = "Near the limit: path=/fast (99 %), path=/hour (95 %)."
		if looks := sentences(r.Glance("d")); !slices.Equal(looks, []string{text}) {
			t.Errorf("%q", looks)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if looks := sentences(r.Glance("d")); len(looks) > 0 {
			t.Errorf("an hour later: %q", looks)
		}
	})
}

// TestUseIsNotKnown: of slots, of limits for some keys, and in the first minute.
func TestUseIsNotKnown(t *testing.T) {
	h := &history{domains: map[string]*domain{}}
	for name, r := range map[string]rules.Rule{
		"slots":   {Path: "a=b", Percent: 100, Limit: hybrid.Slots(3)},
		"none":    {Path: "a=b", Percent: 100, Limit: hybrid.Unlimited},
		"some":    {Path: "a=b", Percent: 50, Limit: hybrid.Per(3, time.Second)},
		"at once": {Path: "a=b", Percent: 100, Limit: hybrid.Per(3, time.Second)},
	} {
		if used := h.used(r, &series{}); !math.IsNaN(used) {
			t.Errorf("%s: %v", name, used)
		}
	}
}
