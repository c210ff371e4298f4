package rules

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// overrideMarks stand in the name of the bucket of a Descriptor.Limit, by its Kind.
var overrideMarks = []string{"!bucket", "!quota", "!slots", "!sliding"}

// overrideBucket is the name of the bucket of a descriptor with a Limit: its entries as they are,
// and that limit. So LimitFor needs no table of what requests have brought, and the same limit is
// counted together by all processes.
func overrideBucket(b []byte, d Descriptor) []byte {
	for _, e := range d.Entries {
		b = appendStored(b, stored{e, raw})
	}
	return fmt.Appendf(b, "%s/%v/%d/%v/%v", overrideMarks[d.Limit.Kind],
		d.Limit.Rate, d.Limit.Burst, d.Limit.Window, d.Limit.Offset)
}

// overrideOf reads a mark of overrideBucket.
func overrideOf(mark string) (limit hybrid.Limit, ok bool) {
	fields := strings.Split(mark, "/")
	kind := slices.Index(overrideMarks, fields[0])
	if kind < 0 || len(fields) != 5 {
		return hybrid.Limit{}, false
	}
	limit.Kind = hybrid.Kind(kind)
	var errs [4]error
	limit.Rate, errs[0] = strconv.ParseFloat(fields[1], 64)
	limit.Burst, errs[1] = strconv.ParseInt(fields[2], 10, 64)
	limit.Window, errs[2] = time.ParseDuration(fields[3])
	limit.Offset, errs[3] = time.ParseDuration(fields[4])
	return limit, errors.Join(errs[:]...) == nil
}

// checkOverride refuses a Limit that makes no sense.
func checkOverride(i int, limit hybrid.Limit) error {
	if limit == (hybrid.Limit{}) {
		return nil
	}
	if err := limit.Validate(); err != nil {
		return fmt.Errorf("rules: %w: Limit of descriptor %d: %w", ErrDescriptor, i, err)
	}
	if limit.Kind == hybrid.KindSlots {
		return fmt.Errorf("rules: %w: Limit %v of descriptor %d: a request does not put slots back",
			ErrDescriptor, limit, i)
	}
	return nil
}

// override plans for a descriptor with a Limit.
func (p *plan) override(i int) {
	var buffer [256]byte
	d := p.descriptors[i]
	if d.Limit == hybrid.Unlimited {
		p.each[i].State = Unlimited
		return
	}
	name := string(overrideBucket(buffer[:0], d))
	p.ask(i, hybrid.Ask{Key: name, N: max(d.Hits, 1)}, p.domain.overrides, true)
}

// limitOf is the limit of an ask.
func (p *plan) limitOf(ask int) hybrid.Limit {
	i := p.from[ask]
	switch r := p.rules[i]; {
	case r == nil:
		return p.descriptors[i].Limit
	case p.each[i].Trial:
		return r.Trial.Limit
	default:
		return r.Limit
	}
}
