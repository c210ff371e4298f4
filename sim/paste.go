package main

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// goText is the recommended policy as it is pasted into a program: the fields
// that are not defaults.
func (c *candidate) goText() string {
	usual, defaults := lease.Policy{MinRefresh: c.Policy.MinRefresh, MaxRefresh: c.Policy.MaxRefresh}.Resolved(),
		lease.Policy{}.Resolved()
	usual.MinRefresh, usual.MaxRefresh = defaults.MinRefresh, defaults.MaxRefresh
	modes := map[lease.Mode]string{
		lease.Batches: "lease.Batches", lease.Shares: "lease.Shares",
		lease.PerRequest: "lease.PerRequest",
	}
	var fields []string
	own, other := reflect.ValueOf(c.Policy), reflect.ValueOf(usual)
	for i := range own.NumField() {
		x := own.Field(i)
		value := fmt.Sprint(x)
		switch v := x.Interface().(type) {
		case time.Duration:
			value = goDuration(v)
		case lease.Mode:
			value = modes[v]
		case lease.Fairness:
			value = "lease.MaxMin"
		}
		if !x.Equal(other.Field(i)) {
			fields = append(fields, own.Type().Field(i).Name+": "+value)
		}
	}
	text := "Policy: hybrid.Policy{" + strings.Join(fields, ", ") + "},"
	names := map[string]string{"deny": "hybrid.Deny", "allow": "hybrid.Allow"}
	if name := names[c.Outage]; name != "" {
		text += "\nOutage: " + name + ","
	}
	return text
}

func goDuration(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		name string
	}{
		{time.Hour, "time.Hour"}, {time.Minute, "time.Minute"}, {time.Second, "time.Second"},
		{time.Millisecond, "time.Millisecond"}, {time.Microsecond, "time.Microsecond"},
	} {
		if d%u.unit == 0 {
			if d == u.unit {
				return u.name
			}
			return fmt.Sprintf("%d * %s", d/u.unit, u.name)
		}
	}
	return fmt.Sprintf("%d", d)
}

// yamlText is a candidate's policy as it stands in a scenario.
func (c *candidate) yamlText() string {
	var fields []string
	for line := range strings.Lines(c.variant.Scenario.Text()) {
		switch {
		case strings.HasPrefix(line, "policy:"), len(fields) > 0 && strings.HasPrefix(line, " "):
			fields = append(fields, line)
		case len(fields) > 0:
			return strings.Join(fields, "") + "outage: " + c.Outage
		}
	}
	return strings.Join(fields, "") + "outage: " + c.Outage
}
