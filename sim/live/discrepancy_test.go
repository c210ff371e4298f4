package live

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/measure"
	"github.com/seed13b07268/ration/sim/simtest"
)

var (
	redisFlag = flag.String("live.redis", "", "TestDiscrepancy plays on the Redis at `ADDR`")
	logsFlag  = flag.String("live.logs", "", "TestDiscrepancy plays the two logs in `DIR`, too")
	seedFlag  = flag.Uint64("live.seed", 1, "of TestDiscrepancy")
)

// TestDiscrepancy tells by how much the simulation is off beyond the chance that it knows, from
// runs on a real Redis beside their predictions. It has found the discrepancies of measures, and
// with another seed it shows whether they hold.
func TestDiscrepancy(t *testing.T) {
	if *redisFlag == "" {
		t.Skip("takes six minutes on a Redis that -live.redis names")
	}
	found := map[string][]excess{}
	for _, c := range discrepancyScenes(t) {
		t.Run(c.name, func(t *testing.T) {
			s := read(t, c.text)
			m, x, err := Run(t.Context(), s, Options{Redis: *redisFlag, Seed: *seedFlag})
			simtest.OK(t, err)
			predicted, err := Predict(t.Context(), s, m, x, *seedFlag, measure.Predictions)
			simtest.OK(t, err)
			undisturbed, err := Predict(t.Context(), s, m, x.Undisturbed(), *seedFlag, measure.Predictions)
			simtest.OK(t, err)
			line := fmt.Sprintf("| %s | %.1f ms", c.name, 1e3*x.LateP99)
			for i, row := range Compare(m, predicted, undisturbed) {
				if row.Tolerance == 0 {
					continue
				}
				found[row.Name] = append(found[row.Name], excessOf(row, i, predicted))
				line += fmt.Sprintf(" | %.4f | %.4f | %+.2f %%, %s", row.Predicted.Mean, row.Measured,
					100*row.Difference, map[bool]string{true: "inside", false: "outside"}[row.Inside])
				if !row.OK {
					t.Errorf("%s is off by %.4f", row.Name, row.Difference)
				}
			}
			t.Log(line + " |")
		})
	}
	for name, list := range found {
		t.Logf("%s: discrepancy %.4f", name, likeliest(list))
	}
}

// An excess is by how much a prediction is off, squared, and the variance that chance explains.
type excess struct{ square, chance float64 }

func excessOf(row Row, i int, predicted []*engine.Result) (x excess) {
	var mean float64
	n := float64(len(predicted))
	for _, p := range predicted {
		mean += measures[i].of(p) / n
	}
	for _, p := range predicted {
		x.chance += math.Pow(measures[i].of(p)-mean, 2) / (n - 1) * (1 + 1/n)
	}
	if row.Relative {
		x.chance /= mean * mean
	}
	x.square = row.Difference * row.Difference
	return x
}

// likeliest is the standard deviation that makes what was found likeliest, if all is normal. A
// scene whose chance is small counts for most.
func likeliest(found []excess) (discrepancy float64) {
	least := math.Inf(1)
	for d := 1e-6; d < 0.2; d *= 1.01 {
		unlikely := 0.0
		for _, x := range found {
			variance := x.chance + d*d
			unlikely += math.Log(variance) + x.square/variance
		}
		if unlikely < least {
			least, discrepancy = unlikely, d
		}
	}
	return discrepancy
}

type scene struct{ name, text string }

// discrepancyScenes are the scenarios that are played, and the logs where they are.
func discrepancyScenes(t *testing.T) (scenes []scene) {
	for _, name := range strings.Fields(
		"steady hot-moves on-off zipf clumps far costs sticky quota sliding") {
		text, err := os.ReadFile("../scenarios/" + name + ".yaml")
		simtest.OK(t, err)
		times := regexp.MustCompile(`(?m)^(duration|warmup): .*$`).ReplaceAllString(string(text), "")
		scenes = append(scenes, scene{name, times + "\nduration: 22s\nwarmup: 2s\n"})
	}
	if *logsFlag == "" {
		return scenes
	}
	file := func(name string) string { return "file: " + filepath.Join(*logsFlag, name) + "}}" }
	return append(scenes,
		scene{"apache", "duration: 40s\nwarmup: 2s\nlimit: 50/s\n" +
			"load: {trace: {speedup: 3000, " + file("apache_combined.log")},
		scene{"azure", "duration: 30s\nwarmup: 2s\nlimit: 70000/s\nburst: 140000\n" +
			"load: {trace: {speedup: 20, cost: ContextTokens+GeneratedTokens, " +
			file("azure_llm_conv.csv")},
	)
}
