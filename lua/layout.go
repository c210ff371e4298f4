package lua

import (
	"encoding/binary"
	"math"
)

// Version is that of the format in which a key is kept. Both scripts refuse a key of
// another one. CONTRIBUTING.md says when it changes.
const Version = 13

// A Layout is the numbers of a value in Redis, in their order. Each kind of number has
// its length, so that all values of a layout have the same, and Redis overwrites
// them in their places. None is longer than 64 bytes with what follows it: up to there
// (hash-max-listpack-value) Redis keeps a small hash in one piece, in half the
// memory (TestSmall).
type Layout []Field

// A Field is one number.
type Field struct {
	Name string // as both the scripts and lease.View's rows call it
	Kind Kind
}

// A Kind is how a number is spelled, most significant byte first.
type Kind int

const (
	Whole    Kind = iota // 7 bytes, from 0 to 2^53
	Scaled               // the same, in 2^-20: rates, demands and bursts are multiples of it
	Fraction             // 8 bytes: any number, as IEEE 754 has it
	Large                // 5 bytes, from 0 to 2^40-1
	Medium               // 3 bytes, from 0 to 2^24-1
	Count                // 2 bytes
	Small                // 1 byte
)

var sizes = [...]int{Whole: 7, Scaled: 7, Fraction: 8, Large: 5, Medium: 3, Count: 2, Small: 1}

var (
	// Sums are the field #: what changes with each exchange.
	Sums = Layout{
		{"at", Whole}, {"rates", Scaled}, {"bursts", Scaled}, {"demand", Scaled}, {"low", Scaled},
		{"pool", Fraction}, {"unrest", Fraction}, {"high", Count}, {"holders", Count},
		{"earmark", Whole},
	}

	// About is the field =: what seldom changes. The limit in force follows it as text.
	// If live holders declare several limits, places is the last one that has a
	// field; else it is 0, and all holders have their limit in the place only.
	About = Layout{
		{"version", Small}, {"born", Whole}, {"tick", Whole}, {"expiry", Whole}, {"ahead", Whole},
		{"places", Small}, {"only", Small}, {"past", Small}, {"crowd", Small},
	}

	// Past is what was used under other frames than the one in force, in the field &0 if past is
	// 1: tokens that count until the ends of windows, in that order and 0 behind, and when a
	// bucket would be full by its rate.
	Past = Layout{
		{"tokens1", Large}, {"ends1", Whole}, {"tokens2", Large}, {"ends2", Whole},
		{"tokens3", Large}, {"ends3", Whole}, {"full", Whole}, {"rate", Fraction},
	}

	// Rooms follow the counts of the calendar in the field @ while somebody refills from a lease
	// of a bucket. A room is the least room of the pool in a span, in lease's roomParts of the
	// Burst. Rooms stand by the number of their span.
	Rooms = Layout{
		{"room1", Count}, {"room2", Count}, {"room3", Count}, {"room4", Count},
		{"room5", Count}, {"room6", Count}, {"room7", Count}, {"room8", Count},
	}

	// Caution is that of a bucket, in the field &r while there is any.
	Caution = Layout{{"caution", Fraction}, {"denied", Fraction}}

	// Pile is the sums of the leases in one place of the calendar, of a key with a crowd of
	// holders: when the last of them ends, and when the last did that have fallen before. A pile
	// for each place is in the field &s, behind the seven bytes of when the next one falls, if
	// crowd is 1.
	Pile = Layout{
		{"last", Whole}, {"fell", Whole}, {"rates", Scaled}, {"bursts", Scaled}, {"demand", Scaled},
		{"low", Scaled}, {"high", Count}, {"marks", Whole},
	}

	// Classes are demands by class: those of all holders in the field &c, and those of a holder
	// in a field of && and its id, if its requests have classes.
	Classes = Layout{
		{"class1", Scaled}, {"class2", Scaled}, {"class3", Scaled}, {"class4", Scaled},
		{"class5", Scaled}, {"class6", Scaled}, {"class7", Scaled}, {"class8", Scaled},
	}

	// Lent is tokens by class. In the field &l it is what the pool of a bucket keeps for each class,
	// below 0 what that owes, or what each class has had of the window of a quota; in a field of &l
	// and a holder's id what the last answer has lent to it. Three of them, that, what a class may
	// keep, and what the pool keeps for it, follow an Answer with the flag Portioned.
	Lent = Layout{
		{"class1", Fraction}, {"class2", Fraction}, {"class3", Fraction}, {"class4", Fraction},
		{"class5", Fraction}, {"class6", Fraction}, {"class7", Fraction}, {"class8", Fraction},
	}

	// Declared is a limit that live holders declare, in the field % and its place.
	Declared = Layout{{"rate", Fraction}, {"burst", Whole}, {"holders", Count}}

	// Chunk is twelve panes of a sliding window, in the field & and its place: the number of
	// the chunk, and the tokens in each.
	Chunk = Layout{
		{"number", Count}, {"pane1", Large}, {"pane2", Large}, {"pane3", Large}, {"pane4", Large},
		{"pane5", Large}, {"pane6", Large}, {"pane7", Large}, {"pane8", Large},
		{"pane9", Large}, {"pane10", Large}, {"pane11", Large}, {"pane12", Large},
	}

	// Record is a holder's lease, in the field of its id.
	Record = Layout{
		{"seq", Whole}, {"at", Whole}, {"rate", Scaled}, {"burst", Scaled}, {"refills", Whole},
		{"life", Whole}, {"demand", Scaled}, {"add", Fraction}, {"shape", Small}, {"flags", Small},
		{"limit", Small}, {"place", Small}, {"mark", Medium},
	}
)

// Answer is what a reply has between the record and the sums, and the limit in force.
var Answer = Layout{
	{"keep", Scaled}, {"refresh", Whole}, {"expires", Whole}, {"taken", Whole}, {"retry", Whole},
	{"flags", Small},
}

// Parts follow an Answer with the flag Classed: those of the lease by class.
var Parts = Layout{
	{"part1", Count}, {"part2", Count}, {"part3", Count}, {"part4", Count},
	{"part5", Count}, {"part6", Count}, {"part7", Count}, {"part8", Count},
}

// SlidingOffset is the offset, in µs, by which a sliding window is told from a quota.
const SlidingOffset = -1

// Chunks is how many there are at most: the panes of a Window, and one more, are in as many.
const Chunks = 6

// Flags of a record.
const (
	High   = 1 << iota // wants more than the water level
	Marked             // of a quota, see lease.comeBack; of others, has a mark
	Ended              // the rate has ended
)

// Flags of a reply.
const (
	Contended = 1 << iota
	Dry
	Classed   // the parts of a lease by class follow
	Portioned // the portions of a quota's lease by class follow
	Ahead     // see lease.Reply
)

// request are the numbers of ARGV[2], in their order: a Fraction each. (A script calls them
// q.seq, ...)
var request = []string{
	"seq", "seen", "take", "min", "unit", "give", "held", "hold", "debt", "since", "got", "peak", "denied",
	"waits", // 1 if the first caller stays through a denial, or 0
	"demand", "lag", "claim", "left", "mode", "fairness", "batch", "minRefresh", "maxRefresh", "maxHold",
	"headroom", "burstShare", "smallest", "reserve", "rate", "burst",
	"window", "offset", // both 0 of slots, and SlidingOffset of a sliding window
	"used", // of a sliding window only
}

// Size is how long a value is, in bytes.
func (l Layout) Size() (n int) {
	for _, f := range l {
		n += sizes[f.Kind]
	}
	return n
}

// Read calls each with the numbers of a value that is Size bytes long.
func (l Layout) Read(value string, each func(name string, x float64)) {
	for _, f := range l {
		n := sizes[f.Kind]
		each(f.Name, f.Kind.read(value[:n]))
		value = value[n:]
	}
}

func (k Kind) read(s string) float64 {
	var bytes [8]byte
	copy(bytes[8-len(s):], s)
	n := binary.BigEndian.Uint64(bytes[:])
	switch k {
	case Fraction:
		return math.Float64frombits(n)
	case Scaled:
		return float64(n) / Resolution
	default:
		return float64(n)
	}
}

// AppendRequest spells the numbers of a request as ARGV[2] has them.
func AppendRequest(b []byte, numbers ...float64) []byte {
	for _, x := range numbers {
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(x))
	}
	return b
}

// Resolution is the number of steps in one token, and in one token per second, in which
// bursts, rates and demands are kept: that of package lease (TestResolution).
const Resolution = 1 << 20
