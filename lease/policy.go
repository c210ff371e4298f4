package lease

import (
	"fmt"
	"strings"
	"time"
)

// Policy says how a Ledger divides its bucket. It is plain, comparable data: a
// zero field means its documented default, so the zero Policy is the default.
// All processes that share a key should use the same one.
type Policy struct {
	// Mode forces one kind of lease. Default: Auto.
	Mode Mode

	// Fairness says whom a scarce rate goes to. Default: Proportional.
	Fairness Fairness

	// Batch is the lease size: about how many requests of the process's mean cost
	// it decides between two calls, 1 to MaxBurst (a Holder's requests carry it in
	// tokens). In Batches mode it is the size of each batch. Larger means fewer calls
	// and slower redistribution. Default: 100.
	Batch int64

	// MinRefresh and MaxRefresh bound the time between two calls of a process for one key,
	// from 1 ms to 1 h. Slices and batches last for up to three MaxRefresh, or as long as all
	// processes together need for a Burst, while demand does not move and no tokens are missed.
	// Defaults: 20 ms and 250 ms.
	MinRefresh, MaxRefresh time.Duration

	// MaxHold is how long a process may keep a long batch. It gets one of a calm key: so
	// far from its limit that nobody misses a few tokens. It comes back for more as
	// requests use them up, and not at all when they do not. A process with more
	// requests keeps a slice, for up to a sixth of MaxHold.
	//
	// Longer means fewer calls for many keys with generous limits. From MaxRefresh, with
	// which no lease lasts longer for its sake, to 1 h. A bucket in Batches mode does without.
	// Default: 30 s, or MaxRefresh if that is longer.
	//
	// Of slots it is, in any mode, how long jobs outlive an outage, less a sixteenth, and how
	// long the slots of a process that has crashed are missed; 4 MaxRefresh if that is longer.
	// That sixteenth, 1.875 s by default, is what a process has to end a job's context, and
	// a job to end with it, before another one may have its slots. A process that may
	// be stopped for longer, as by a throttled CPU, wants a longer MaxHold, or Fences. With a
	// MaxHold above a second, slots of a crashed process may be missed for 3.75 s more.
	MaxHold time.Duration

	// Headroom is the part by which a slice exceeds the demand while there is
	// enough for everybody, above 0 and at most 1. Default: 0.1.
	Headroom float64

	// BurstShare is the part of the Burst that may be lent out, above 0 and at most 1.
	// The rest stays in the pool. Default: 0.5.
	BurstShare float64

	// Smallest is the least part of a limit that is worth keeping, in requests of the
	// process's mean cost (a Holder's requests carry it in tokens), 1 to MaxBurst. A part of
	// a bucket is a slice from Smallest on, and from half of it while the key is not
	// contended. A smaller part is a batch, from a quarter of Smallest on, with classes from
	// half of it. Default: 4.
	Smallest int64

	// Reserve is the part of the pool that is kept for processes too small to own a
	// slice while the key is contended, above 0 and below 1. What a used-up lease, of which nobody is
	// told, may make it lose is the same part. Default: 0.05.
	Reserve float64
}

// Mode is a kind of lease.
type Mode int

const (
	// Auto lets the ledger choose from demand.
	Auto Mode = iota
	// Batches lends tokens for Policy.Batch requests at a time, and no rate: the classic
	// local cache, first come first served.
	Batches
	// Shares lends a slice of the refill to every process, however small.
	Shares
	// PerRequest lends nothing: each decision asks the ledger.
	PerRequest
)

// String returns the name that the simulator prints and reads.
func (m Mode) String() string {
	return name("Mode", []string{"auto", "batches", "shares", "per-request"}, int(m))
}

// MarshalText writes the name.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads the name.
func (m *Mode) UnmarshalText(text []byte) error { return parse(m, text, PerRequest) }

// Fairness says how a scarce rate is divided among processes.
type Fairness int

const (
	// Proportional gives each process the same part of its demand: every
	// request has the same chance, wherever it lands.
	Proportional Fairness = iota
	// MaxMin raises all processes to one level (water-filling), so that a busy
	// process cannot crowd out a quiet one.
	MaxMin
)

// String returns the name that the simulator prints and reads.
func (f Fairness) String() string {
	return name("Fairness", []string{"proportional", "max-min"}, int(f))
}

// MarshalText writes the name.
func (f Fairness) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText reads the name.
func (f *Fairness) UnmarshalText(text []byte) error { return parse(f, text, MaxMin) }

// parse sets v to the value, 0 to last, that has this name.
func parse[T interface {
	~int
	String() string
}](v *T, text []byte, last T) error {
	var names []string
	for x := T(0); x <= last; x++ {
		if x.String() == string(text) {
			*v = x
			return nil
		}
		names = append(names, x.String())
	}
	return fmt.Errorf("lease: %.40q is not %s", text, strings.Join(names, ", "))
}

func name(kind string, names []string, i int) string {
	if i < 0 || i >= len(names) {
		return fmt.Sprintf("%s(%d)", kind, i)
	}
	return names[i]
}

// Resolved returns p with every zero field replaced by its default. A bound of
// the refresh that is set alone pulls the other one along where it would
// otherwise stand on the wrong side.
func (p Policy) Resolved() Policy {
	setDefault(&p.Batch, 100)
	if p.MinRefresh == 0 {
		p.MinRefresh = 20 * time.Millisecond
		if p.MaxRefresh != 0 {
			p.MinRefresh = min(p.MinRefresh, p.MaxRefresh)
		}
	}
	setDefault(&p.MaxRefresh, max(250*time.Millisecond, p.MinRefresh))
	setDefault(&p.MaxHold, max(30*time.Second, p.MaxRefresh))
	setDefault(&p.Headroom, 0.1)
	setDefault(&p.BurstShare, 0.5)
	setDefault(&p.Smallest, 4)
	setDefault(&p.Reserve, 0.05)
	return p
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate returns an error that names the field and its value unless every
// field is zero or within its range.
func (p Policy) Validate() error {
	p = p.Resolved()
	bad := func(field string, value any, want string) error {
		return fmt.Errorf("lease: Policy.%s %v is not %s", field, value, want)
	}
	switch {
	case p.Mode < Auto || p.Mode > PerRequest:
		return bad("Mode", p.Mode, "a known mode")
	case p.Fairness < Proportional || p.Fairness > MaxMin:
		return bad("Fairness", p.Fairness, "a known fairness")
	case p.Batch < 1 || p.Batch > MaxBurst:
		return bad("Batch", p.Batch, "from 1 to 2^32")
	case p.MinRefresh < time.Millisecond || p.MinRefresh > time.Hour:
		return bad("MinRefresh", p.MinRefresh, "from 1ms to 1h")
	case p.MaxRefresh < p.MinRefresh || p.MaxRefresh > time.Hour:
		return bad("MaxRefresh", p.MaxRefresh, fmt.Sprintf("from MinRefresh %v to 1h", p.MinRefresh))
	case p.MaxHold < p.MaxRefresh || p.MaxHold > time.Hour:
		return bad("MaxHold", p.MaxHold, fmt.Sprintf("from MaxRefresh %v to 1h", p.MaxRefresh))
	case !(p.Headroom > 0) || p.Headroom > 1:
		return bad("Headroom", p.Headroom, "above 0 and at most 1")
	case !(p.BurstShare > 0) || p.BurstShare > 1:
		return bad("BurstShare", p.BurstShare, "above 0 and at most 1")
	case p.Smallest < 1 || p.Smallest > MaxBurst:
		return bad("Smallest", p.Smallest, "from 1 to 2^32")
	case !(p.Reserve > 0) || p.Reserve >= 1:
		return bad("Reserve", p.Reserve, "above 0 and below 1")
	}
	return nil
}
