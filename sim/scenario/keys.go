package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local/ideal"
)

// Keys are what a request is limited by: one of a Number of alike keys, or one key of Each
// of several kinds, all or none.
type Keys struct {
	Number int
	Each   []EachKey
}

// EachKey is one of several kinds of keys that each request has: of a client, of an
// endpoint, or one for everybody.
type EachKey struct {
	Name  string `yaml:"name"`
	Limit Limit  `yaml:"limit"`
	Burst int64  `yaml:"burst,omitempty"` // default: as for Scenario.Limit

	// Number of them, 1 to 1,000,000, as popular as Zipf's law with exponent Skew >= 0 has
	// them. Defaults: 1, and 0.
	Number int     `yaml:"number,omitempty"`
	Skew   float64 `yaml:"skew,omitempty"`
}

// MaxEach is how many kinds of keys a request may have.
const MaxEach = 8

// IsZero reports whether nothing was written.
func (k Keys) IsZero() bool { return k.Number == 0 && k.Each == nil }

// MarshalYAML writes what UnmarshalYAML reads.
func (k Keys) MarshalYAML() (any, error) {
	if k.Each != nil {
		return k.Each, nil
	}
	return k.Number, nil
}

// UnmarshalYAML reads a number or a list.
func (k *Keys) UnmarshalYAML(n *yaml.Node) error {
	*k = Keys{}
	if n.Kind == yaml.SequenceNode {
		if err := n.Load(&k.Each, yaml.WithKnownFields()); err != nil {
			return err
		}
		for i, each := range k.Each {
			if each.Limit.IsZero() {
				return fmt.Errorf("keys[%d]: limit is missing", i)
			}
		}
		return nil
	}
	if n.Value == "0" {
		return errors.New("keys 0 is not in its range; leave it out for its default, 1")
	}
	return n.Load(&k.Number)
}

// A Limited is a number of keys that have the same limit each. They have the numbers from
// First on among all keys.
type Limited struct {
	Name   string
	Limit  lease.Limit // by the clock of the run
	Text   string      // as people know it
	Rate   string      // as it was written, without a burst
	First  int
	Number int
	Skew   float64
	Chosen string // why the burst is more than the NUMBER, where it was not given
}

// AloneName is the Name of a Limited that requests meet alone.
const AloneName = "key"

// Limits are those that each request meets, with their keys.
func (s *Scenario) Limits() []Limited {
	if s.Keys.Each == nil {
		return []Limited{{
			Name: AloneName, Limit: s.LimitOf(), Text: s.Limit.whole(s.Burst).String(),
			Rate: s.Limit.written(), Number: s.Keys.Number, Skew: s.KeySkew, Chosen: s.chosen[AloneName],
		}}
	}
	var list []Limited
	first := 0
	for _, k := range s.Keys.Each {
		limit := k.Limit.whole(k.Burst)
		list = append(list, Limited{
			k.Name, s.onCalendar(limit), limit.String(), k.Limit.written(), first, k.Number, k.Skew,
			s.chosen[k.Name],
		})
		first += k.Number
	}
	return list
}

// AllKeys is how many keys there are, of all limits.
func (s *Scenario) AllKeys() (n int) {
	for _, l := range s.Limits() {
		n += l.Number
	}
	return n
}

// Capacity is what the keys of the narrowest limit let through together, in tokens/s.
func (s *Scenario) Capacity() (least float64) {
	for i, l := range s.Limits() {
		if all := Mean(l.Limit) * float64(l.Number); i == 0 || all < least {
			least = all
		}
	}
	return least
}

// HasQuotas reports whether a limit goes by the calendar.
func (s *Scenario) HasQuotas() bool {
	for _, l := range s.Limits() {
		if ideal.TraitsOf(l.Limit).Calendar {
			return true
		}
	}
	return false
}

// chose notes why a limit has its burst.
func (s *Scenario) chose(name, why string) {
	if why != "" {
		if s.chosen == nil {
			s.chosen = map[string]string{}
		}
		s.chosen[name] = why
	}
}

// chooseBurst gives a bucket the burst that it has by default: the NUMBER of its limit, and at
// least ten requests for each process, and what the largest one of a log takes. It returns why it
// is more than the NUMBER, if it is.
func (s *Scenario) chooseBurst(l Limit, burst *int64) (why string) {
	if !HasRate(l.Limit) || *burst != 0 {
		return ""
	}
	const requests = 10
	mean, largest := float64(max(s.Load.Cost, 1)), int64(0)
	switch {
	case s.replay != nil:
		mean, largest = s.replay.tokens/float64(max(s.replay.Requests, 1)), s.replay.largest
	case len(s.Load.Costs) > 0:
		mean = 0
		for _, c := range s.Load.Costs {
			mean += float64(c) / float64(len(s.Load.Costs))
		}
	}
	ten := int64(min(math.Ceil(float64(requests*float64(s.Processes)*mean)), lease.MaxBurst))
	switch *burst = max(l.Burst, ten, largest); *burst {
	case l.Burst:
		return ""
	case ten:
		return "ten requests for each process"
	}
	return "the largest request"
}

var plainName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,29}$`)

// checkName returns an error for a name that figures and files could not have.
func checkName(name string) error {
	return wrong(!plainName.MatchString(name),
		"name %q is not up to 30 letters a to z, digits, _ and -, a letter first", name)
}

const maxKeys = 1_000_000

// resolveKeys looks at the keys and their limits.
func (s *Scenario) resolveKeys() error {
	if s.Keys.Each == nil {
		setDefault(&s.Keys.Number, 1)
		setDefault(&s.Limit, Limit{Limit: lease.Per(1000, time.Second)})
		n := s.Keys.Number
		err := cmp.Or(within("keys", n, 1, maxKeys), wrong(len(s.Weights) > 0 && n != len(s.Weights),
			"keys: %d weights for %d keys", len(s.Weights), n))
		if err != nil {
			return err
		}
		s.chose(AloneName, s.chooseBurst(s.Limit, &s.Burst))
		return cmp.Or(s.Limit.check(s.Burst), within("key_skew", s.KeySkew, 0, 100))
	}
	const alone = "%s %v does not go with a list of keys, which have %s each"
	if t := s.Load.Trace; t != nil {
		return fmt.Errorf("load.trace %s does not go with a list of keys", t.File)
	}
	kinds := len(s.Keys.Each)
	err := cmp.Or(
		wrong(!s.Limit.IsZero(), alone, "limit", s.Limit, "a limit"),
		wrong(s.Burst != 0, alone, "burst", s.Burst, "a burst"),
		wrong(s.KeySkew != 0, alone, "key_skew", s.KeySkew, "a skew"),
		wrong(s.Load.Patience != 0, "load.patience %v does not go with a list of keys: callers do not "+
			"wait for several limits here", s.Load.Patience),
		wrong(kinds < 1 || kinds > MaxEach, "keys %d kinds is not 1 to 8 kinds of them", kinds))
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for i := range s.Keys.Each {
		k := &s.Keys.Each[i]
		s.chose(k.Name, s.chooseBurst(k.Limit, &k.Burst))
		if err := k.resolve(); err != nil {
			return fmt.Errorf("keys[%d]: %w", i, err)
		}
		if seen[k.Name] || k.Name == AloneName {
			return fmt.Errorf("keys[%d]: name %q is that of another one, or of a key alone", i, k.Name)
		}
		seen[k.Name] = true
	}
	n := s.AllKeys()
	return wrong(n > maxKeys, "keys %d is not from 1 to 1000000, all together", n)
}

func (k *EachKey) resolve() error {
	setDefault(&k.Number, 1)
	return cmp.Or(checkName(k.Name), within("number", k.Number, 1, maxKeys), k.Limit.check(k.Burst),
		wrong(k.Limit.Kind.Jobs(), "limit %s does not go with a list of keys: a job has slots of one key",
			k.Limit),
		within("skew", k.Skew, 0, 100))
}
