package scenario_test

import (
	"testing"

	"github.com/seed13b07268/ration/sim/scenario"
	"github.com/seed13b07268/ration/sim/simtest"
)

// Classes without a share have equal ones, and what is written is read again.
func TestClasses(t *testing.T) {
	s, err := scenario.Parse([]byte("name: a"), nil)
	simtest.OK(t, err)
	simtest.OK(t, s.Set("classes", "[{name: a, floor: 0.5}, {name: b, weight: 2}, {name: c}]"))
	simtest.OK(t, s.Resolve())
	again := s.Clone()
	if err := again.Resolve(); err != nil || again.Text() != s.Text() {
		t.Errorf("%v: read again as\n%s", err, again.Text())
	}
	if c := again.LeaseClasses(); len(c) != 3 || c[0].Floor != 0.5 || c[1].Weight != 2 || c[2].Name != "c" {
		t.Errorf("classes %v", c)
	}
	for _, c := range again.Classes {
		if c.Share < 0.33 || c.Share > 0.34 {
			t.Errorf("%s has %v of the requests", c.Name, c.Share)
		}
	}
}
