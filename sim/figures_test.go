package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/measure"
	"github.com/seed13b07268/ration/sim/scenario"
	"github.com/seed13b07268/ration/sim/simtest"
)

const tenants = " -keys 12 -limit 60/s -duration 3s -warmup 1s -replications 3"

// Each command says how many requests and tokens were admitted and denied, what Redis has to
// do, how long decisions take, and, where there are several, how keys fared.
func TestFiguresOfKeys(t *testing.T) {
	simtest.Long(t)
	want := []string{"admitted", "denied", "utilisation", "worst process", "p99"}
	keys := []string{"over keys", "worst key"}
	run := []string{"by an ideal limit", "Redis calls / s", "Redis CPU", "p50", "p999"}
	for line, more := range map[string][]string{
		"run":                      append(run, "The keys that got least", "\n  key-"),
		"compare":                  append(run, "A: the keys that got", "B: the keys that got"),
		"sweep -over batch=10,100": {"calls/s"},
	} {
		prints(t, line+tenants, slices.Concat(more, want, keys)...)
		alone := must(t, line+" -keys 1 -duration 1s -warmup 300ms -replications 3")
		simtest.Lacks(t, line, alone, append(keys, "got least")...)
	}
}

// The figures say the same as what was counted.
func TestFiguresAddUp(t *testing.T) {
	v := decode(t, must(t, "run -json -set load.costs=[1,3]"+tenants)).Variants[0]
	sum := map[string]float64{}
	for _, r := range v.Results {
		sum["admitted"] += float64(r.Admitted) / 3
		sum["denied"] += float64(r.Denied) / 3
		sum["tokens_admitted"] += r.TokensAdmitted / 3
		sum["tokens_denied"] += r.TokensDenied / 3
		sum["calls_per_second"] += float64(r.Calls) / 2 / 3 // two seconds are measured
		sum["redis_cpu"] += float64(r.Calls) / 2 * 31e-6 / 3
		admitted, ideal := 0.0, 0.0
		for _, k := range r.Keys.List {
			admitted, ideal = admitted+k.Admitted, ideal+k.Ideal
		}
		if len(r.Keys.List) != 12 || admitted != r.TokensAdmitted || ideal != r.TokensIdeal {
			t.Errorf("%d keys got %v of %v tokens, should have got %v of %v",
				len(r.Keys.List), admitted, r.TokensAdmitted, ideal, r.TokensIdeal)
		}
		// What is still waiting, or came before measuring began, is in one of the sums only.
		if part := (r.TokensAdmitted + r.TokensDenied) / r.TokensOffered; part < 0.99 || part > 1.01 {
			t.Errorf("%v tokens admitted, %v denied, %v offered", r.TokensAdmitted, r.TokensDenied,
				r.TokensOffered)
		}
	}
	for name, want := range sum {
		if got := v.Summary[name].Mean; got < want*(1-1e-9) || got > want*(1+1e-9) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// The pages have the same, and histograms.
func TestPageOfKeys(t *testing.T) {
	simtest.Long(t)
	const keys, latencies = `<section id="keys">`, `<section id="latencies">`
	simtest.Has(t, "page", page(t, "run"+tenants), "requests admitted", "requests denied", "Redis calls / s",
		"Redis CPU", "worst key", keys, latencies, "<b>at once</b>", "<b>within 1 ms</b>",
		"Keys that got least", "<td>key-")
	alone := page(t, "run"+short)
	simtest.Has(t, "a single key", alone, latencies)
	simtest.Lacks(t, "a single key", alone, keys)
	// What a comparison is about stands before its charts.
	text := page(t, "compare"+tenants)
	at := strings.Index(text, "<h2>Differences")
	if at < 0 || at > strings.Index(text, `<section id="timeline"`) {
		t.Error("the differences come late")
	}
}

// The worst of all runs are listed, each key once.
func TestWorstKeys(t *testing.T) {
	of := func(list ...measure.KeyShare) *engine.Result {
		return &engine.Result{Keys: measure.Keys{Asked: 3, List: list}}
	}
	share := func(key int, admitted float64) measure.KeyShare {
		name := fmt.Sprint("k", key)
		return measure.KeyShare{Key: key, Name: name, Offered: 200, Admitted: admitted, Ideal: 100}
	}
	results := []*engine.Result{
		of(share(1, 70), share(2, 90), share(3, 95)), of(share(2, 60), share(1, 80), share(3, 99))}
	var got []string
	for _, row := range worstKeys(results, 2).Rows {
		got = append(got, row[0]+" "+row[2]+" "+row[4])
	}
	if want := []string{"k2 60 60.00 %", "k1 70 70.00 %"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// How far a log is read is told from its bytes.
func TestReadingText(t *testing.T) {
	log := writeLog(t, 0, 1, 2)
	c, err := scenario.Parse([]byte("load: {trace: {file: "+log+"}}"), nil)
	simtest.OK(t, err)
	if text := readingText(c, time.Second); text != "reading: 0 MB" {
		t.Errorf("before: %s", text)
	}
	simtest.OK(t, c.Resolve())
	info, err := os.Stat(log)
	simtest.OK(t, err)
	if read, size := c.LogRead(); read != info.Size() || size != info.Size() {
		t.Errorf("%d of %d bytes, want %d", read, size, info.Size())
	}
	if text := readingText(c, time.Second); text != "sorting requests" {
		t.Errorf("after: %s", text)
	}
	bar := barText("reading", 0.25, 3*time.Second)
	if bar != "reading [#######.......................]  25 %  9s left" {
		t.Errorf("a quarter: %s", bar)
	}
}
