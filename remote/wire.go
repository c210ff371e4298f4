package remote

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// encode returns ARGV[2] and ARGV[3] of exchange.lua: the request, and the
// limit that it declares.
func encode(q *lease.Request) (request, limit string) {
	claim := -1.0 // none
	if q.Claim.Left > 0 {
		claim = q.Claim.Rate
	}
	demand := math.Floor(min(q.Demand, lease.MaxRate) * resolution)
	p := q.Policy.Resolved()
	b := make([]byte, 0, 192)
	b = append(b, '[')
	b = appendList(b,
		float64(q.Seq), float64(q.Seen), q.Take, q.Min, q.Unit, q.Give, q.Held, q.Spent,
		demand, q.Shift, micros(q.Lag), claim, micros(q.Claim.Left),
		float64(p.Mode), float64(p.Fairness), float64(p.Batch), micros(p.MinRefresh), micros(p.MaxRefresh), micros(p.MaxHold),
		p.Headroom, p.BurstShare, float64(p.Smallest), p.Reserve)
	b = append(b, ',')
	n := len(b)
	b = appendList(b, q.Limit.Rate, float64(q.Limit.Burst))
	limit = string(b[n:])
	return string(append(b, ']')), limit
}

func micros(d time.Duration) float64 { return float64(d / time.Microsecond) }

// appendList spells numbers exactly, with commas between.
func appendList(b []byte, numbers ...float64) []byte {
	for i, x := range numbers {
		if i > 0 {
			b = append(b, ',')
		}
		if n := int64(x); float64(n) == x {
			b = strconv.AppendInt(b, n, 10)
		} else {
			b = strconv.AppendFloat(b, x, 'g', -1, 64)
		}
	}
	return b
}

// flags of a reply.
const (
	intact = 1 << iota
	contended
	calm
	dry
)

// flags of a record.
const (
	high = 1 << iota
	ended
)

// resolution is the number of steps in one token per second, and in one token,
// in which exchange.lua stores rates and bursts.
const resolution = 1 << 20

// recordSize is how long a record is, in bytes.
const recordSize = 59

// parseReply reads the reply of exchange.lua to the request seq. A reply that
// is odd in any way is an error that says how, and never reaches a Holder.
func parseReply(seq uint64, v any) (lease.Reply, error) {
	reply, err := parse(v)
	if err == nil && reply.Stale {
		reply.Seq = seq
	} else if err == nil && reply.Seq != seq {
		err = fmt.Errorf("answers seq %d, not %d", reply.Seq, seq)
	}
	if err != nil {
		return lease.Reply{}, fmt.Errorf("odd reply %.200q: %w", fmt.Sprint(v), err)
	}
	return reply, nil
}

func parse(v any) (lease.Reply, error) {
	if text, ok := v.(string); ok {
		text, stale := strings.CutPrefix(text, "stale,")
		if !stale {
			return lease.Reply{}, errors.New("neither an array nor stale")
		}
		limit, err := parseLimit(text)
		return lease.Reply{Stale: true, Limit: limit}, err
	}
	list, ok := v.([]any)
	if !ok {
		return lease.Reply{}, fmt.Errorf("a %T, not an array", v)
	}
	if len(list) != 8 {
		return lease.Reply{}, fmt.Errorf("%d elements, not 8", len(list))
	}
	record, ok := list[0].(string)
	if !ok || len(record) != recordSize {
		return lease.Reply{}, fmt.Errorf("the record is not %d bytes", recordSize)
	}
	text, ok := list[7].(string)
	if !ok {
		return lease.Reply{}, errors.New("the limit is not a string")
	}
	r := reader{rest: record}
	reply := lease.Reply{Seq: r.whole("seq")}
	r.whole("at")
	reply.Rate = float64(r.whole("rate")) / resolution
	reply.Burst = float64(r.whole("burst")) / resolution
	reply.RateUntil = r.micros("until", r.whole("until"))
	r.whole("life")
	r.whole("demand")
	reply.Add = r.fraction("add")

	reply.Keep = float64(r.element(list, 1, "keep")) / resolution
	reply.Refresh = r.micros("refresh", r.element(list, 2, "refresh"))
	reply.Taken = float64(r.element(list, 3, "taken"))
	reply.RetryAfter = r.micros("retry", r.element(list, 4, "retry"))
	flags := r.within("flags", r.element(list, 5, "flags"), intact|contended|calm|dry)
	reply.Intact, reply.Contended = flags&intact != 0, flags&contended != 0
	reply.Calm, reply.Dry = flags&calm != 0, flags&dry != 0
	switch {
	case reply.RateUntil == 0:
		reply.Expires = reply.Refresh
	case reply.Calm:
		reply.Expires = reply.RateUntil + reply.Refresh/16
	default:
		reply.Expires = reply.RateUntil + 2*reply.Refresh
	}
	reply.Holders = int(r.within("holders", r.element(list, 6, "holders"), math.MaxInt32))
	if r.err != nil {
		return lease.Reply{}, r.err
	}
	var err error
	reply.Limit, err = parseLimit(text)
	return reply, err
}

// reader takes numbers off the front of a record and remembers the first that
// was odd.
type reader struct {
	rest string
	err  error
}

// within returns n, or 0 if it is above most.
func (r *reader) within(name string, n, most uint64) uint64 {
	if n > most {
		if r.err == nil {
			r.err = fmt.Errorf("%s %d is above %d", name, int64(n), most)
		}
		return 0
	}
	return n
}

// maxMicros keeps the sum of three durations within an int64 of ns.
const maxMicros = uint64(lease.MaxFill / time.Microsecond)

func (r *reader) micros(name string, n uint64) time.Duration {
	return time.Duration(r.within(name, n, maxMicros)) * time.Microsecond
}

// element is a whole number of the array.
func (r *reader) element(list []any, i int, name string) uint64 {
	n, ok := list[i].(int64)
	if !ok && r.err == nil {
		r.err = fmt.Errorf("%s is a %T, not a whole number", name, list[i])
	}
	return r.within(name, uint64(n), 1<<53) // one below 0 is above
}

// bytes takes the next n bytes off, as one number.
func (r *reader) bytes(n int) (x uint64) {
	for _, b := range []byte(r.rest[:n]) {
		x = x<<8 | uint64(b)
	}
	r.rest = r.rest[n:]
	return x
}

func (r *reader) whole(name string) uint64 { return r.within(name, r.bytes(7), 1<<53) }

// fraction is any number from 0 on.
func (r *reader) fraction(name string) float64 {
	mantissa := r.whole(name)
	x := math.Ldexp(float64(mantissa), int(r.bytes(2))-(1<<14)) // a sign is an exponent that large
	if x > 1<<53 {
		r.within(name, math.MaxUint64, 1<<53)
		return 0
	}
	return x
}

func parseLimit(text string) (lease.Limit, error) {
	left, right, _ := strings.Cut(text, ",")
	rate, err := strconv.ParseFloat(left, 64)
	burst, err2 := strconv.ParseInt(right, 10, 64)
	if err != nil || err2 != nil {
		return lease.Limit{}, fmt.Errorf("limit %.80q is not rate,burst", text)
	}
	limit := lease.Limit{Rate: rate, Burst: burst}
	return limit, limit.Validate()
}
