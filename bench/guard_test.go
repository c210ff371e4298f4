package main

import (
	"strings"
	"testing"
	"time"
)

func TestGuards(t *testing.T) {
	asking := Subject{Name: "asking"}
	leasing := Subject{Name: "leasing", Leases: true}
	windows := Subject{Name: "windows", Bound: windowBound}
	inProcess := Subject{Name: "in process", Local: true}
	tight := Load{Limit: Limit{Rate: 100, Burst: 50}}
	wide := Load{Limit: generous, Generous: true}
	cold := Load{Limit: generous, Generous: true, Pick: Cold}
	for _, c := range []struct {
		name    string
		subject Subject
		load    Load
		trial   Trial
		want    string // part of the reason, or empty
	}{
		{"an honest one", asking, wide, Trial{Decisions: 1000, Admitted: 1000, Calls: 1000}, ""},
		{"a few calls under way", asking, wide, Trial{Decisions: 1000, Admitted: 1000, Calls: 991}, ""},
		{"never asks", asking, wide, Trial{Decisions: 1000, Admitted: 1000}, "never asked"},
		{"seldom asks", asking, wide, Trial{Decisions: 1000, Admitted: 1000, Calls: 500}, "only 500 times"},
		{"errors need no call", asking, tight, Trial{Decisions: 1000, Errors: 990, Admitted: 10, Calls: 10}, ""},
		{"nothing but errors", asking, wide, Trial{Decisions: 1000, Errors: 1000, Calls: 1000}, "no decision"},
		{"leases ask seldom", leasing, wide, Trial{Decisions: 1_000_000, Admitted: 1_000_000, Calls: 3}, ""},
		{"leases ask", leasing, wide, Trial{Decisions: 1_000_000, Admitted: 1_000_000}, "never asked"},
		{"leases nothing of a cold key", leasing, cold, Trial{Decisions: 1000, Admitted: 1000, Calls: 20}, "only 20 times"},
		{"takes Redis for away", leasing, wide, Trial{Decisions: 1000, Admitted: 1000, Calls: 10, Astray: 500}, "without Redis"},
		{"in the process", inProcess, wide, Trial{Decisions: 1000, Admitted: 1000}, ""},
		{"all of the limit", asking, tight, Trial{Decisions: 1000, Admitted: 251, Calls: 1000}, ""},
		{"more than the limit", asking, tight, Trial{Decisions: 1000, Admitted: 252, Calls: 1000}, "its limit is 251 in 2s"},
		{"two windows", windows, tight, Trial{Decisions: 1000, Admitted: 401, Calls: 1000}, ""},
		{"more than windows", windows, tight, Trial{Decisions: 1000, Admitted: 402, Calls: 1000}, "its limit is 401"},
		{"admits everything", leasing, tight, Trial{Decisions: 1000, Admitted: 1000, Calls: 10}, "admitted 1000"},
		{"denies for speed", leasing, wide, Trial{Decisions: 1000, Admitted: 900, Calls: 10}, "denied 100 of 1000"},
	} {
		c.trial.Elapsed, c.trial.Keys = 2*time.Second, 1
		got := refuse(c.subject, c.load, c.trial)
		if got != "" != (c.want != "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: refused with %q, not %q", c.name, got, c.want)
		}
	}
}

// TestOwnBounds holds each subject to what it says of its algorithm, not to a
// looser one.
func TestOwnBounds(t *testing.T) {
	l := Limit{Rate: 100, Burst: 50}
	for _, c := range []struct {
		subject Subject
		want    float64
	}{
		{peers[0], 250}, {ration, 275}, {sethvargo, 400}, {throttledMemory, 250},
	} {
		if got := c.subject.bound(l, 2*time.Second); got != c.want {
			t.Errorf("%s: at most %v in 2 s, not %v", c.subject.Name, got, c.want)
		}
	}
}
