package scenario_test

import (
	"testing"

	"github.com/seed13b07268/ration/sim/scenario"
	"github.com/seed13b07268/ration/sim/simtest"
)

// In a Policy a zero means the default. A 0 that somebody has written does not,
// and no field has it in its range: it is refused by name.
func TestPolicyZeroIsNoDefault(t *testing.T) {
	for field, defaults := range map[string]string{
		"batch": "100", "min_refresh": "20ms", "max_refresh": "250ms", "max_hold": "30s", "headroom": "0.1",
		"burst_share": "0.5", "smallest": "4", "reserve": "0.05",
	} {
		zero := "0"
		if field == "min_refresh" || field == "max_refresh" || field == "max_hold" {
			zero = "0s"
		}
		want := "policy: " + field + " 0 is not in its range; leave it out for its default, " + defaults
		_, err := scenario.Parse([]byte("policy: {"+field+": "+zero+"}"), nil)
		wantError(t, field, err, want)
		s, err := scenario.Parse([]byte("policy: {"+field+": null}"), nil)
		simtest.OK(t, err)
		wantError(t, field, s.Set("policy."+field, zero), want)
		wantError(t, field, s.Set("policy", "{"+field+": "+zero+"}"), want)
		if err := s.Resolve(); err != nil {
			t.Error(err)
		}
	}
}
