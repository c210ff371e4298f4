package accesslog

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// maxCost is in tokens.
const maxCost = 1 << 32

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
func (c cost) tokens() (int64, error) {
	sum := math.Ceil(float64(c))
	if sum > maxCost {
		return 0, fmt.Errorf("cost %g: over %d", sum, int64(maxCost))
	}
	return max(1, int64(sum)), nil
}

// requests reads how many requests a line stands for.
func requests(s string) (int64, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || !(v >= 0 && v <= maxCounted) || v != math.Trunc(v) {
		return 0, fmt.Errorf("count %.40q: want a whole number from 0 to %d", s, maxCounted)
	}
	return int64(v), nil
}
