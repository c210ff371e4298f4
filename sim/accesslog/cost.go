package accesslog

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// maxCost is 2^32 tokens, or what an int can hold.
const maxCost = min(1<<32, math.MaxInt)

// cost is a sum of columns, not yet rounded.
type cost float64

func (c *cost) add(s string) error {
	v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || !(v >= 0) { // NaN is not >= 0
		return fmt.Errorf("cost %.40q: want a number >= 0", s)
	}
	*c += cost(v)
	return nil
}

// tokens rounds up, and to 1 at least.
func (c cost) tokens() (int, error) {
	sum := math.Ceil(float64(c))
	if sum > maxCost {
		return 0, fmt.Errorf("cost %g: over %d", sum, int64(maxCost))
	}
	return max(1, int(sum)), nil
}
