package rules

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

// TestPatterns: a pattern matches what the regular expression of it matches, and two patterns meet
// if a value of all the short ones matches both.
func TestPatterns(t *testing.T) {
	const seed = 1
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var values []string
	for n := range 1 << 9 { // all of up to 8 letters: the leading 1 says how many
		if n > 0 {
			bits := fmt.Sprintf("%b", n)[1:]
			values = append(values, strings.NewReplacer("0", "a", "1", "b").Replace(bits))
		}
	}
	draw := func() string {
		b := make([]byte, rng.IntN(5))
		for i := range b {
			b[i] = "ab*"[rng.IntN(3)]
		}
		return string(b)
	}
	met, apart := 0, 0
	for range 1500 {
		one, two := draw(), draw()
		p, o := patternOf(one), patternOf(two)
		same := regexp.MustCompile("^" + strings.ReplaceAll(one, "*", ".*") + "$")
		common := false
		for _, v := range values {
			if p.matches(v) != same.MatchString(v) {
				t.Fatalf("%q matches %q: %v", one, v, p.matches(v))
			}
			common = common || p.matches(v) && o.matches(v)
		}
		if p.meets(o) != common || o.meets(p) != common {
			t.Fatalf("%q meets %q: %v, %v, not %v", one, two, p.meets(o), o.meets(p), common)
		}
		if common {
			met++
		} else {
			apart++
		}
	}
	if met < 300 || apart < 300 {
		t.Errorf("%d meet, %d do not", met, apart)
	}
}
