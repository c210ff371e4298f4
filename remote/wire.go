package remote

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/lua"
)

// encodedSize is about how many bytes encode needs.
const encodedSize = 288

// encode writes ARGV[2] and ARGV[3] of exchange.lua behind b: the request, and the
// limit that it declares. The numbers are in the order of lua/layout.go.
func encode(b []byte, q *lease.Request) (request, limit []byte) {
	claim := -1.0 // none
	if q.Claim.Left > 0 {
		claim = q.Claim.Rate
	}
	waits := 0.0
	if q.Waits {
		waits = 1
	}
	demand := math.Floor(min(q.Demand, lease.MaxRate) * lua.Resolution)
	p := q.Policy.Resolved()
	request = lua.AppendRequest(b[len(b):],
		float64(q.Seq), float64(q.Seen), q.Take, q.Min, q.Unit, q.Give, q.Held,
		micros(q.Hold), q.Debt, float64(q.Since), q.Got, q.Peak, q.Denied, waits, demand, micros(q.Lag), claim, micros(q.Claim.Left),
		float64(p.Mode), float64(p.Fairness), float64(p.Batch),
		micros(p.MinRefresh), micros(p.MaxRefresh), micros(p.MaxHold),
		p.Headroom, p.BurstShare, float64(p.Smallest), p.Reserve)
	kind := kinds[q.Limit.Kind]
	declared := append([]float64{q.Limit.Rate, float64(q.Limit.Burst)}, kind.declare(q.Limit)...)
	request = lua.AppendRequest(request, declared...)
	request = lua.AppendRequest(request, kind.ask(q)...)
	return request, appendList(request[len(request):], declared...)
}

// encodeClasses returns ARGV[4] of exchange.lua, or of quota.lua.
func encodeClasses(kind lease.Kind, by *lease.ByClass) string {
	b := lua.AppendRequest(make([]byte, 0, 256), float64(by.First+1))
	for c, class := range by.Classes {
		demand := math.Floor(min(by.Demand[c], lease.MaxRate) * lua.Resolution)
		b = lua.AppendRequest(b, demand, class.Floor, class.Weight)
		if kind == lease.KindQuota {
			b = lua.AppendRequest(b, by.Own[c], by.Debt[c], by.Back[c])
		}
	}
	return string(b)
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

// parseReply reads the reply of exchange.lua to the request seq. A reply that
// is odd in any way is an error that says how, and never reaches a Holder.
func parseReply(seq uint64, v any) (lease.Reply, error) {
	reply, err := parse(seq, v)
	if err == nil && reply.Seq != seq {
		err = fmt.Errorf("answers seq %d, not %d", reply.Seq, seq)
	}
	if err != nil {
		return lease.Reply{}, fmt.Errorf("odd reply %.200q: %w", fmt.Sprint(v), err)
	}
	return reply, nil
}

func parse(seq uint64, v any) (lease.Reply, error) {
	text, ok := v.(string)
	if !ok {
		return lease.Reply{}, fmt.Errorf("a %T, not a string", v)
	}
	if text, ok := strings.CutPrefix(text, "elsewhere,"); ok {
		return parseElsewhere(seq, text)
	}
	if text, ok := strings.CutPrefix(text, "stale,"); ok {
		limit, err := parseLimit(text)
		return lease.Reply{Seq: seq, Stale: true, Limit: limit}, err
	}
	return parseAnswer(text)
}

var recordSize, sumsSize, answerSize = lua.Record.Size(), lua.Sums.Size(), lua.Answer.Size()

// parseAnswer reads a record, the sums, six numbers and the limit in force.
func parseAnswer(text string) (lease.Reply, error) {
	if n := recordSize + sumsSize + answerSize; len(text) < n {
		return lease.Reply{}, fmt.Errorf("%d bytes, not %d and a limit", len(text), n)
	}
	record, text := text[:recordSize], text[recordSize:]
	sums, text := text[:sumsSize], text[sumsSize:]
	parts := [lease.MaxClasses]uint16{}
	rest := text[answerSize:]
	if int(text[answerSize-1])&lua.Classed != 0 {
		var err error
		if parts, rest, err = parseParts(rest); err != nil {
			return lease.Reply{}, err
		}
	}
	var portions *lease.Portions
	var r reader
	if int(text[answerSize-1])&lua.Portioned != 0 {
		if portions, rest = r.portions(rest); r.err != nil {
			return lease.Reply{}, r.err
		}
	}
	limit, err := parseLimit(rest)
	if err != nil {
		return lease.Reply{}, err
	}
	reply, own, mark := r.record(record)
	reply.Limit, reply.Parts, reply.Portions = limit, parts, portions
	reply = kinds[limit.Kind].answer(reply)
	reply.Holders, reply.Pool = r.sums(sums, limit, own)
	reply.Pool.Earmark = max(reply.Pool.Earmark-mark, 0)
	r.answer(text, &reply)
	return reply, r.err
}

// parseParts reads the parts of a lease by class, and returns what follows.
func parseParts(text string) (parts [lease.MaxClasses]uint16, rest string, err error) {
	n := lua.Parts.Size()
	if len(text) < n {
		return parts, "", fmt.Errorf("%d bytes, not %d of parts", len(text), n)
	}
	c := 0
	lua.Parts.Read(text[:n], func(_ string, x float64) {
		parts[c] = uint16(x)
		c++
	})
	return parts, text[n:], nil
}

// portions reads the portions of a quota's lease by class, and returns what follows.
func (r *reader) portions(text string) (p *lease.Portions, rest string) {
	n := lua.Lent.Size()
	if len(text) < 3*n {
		r.err = fmt.Errorf("%d bytes, not %d of portions", len(text), 3*n)
		return nil, ""
	}
	p = new(lease.Portions)
	for _, list := range []*[lease.MaxClasses]float64{&p.Add, &p.Keep, &p.Kept} {
		c := 0
		lua.Lent.Read(text[:n], func(name string, x float64) {
			list[c] = r.within(name, x, 1<<53)
			c++
		})
		text = text[n:]
	}
	return p, text
}

// parseElsewhere reads the reply to a holder whose kind of limit is not in force: when to ask
// again, the number of holders of the other kind, and its limit.
func parseElsewhere(seq uint64, text string) (lease.Reply, error) {
	retry, text, _ := strings.Cut(text, ",")
	holders, text, _ := strings.Cut(text, ",")
	us, err := strconv.ParseInt(retry, 10, 64)
	n, err2 := strconv.Atoi(holders)
	if err := cmp.Or(err, err2); err != nil || us < 0 || float64(us) > maxMicros || n < 0 {
		return lease.Reply{}, errors.New("elsewhere is not followed by a time and a number")
	}
	limit, err := parseLimit(text)
	return lease.Reply{Seq: seq, RetryAfter: micro(float64(us)), Holders: n, Limit: limit}, err
}

// maxMicros keeps the sum of three durations within an int64 of ns.
const maxMicros = float64(lease.MaxFill / time.Microsecond)

// reader remembers the first number that was odd.
type reader struct{ err error }

// record is what a reply takes from a record as it is stored, the holder's demand, and what the
// pool keeps for it.
func (r *reader) record(text string) (reply lease.Reply, demand, mark float64) {
	lua.Record.Read(text, func(name string, x float64) {
		switch name {
		case "seq":
			reply.Seq = uint64(r.within(name, x, 1<<53))
		case "at":
			reply.Fence = uint64(r.within(name, x, 1<<53))
		case "rate":
			reply.Rate = r.within(name, x, 1<<33)
		case "burst":
			reply.Burst = r.within(name, x, 1<<33)
		case "refills":
			reply.RateUntil = micro(r.within(name, x, maxMicros))
		case "demand":
			demand = x
		case "add":
			reply.Add = r.within(name, x, 1<<53)
		case "shape":
			reply.Shape = lease.Shape(r.within(name, x, float64(lease.Block)))
		case "mark":
			mark = x
		}
	})
	return reply, demand, mark
}

// sums is what a reply takes from the sums as they are stored, under the limit in force. Of the
// demand in them the holder's own is known.
func (r *reader) sums(text string, limit lease.Limit, own float64) (holders int, pool lease.Pool) {
	pool = lease.Pool{Room: float64(limit.Burst)}
	free, others := limit.Rate, -own
	lua.Sums.Read(text, func(name string, x float64) {
		switch name {
		case "holders":
			holders = int(x)
		case "rates":
			free -= x
		case "demand":
			others += x
		case "bursts":
			pool.Room -= x
		case "earmark":
			pool.Earmark = r.within(name, x, 1<<53)
		case "pool":
			pool.Level = x
			if r.err == nil && x-x != 0 {
				r.err = fmt.Errorf("%s %v is not a number of tokens", name, x)
			}
		}
	})
	pool.Flow = kinds[limit.Kind].flow(free, others)
	return holders, pool
}

// within returns x, or 0 if it is not from 0 to most.
func (r *reader) within(name string, x, most float64) float64 {
	if x >= 0 && x <= most {
		return x
	}
	if r.err == nil {
		r.err = fmt.Errorf("%s %v is not from 0 to %v", name, x, most)
	}
	return 0
}

// answer reads what follows the record and the sums.
func (r *reader) answer(text string, reply *lease.Reply) {
	lua.Answer.Read(text, func(name string, x float64) {
		switch name {
		case "keep":
			reply.Keep = r.within(name, x, 1<<33)
		case "refresh":
			reply.Refresh = micro(r.within(name, x, maxMicros))
		case "expires":
			reply.Expires = micro(r.within(name, x, maxMicros))
		case "taken":
			reply.Taken = r.within(name, x, 1<<53)
		case "retry":
			reply.RetryAfter = micro(r.within(name, x, maxMicros))
		case "flags":
			flags := int(r.within(name, x, lua.Contended|lua.Dry|lua.Classed|lua.Portioned|lua.Ahead))
			reply.Contended, reply.Dry = flags&lua.Contended != 0, flags&lua.Dry != 0
			reply.Ahead = flags&lua.Ahead != 0
		}
	})
}

func micro(us float64) time.Duration { return time.Duration(us) * time.Microsecond }

// parseLimit reads rate,burst of a token bucket, 0,burst,window,offset of a quota, or 0,burst,0,0
// of slots. The offset of a sliding window is lua.SlidingOffset.
func parseLimit(text string) (lease.Limit, error) {
	var x [4]float64
	n, odd := 0, false
	for number := range strings.SplitSeq(text, ",") {
		if odd = odd || n == len(x); odd {
			break
		}
		v, err := strconv.ParseFloat(number, 64)
		odd = err != nil || n > 0 && !(math.Abs(v) <= maxMicros && v == math.Trunc(v))
		x[n] = v
		n++
	}
	odd = odd || n < 2
	for i := 0; i < len(kinds) && !odd; i++ {
		limit := lease.Limit{Rate: x[0], Burst: int64(x[1]), Kind: lease.Kind(i)}
		if limit, ok := kinds[i].declared(limit, x[2:n]); ok {
			return limit, limit.Validate()
		}
	}
	return lease.Limit{}, fmt.Errorf("limit %.80q is not rate,burst or 0,burst,window,offset", text)
}
