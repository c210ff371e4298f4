package scenarios_test

import (
	"strings"
	"testing"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/sim/scenario"
	"github.com/seed13b07268/ration/sim/scenarios"
	"github.com/seed13b07268/ration/sim/simtest"
)

// Every scenario of the library has the name of its file, says in a sentence
// what it is about, and resolves.
func TestLibrary(t *testing.T) {
	names := scenarios.Names()
	if len(names) < 20 {
		t.Errorf("only %d scenarios", len(names))
	}
	for _, name := range names {
		s, err := scenarios.Open(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if s.Name != name || !strings.HasSuffix(s.About, ".") {
			t.Errorf("%s: name %q, about %q", name, s.Name, s.About)
		}
		if err := s.Resolve(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if all := s.Replay() != nil; all != (s.Warmup == 0) { // all of a log counts
			t.Errorf("%s: warm-up %v", name, s.Warmup)
		}
	}
}

// The library has what the simulator is asked about.
func TestLibraryIsComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range scenarios.Names() {
		s, err := scenarios.Open(name)
		simtest.OK(t, err)
		simtest.OK(t, s.Resolve())
		seen["balance "+s.Balance.By] = true
		seen["arrivals "+s.Load.Arrivals] = true
		for _, f := range s.Faults {
			seen["fault "+f.Kind] = true
		}
		for feature, has := range map[string]bool{
			"diurnal": s.Load.Diurnal != nil, "flash": s.Load.Flash != nil, "clients": s.Load.Clients != nil, "retry": s.Load.Retry != nil,
			"costs": s.Load.Costs != nil, "log": s.Replay() != nil, "on/off": s.Balance.OnOff != nil, "moves": s.Balance.Moves > 0,
			"measured": s.Redis.Trips() != nil, "lost": s.Redis.Lost > 0, "repeated": s.Redis.Repeated > 0,
			"p99": s.Redis.P99 > 0, "keys": s.Keys.Number > 1,
			"quota": s.Limit.Kind == lease.KindQuota, "sliding": s.Limit.Kind == lease.KindSliding,
			"slots":    s.Limit.Kind == lease.KindSlots,
			"patience": s.Load.Patience > 0,
			"several":  s.Keys.Each != nil, "classes": s.Classes != nil,
		} {
			seen[feature] = seen[feature] || has
		}
	}
	for _, want := range strings.Split("balance random,balance round-robin,balance least-outstanding,balance sticky,balance own,arrivals poisson,arrivals gamma,"+
		"fault crash,fault leave,fault join,fault deploy,fault outage,fault partition,fault flush,fault limit,"+
		"diurnal,flash,clients,retry,costs,log,on/off,moves,measured,lost,repeated,p99,"+
		"keys,quota,sliding,slots,patience,several,classes", ",") {
		if !seen[want] {
			t.Errorf("no scenario has: %s", want)
		}
	}
}

// Files beside the library are found in it, and nothing else is a scenario.
func TestOpen(t *testing.T) {
	for _, name := range []string{"", "none", "../scenarios/steady", "steady.yaml", "trips.txt", "/etc/passwd", "."} {
		if _, err := scenarios.Open(name); err == nil {
			t.Errorf("%q is a scenario", name)
		}
		if _, err := scenarios.Text(name); err == nil {
			t.Errorf("%q has a text", name)
		}
	}
	text, err := scenarios.Text("log")
	simtest.OK(t, err)
	s, err := scenario.Parse([]byte(text), scenario.Folder(t.TempDir()))
	simtest.OK(t, err)
	if err := s.Resolve(); err == nil {
		t.Error("a log was found in an empty folder")
	}
}
