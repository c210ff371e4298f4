package remote

import (
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
		float64(p.Mode), float64(p.Fairness), float64(p.Batch), micros(p.MinRefresh), micros(p.MaxRefresh),
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

// flags of a record.
const (
	intact = 1 << iota
	contended
	high
	ended
)

// resolution is the number of steps in one token per second in which
// exchange.lua stores rates.
const resolution = 1 << 20

// parseReply reads the reply of exchange.lua to the request seq. A reply that
// is odd in any way is an error that says how, and never reaches a Holder.
func parseReply(seq uint64, v any) (lease.Reply, error) {
	text, ok := v.(string)
	if !ok {
		return lease.Reply{}, fmt.Errorf("odd reply: %T, not a string", v)
	}
	if limit, stale := strings.CutPrefix(text, "stale,"); stale {
		r := reader{fields: strings.Split(limit, ",")}
		return r.finish(seq, text, lease.Reply{Seq: seq, Stale: true, Limit: r.limit()})
	}
	record, rest, ok := strings.Cut(text, "]")
	if !ok || !strings.HasPrefix(record, "[") || !strings.HasPrefix(rest, ",") {
		return lease.Reply{}, fmt.Errorf("odd reply %.200q: no record", text)
	}
	r := reader{fields: strings.Split(record[1:]+rest, ",")}
	reply := lease.Reply{Seq: r.whole("seq", 1<<53)}
	r.whole("at", 1<<53)
	reply.Rate = float64(r.whole("rate", 1<<53)) / resolution
	reply.Burst = r.number("burst")
	reply.Keep = r.number("keep")
	refresh := r.micros("refresh")
	until := r.micros("until")
	reply.Refresh, reply.RateUntil, reply.Expires = refresh, until, until+2*refresh
	r.micros("life")
	r.whole("demand", 1<<53)
	reply.Taken = float64(r.whole("taken", 1<<53))
	reply.Add = r.number("add")
	reply.RetryAfter = r.micros("retry")
	flags := r.whole("flags", intact|contended|high|ended)
	reply.Intact, reply.Contended = flags&intact != 0, flags&contended != 0
	reply.Lent = float64(r.whole("lent", 1<<53)) / resolution
	reply.Holders = int(r.whole("holders", math.MaxInt32))
	reply.Limit = r.limit()
	return r.finish(seq, text, reply)
}

// reader takes numbers off fields and remembers the first that was odd.
type reader struct {
	fields []string
	err    error
}

func (r *reader) next(name string) string {
	if len(r.fields) == 0 {
		r.fail("no %s", name)
		return ""
	}
	f := r.fields[0]
	r.fields = r.fields[1:]
	return f
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

func (r *reader) whole(name string, most uint64) uint64 {
	f := r.next(name)
	n, err := strconv.ParseUint(f, 10, 64)
	if err != nil || n > most {
		r.fail("%s %.40q is not a whole number from 0 to %d", name, f, most)
		return 0
	}
	return n
}

// maxMicros keeps the sum of three durations within an int64 of ns.
const maxMicros = uint64(lease.MaxFill / time.Microsecond)

func (r *reader) micros(name string) time.Duration {
	return time.Duration(r.whole(name, maxMicros)) * time.Microsecond
}

func (r *reader) number(name string) float64 {
	f := r.next(name)
	x, err := strconv.ParseFloat(f, 64)
	if err != nil || !(x >= 0) || x > 1<<53 {
		r.fail("%s %.40q is not a number from 0 to 2^53", name, f)
		return 0
	}
	return x
}

func (r *reader) limit() lease.Limit {
	limit := lease.Limit{Rate: r.number("limit's rate"), Burst: int64(r.whole("limit's burst", lease.MaxBurst))}
	if err := limit.Validate(); err != nil {
		r.fail("%w", err)
	}
	return limit
}

// finish returns reply, or what was odd about the text that it was read from.
func (r *reader) finish(seq uint64, text string, reply lease.Reply) (lease.Reply, error) {
	if len(r.fields) > 0 {
		r.fail("%d fields too many", len(r.fields))
	}
	if reply.Seq != seq {
		r.fail("answers seq %d, not %d", reply.Seq, seq)
	}
	if r.err != nil {
		return lease.Reply{}, fmt.Errorf("odd reply %.200q: %w", text, r.err)
	}
	return reply, nil
}
