package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// goText is the recommended policy as it is pasted into a program: the fields
// that are not defaults.
func (c *candidate) goText() string {
	defaults := lease.Policy{}.Resolved()
	p := c.Policy
	var fields []string
	add := func(differs bool, name, format string, args ...any) {
		if differs {
			fields = append(fields, name+": "+fmt.Sprintf(format, args...))
		}
	}
	modes := map[lease.Mode]string{
		lease.Batches: "lease.Batches", lease.Shares: "lease.Shares",
		lease.PerRequest: "lease.PerRequest",
	}
	add(p.Mode != defaults.Mode, "Mode", "%s", modes[p.Mode])
	add(p.Fairness != defaults.Fairness, "Fairness", "lease.MaxMin")
	add(p.Batch != defaults.Batch, "Batch", "%d", p.Batch)
	add(p.MinRefresh != defaults.MinRefresh, "MinRefresh", "%s", goDuration(p.MinRefresh))
	add(p.MaxRefresh != defaults.MaxRefresh, "MaxRefresh", "%s", goDuration(p.MaxRefresh))
	usual := lease.Policy{MinRefresh: p.MinRefresh, MaxRefresh: p.MaxRefresh}.Resolved()
	add(p.MaxHold != usual.MaxHold, "MaxHold", "%s", goDuration(p.MaxHold))
	add(p.Headroom != defaults.Headroom, "Headroom", "%v", p.Headroom)
	add(p.BurstShare != defaults.BurstShare, "BurstShare", "%v", p.BurstShare)
	add(p.Smallest != defaults.Smallest, "Smallest", "%d", p.Smallest)
	add(p.Reserve != defaults.Reserve, "Reserve", "%v", p.Reserve)
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
