package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/simtest"
)

// writeLog writes a CSV log of requests at these times, in ms since 1970 (and one
// more, lest they be whole seconds),
// in turn from a and b.
func writeLog(t *testing.T, seconds ...float64) string {
	t.Helper()
	text := "time,key\n"
	for i, s := range seconds {
		text += fmt.Sprintf("%.0f,%c\n", 1.7e12+1+1000*s, 'a'+i%2)
	}
	return simtest.File(t, "log.csv", text)
}

// A log is played in its own time and to its end, all of it measured, also where
// the scenario it is played in has a duration and a load of its own. Flags that
// are given hold.
func TestLogInItsOwnTime(t *testing.T) {
	log := writeLog(t, 0, 30, 60, 3436)
	for _, c := range []struct {
		line     string
		want     string // of the text
		requests int64
	}{
		{"", "time      57m17s, all of it measured", 4},
		{"steady", "time      57m17s, all of it measured", 4},
		{"clients", "time      57m17s, all of it measured", 4},
		{"-speedup 1", "time      57m17s, all of it measured", 4},
		{"-speedup 10", "as if traffic were 10 times as heavy", 4},
		{"-duration 50s steady", "time      50s, all of it measured", 2},
		{"-warmup 40s", "not measured: 2 requests in the warm-up of 40s", 2},
	} {
		args := append(strings.Fields("run -replications 1 -trace "+log), strings.Fields(c.line)...)
		simtest.Has(t, c.line, must(t, "", args...), c.want)
		d := decode(t, must(t, "", append(args, "-json")...))
		if got := d.Variants[0].Results[0].Requests; got != c.requests {
			t.Errorf("%s: %d requests, want %d", c.line, got, c.requests)
		}
	}
	text := prints(t, "compare -replications 2 -trace "+log, "57m17s", "A: excess: none in the worst window;")
	simtest.Lacks(t, "compare", text, "none tokens")
}

// -per-client takes no argument: the word behind it is the scenario.
func TestPerClientTakesNoArgument(t *testing.T) {
	log := writeLog(t, 0, 1, 2)
	for line, keys := range map[string]string{"-per-client steady": ", each of 2 keys", "-per-client=false steady": "limit     1000/s, burst 1,000\n", "steady -per-client": "each of 2 keys"} {
		prints(t, "run -replications 1 -key-col key -trace "+log+" "+line, keys)
	}
}

// The command line takes the place of what the scenario has, and does not
// contradict itself.
func TestFlagsInsteadOfOthers(t *testing.T) {
	mine := simtest.File(t, "mine.yaml", "load: {rate: 100/s}\n")
	prints(t, "run"+short+"-offered 3 "+mine, "3 x the limit")
	prints(t, "run"+short+"-set load.rate=70/s steady", "70/s, poisson")
	prints(t, "sweep"+short+"-over load.rate=70/s,80/s steady", "80/s")
	for line, want := range map[string]string{
		"-offered 3 -set load.rate=100/s": "-offered and -set load.rate: one of them",
		"-trace a.log -offered 3":         "-trace and -offered: one of them",
		"-set load.cost=3 -trace a.log":   "-set load.cost and -trace: one of them",
		"-set policy.headroom=0":          "headroom 0 is not in its range",
		"-trace a.log -speedup 0":         "speedup 0 is not in its range",
	} {
		refused(t, want, "run "+line)
	}
	log := simtest.File(t, "plain.csv", "time\n2026-01-01T00:00:00Z\n2026-01-01T00:00:01Z\n")
	refused(t, "name the column that does (load.trace.key, -key-col)", "run -per-client -trace "+log)
}

// An interrupt ends a command at once while a log is read, even if it is a pipe
// that nobody writes to any more.
func TestInterruptWhileALogIsRead(t *testing.T) {
	for _, command := range []string{"run", "compare", "sweep -over batch=1,2", "tune"} {
		r, w, err := os.Pipe()
		simtest.OK(t, err)
		defer r.Close()
		defer w.Close()
		name := fmt.Sprintf("/dev/fd/%d", r.Fd())
		if _, err := os.Stat(name); err != nil {
			t.Skipf("a pipe has no name here: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		codes := make(chan int, 1)
		go func() {
			code, _, _ := sim(ctx, command+" -trace "+name)
			codes <- code
		}()
		simtest.OK(t, w.SetWriteDeadline(time.Now().Add(10*time.Second)))
		if _, err := w.WriteString(strings.Repeat("a line\n", 1<<15)); err != nil { // more than a pipe holds: it is being read
			t.Fatalf("%s: nobody reads: %v", command, err)
		}
		cancel()
		select {
		case code := <-codes:
			if code != 130 {
				t.Errorf("%s: exit code %d", command, code)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s still reads", command)
		}
	}
}

// A part of a whole has no interval beyond it, and times have a unit that people
// read.
func TestNoOddNumbers(t *testing.T) {
	for _, f := range figures {
		i := f.estimate([]float64{0.9, 1})
		if f.part && (i.High != 1 || i.Low < 0) || !f.part && i.High < 1.1 {
			t.Errorf("%s: %+v", f.name, i)
		}
		if i := f.estimate([]float64{0, 0.1, 0}); i.Low != 0 {
			t.Errorf("%s: %+v", f.name, i)
		}
	}
	if i := figureOf("utilisation").estimate([]float64{1, 1.2}); i.High != 1.2 {
		t.Errorf("utilisation above the limit: %+v", i)
	}
	for d, want := range map[time.Duration]string{3436 * time.Second: "9m32s", 10 * time.Second: "1.666s", 30 * time.Second: "5s", time.Second: "166ms"} {
		if got := sixth(d).String(); got != want {
			t.Errorf("a sixth of %v: %s, want %s", d, got, want)
		}
	}
}

// request is one of a log, as the test reads it.
type request struct {
	at     time.Duration // since the first
	client string
	cost   float64
}

// apache reads the log by its own means. Its stamps are whole seconds: the
// requests of each are spread as package accesslog says, by seed 1.
func apache(t *testing.T, file *os.File) (all []request) {
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		at, err := time.Parse("[02/Jan/2006:15:04:05 -0700]", fields[3]+" "+fields[4])
		simtest.OK(t, err)
		all = append(all, request{time.Duration(at.Unix()) * time.Second, fields[0], 1})
	}
	simtest.OK(t, lines.Err())
	slices.SortStableFunc(all, func(a, b request) int { return cmp.Compare(a.at, b.at) })
	random := rand.New(rand.NewPCG(1, 0))
	for i := 0; i < len(all); {
		n := i
		for n < len(all) && all[n].at == all[i].at {
			n++
		}
		offsets := make([]time.Duration, n-i)
		for j := range offsets {
			offsets[j] = time.Duration(random.Int64N(int64(time.Second)))
		}
		slices.Sort(offsets)
		for j, d := range offsets {
			all[i+j].at += d
		}
		i = n
	}
	return all
}

// azure reads the log by its own means: a cost in tokens, and no clients.
func azure(t *testing.T, file *os.File) (all []request) {
	records, err := csv.NewReader(file).ReadAll()
	simtest.OK(t, err)
	for _, r := range records[1:] {
		at, err := time.Parse("2006-01-02 15:04:05.9999999", r[0])
		simtest.OK(t, err)
		cost := 0.0
		for _, text := range r[1:] {
			n, err := strconv.ParseFloat(text, 64)
			simtest.OK(t, err)
			cost += n
		}
		all = append(all, request{time.Duration(at.UnixNano()), "", cost})
	}
	return all
}

// ownBuckets is what token buckets admit of a log, one for each client or one for
// all, in tokens; and how many requests are above the burst.
func ownBuckets(all []request, rate, burst float64, perClient bool) (admitted float64, above int64) {
	type bucket struct {
		tokens float64
		at     time.Duration
	}
	buckets := map[string]*bucket{}
	for _, q := range all {
		key := ""
		if perClient {
			key = q.client
		}
		b := buckets[key]
		if b == nil {
			b = &bucket{burst, q.at}
			buckets[key] = b
		}
		b.tokens = min(burst, b.tokens+rate*(q.at-b.at).Seconds())
		b.at = q.at
		switch {
		case q.cost > burst:
			above++
		case q.cost <= b.tokens:
			b.tokens -= q.cost
			admitted += q.cost
		}
	}
	return admitted, above
}

// Real logs, in their own time: as many requests and tokens as the test counts,
// and the ideal limit admits what the test's own admits.
func TestSharedTraces(t *testing.T) {
	longform.None(t)
	simtest.Long(t)
	const dir = "../../shared/traces"
	for _, c := range []struct {
		file        string
		read        func(*testing.T, *os.File) []request
		flags       string
		rate, burst float64
		perClient   bool
		span        time.Duration
	}{
		{"apache_combined.log", apache, "-limit 3/s -burst 3", 3, 3, false, 83 * time.Hour},
		{"apache_combined.log", apache, "-limit 2/m -burst 2 -per-client", 2. / 60, 2, true, 83 * time.Hour},
		{"azure_llm_conv.csv", azure, "-cost-col ContextTokens+GeneratedTokens -limit 4000/s -burst 10000", 4000, 10000, false, 58 * time.Minute},
		{"azure_llm_conv.csv", azure, "-limit 3/s -burst 3 -cost-col none", 3, 3, false, 58 * time.Minute},
	} {
		name := filepath.Join(dir, c.file)
		file, err := os.Open(name)
		if err != nil {
			t.Skipf("the shared traces are not here: %v", err)
		}
		defer file.Close()
		all := c.read(t, file)
		if !strings.Contains(c.flags, "-cost-col Context") {
			for i := range all {
				all[i].cost = 1
			}
		}
		offered := 0.0
		for _, q := range all {
			offered += q.cost
		}
		want, above := ownBuckets(all, c.rate, c.burst, c.perClient)
		for _, q := range all {
			if q.cost > c.burst {
				offered -= q.cost
			}
		}

		r := replayed(t, "-trace "+name+" "+c.flags)
		if r.Requests != int64(len(all)) || r.AboveBurst != above || r.TokensOffered != offered || r.Pending != 0 {
			t.Errorf("%s %s: %d requests, %d above the burst, %v tokens, %d without a verdict; want %d, %d, %v, 0",
				c.file, c.flags, r.Requests, r.AboveBurst, r.TokensOffered, r.Pending, len(all), above, offered)
		}
		if r.TokensIdeal != want {
			t.Errorf("%s %s: the ideal limit admits %v, the test's own %v", c.file, c.flags, r.TokensIdeal,
				want)
		}
		if r.Seconds < c.span.Seconds() || r.Seconds > c.span.Seconds()+61 {
			t.Errorf("%s %s: %v s are measured, want %v", c.file, c.flags, r.Seconds, c.span)
		}
		t.Logf("%s %s: %d of %d requests, %.0f of %.0f tokens; ideal %.0f; %.4f calls a request",
			c.file, c.flags, r.Admitted, r.Requests, r.TokensAdmitted, r.TokensOffered, r.TokensIdeal, r.CallsPerRequest)
	}
}

// replayed is one replication of a log.
func replayed(t *testing.T, line string) engine.Result {
	t.Helper()
	d := decode(t, must(t, "run -json -replications 1 "+line))
	return d.Variants[0].Results[0]
}

// One bad cell is told with its line, and the others count.
func TestBadCellIsTold(t *testing.T) {
	log := "time,tokens\n"
	for i := range 20 {
		log += fmt.Sprintf("2026-01-01T00:00:%02d.5Z,%s\n", i, map[bool]string{true: "n/a", false: "30"}[i == 7])
	}
	prints(t, "run -replications 1 -limit 20/s -trace "+simtest.File(t, "tokens.csv", log),
		"a request takes tokens: 28.55 tokens in the mean, 30 at most",
		`a token each for 1 line without a number in tokens; the first is line 9: cost "n/a": want a number >= 0`)
}

// The page of a log says what it is, and warns only of what may make figures wrong.
func TestPageOfALog(t *testing.T) {
	line := "run -replications 1 -trace " + writeLog(t, 0, 1, 2)
	clean, cut := page(t, line), page(t, line+" -duration 1500ms")
	for _, text := range []string{clean, cut} {
		simtest.Has(t, "page", text, "3 requests in 2s from 2023-11-14 22:13:20 UTC", "played in its own time")
	}
	const warning = "<b>Warning.</b>"
	if n, more := strings.Count(clean, warning), strings.Count(cut, warning); n != 0 || more != 1 {
		t.Errorf("%d warnings, and %d about a log that is cut", n, more)
	}
}
