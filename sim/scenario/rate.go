package scenario

import (
	"errors"
	"fmt"
	"strconv"
)

// Rate is written NUMBER/TIME: 1000/s, 2.5/s, 10/m, 5000/h or 100/500ms.
type Rate struct {
	PerSecond float64

	text string // as it was written
}

// IsZero reports whether nothing was written.
func (r Rate) IsZero() bool { return r.PerSecond == 0 }

// MarshalText writes what UnmarshalText reads, to the last bit of PerSecond.
func (r Rate) MarshalText() ([]byte, error) {
	if r.text != "" {
		return []byte(r.text), nil
	}
	text := FormatRate(r.PerSecond)
	if again, err := ParseLimit(text); err != nil || again.Rate != r.PerSecond {
		text = strconv.FormatFloat(r.PerSecond, 'f', -1, 64) + "/s"
	}
	return []byte(text), nil
}

// UnmarshalText reads NUMBER/TIME, where TIME is a duration or its bare unit.
func (r *Rate) UnmarshalText(text []byte) error {
	limit, err := ParseLimit(string(text))
	if errors.Is(err, errLimit) || err == nil && !HasRate(limit) {
		err = errRate
	}
	if err != nil {
		return fmt.Errorf("%q: %w", text, err)
	}
	*r = Rate{limit.Rate, string(text)}
	return nil
}
