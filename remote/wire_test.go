package remote

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest"
)

// record spells a record as exchange.lua does.
func record(seq, rate, burst, refills uint64, add float64, shape byte) string {
	var b []byte
	for _, n := range []uint64{seq, 1795223759759042, rate, burst, refills, 900000, 157286601} {
		b = append(b, binary.BigEndian.AppendUint64(nil, n)[1:]...)
	}
	b = binary.BigEndian.AppendUint64(b, math.Float64bits(add))
	return string(append(b, shape, 1, 1, 1))
}

// sums spells sums as exchange.lua does.
func sums(rates, bursts uint64, pool float64, holders uint16) string {
	var b []byte
	for _, n := range []uint64{1795223759759042, rates, bursts, 157286601, 157286600} {
		b = append(b, binary.BigEndian.AppendUint64(nil, n)[1:]...)
	}
	b = binary.BigEndian.AppendUint64(b, math.Float64bits(pool))
	b = append(b, make([]byte, 8)...) // the unrest
	b = binary.BigEndian.AppendUint16(b, 1)
	b = binary.BigEndian.AppendUint16(b, holders)
	return string(append(b, make([]byte, 7)...)) // no earmark
}

// answer spells what follows the sums as exchange.lua does.
func answer(keep, refresh, expires, taken, retry uint64, flags byte) string {
	var b []byte
	for _, n := range []uint64{keep, refresh, expires, taken, retry} {
		b = append(b, binary.BigEndian.AppendUint64(nil, n)[1:]...)
	}
	return string(append(b, flags))
}

// goodReply is one whose parts may be changed: the record, the sums, the answer and the limit.
func goodReply() [4]string {
	return [4]string{
		record(7, 1<<20, 62<<20, 313231, 0.1875, byte(lease.Slice)), sums(3<<18, 162<<20, 384, 8),
		answer(60<<20, 250000, 813231, 3, 1000, 1), "1.5,1000",
	}
}

func joined(reply [4]string) string { return strings.Join(reply[:], "") }

func TestParseReply(t *testing.T) {
	want := lease.Reply{
		Seq: 7, Taken: 3, Add: 0.1875, Shape: lease.Slice, Rate: 1, Burst: 62, Keep: 60,
		Refresh: 250 * time.Millisecond, RateUntil: 313231 * time.Microsecond,
		Expires:    813231 * time.Microsecond,
		RetryAfter: time.Millisecond, Contended: true,
		Holders: 8, Limit: lease.Limit{Rate: 1.5, Burst: 1000},
		Pool: lease.Pool{Level: 384, Flow: 0.75, Room: 838},
	}
	if got, err := parseReply(7, joined(goodReply())); got != want || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	stale := lease.Reply{Seq: 7, Stale: true, Limit: want.Limit}
	if got, err := parseReply(7, "stale,1.5,1000"); got != stale || err != nil {
		t.Errorf("%+v, %v", got, err)
	}

	// A quota's record has its window where that of a bucket has the end of the rate.
	quota := lease.Limit{Kind: lease.KindQuota, Burst: 1000, Window: lease.Month, Offset: -time.Hour}
	reply := goodReply()
	reply[0], reply[3] = record(7, 0, 62<<20, 313231, 0.1875, byte(lease.Batch)), "0,1000,2629746000000,-3600000000"
	want.Rate, want.Shape, want.Limit, want.Pool.Flow = 0, lease.Batch, quota, 0
	want.Window, want.RateUntil, want.Fence = want.RateUntil, 0, 1795223759759042
	if got, err := parseReply(7, joined(reply)); got != want || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	// Slots' record has how many are in use in the place of the rate, and its time is the fence.
	slots := lease.Limit{Kind: lease.KindSlots, Burst: 1000}
	reply[0], reply[3] = record(7, 3<<20, 62<<20, 313231, 0.1875, byte(lease.Block)),
		"0,1000,0,0"
	want.Shape, want.Limit, want.Window = lease.Block, slots, 0
	if got, err := parseReply(7, joined(reply)); got != want || err != nil {
		t.Errorf("%+v, not %+v, %v", got, want, err)
	}
	elsewhere := lease.Reply{Seq: 7, RetryAfter: 250 * time.Millisecond, Holders: 3, Limit: quota}
	if got, err := parseReply(7, "elsewhere,250000,3,0,1000,2629746000000,-3600000000"); got != elsewhere || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// Whatever answers in the place of the script, the error says what was odd.
func TestOddReplies(t *testing.T) {
	change := func(i int, to string) string {
		r := goodReply()
		r[i] = to
		return joined(r)
	}
	const over, ten = 1 << 54, 10
	for _, c := range []struct {
		reply any
		want  string
	}{
		{nil, "<nil>, not a string"},
		{int64(7), "int64, not a string"},
		{[]any{}, "[]interface {}, not a string"},
		{"", "0 bytes, not 159 and a limit"},
		{"OK", "2 bytes"},
		{"stale", "5 bytes"},
		{"stale,", "limit"},
		{"stale,1", "limit"},
		{"stale,1,2,3", "limit"},
		{"stale,NaN,2", "limit"},
		{"stale,0,5,60000000", "limit"},
		{"stale,0,5,60000000,0,0", "limit"},
		{"stale,0,5,60000000.5,0", "limit"},
		{"stale,0,5,1e300,0", "limit"},
		{"stale,1,5,60000000,0", "Rate 1 of a quota"},
		{"stale,0,5,1,0", "Window 1µs"},
		{"stale,1,5,0,0", "Rate 1, Window 0s or Offset 0s of slots"},
		{"elsewhere,", "elsewhere"},
		{"elsewhere,x,3,1,2", "elsewhere"},
		{"elsewhere,-1,3,1,2", "elsewhere"},
		{"elsewhere,1,-3,1,2", "elsewhere"},
		{"elsewhere,9223372036854775807,3,1,2", "elsewhere"},
		{"elsewhere,1,3,1", "limit"},
		{change(0, "short"), "bytes, not 159"},
		{change(0, record(8, 1, 1, 1, 0, 2)), "answers seq 8, not 7"},
		{change(0, record(over, 1, 1, 1, 0, 2)), "seq"},
		{change(0, record(7, over, 1, 1, 0, 2)), "rate"},
		{change(0, record(7, 1, over, 1, 0, 2)), "burst"},
		{change(0, record(7, 1, 1, uint64(lease.MaxFill), 0, 2)), "refills"},
		{change(0, record(7, 1, 1, 1, 1<<54, 2)), "add"},
		{change(0, record(7, 1, 1, 1, -0.5, 2)), "add"},
		{change(0, record(7, 1, 1, 1, math.NaN(), 2)), "add"},
		{change(0, record(7, 1, 1, 1, 0, 5)), "shape"},
		{change(1, sums(0, 0, math.Inf(1), 8)), "pool +Inf"},
		{change(1, sums(0, 0, math.Inf(-1), 8)), "pool -Inf"},
		{change(1, sums(0, 0, math.NaN(), 8)), "pool NaN"},
		{change(2, answer(over, ten, ten, ten, ten, 1)), "keep"},
		{change(2, answer(ten, over, ten, ten, ten, 1)), "refresh"},
		{change(2, answer(ten, ten, over, ten, ten, 1)), "expires"},
		{change(2, answer(ten, ten, ten, over, ten, 1)), "taken"},
		{change(2, answer(ten, ten, ten, ten, over, 1)), "retry"},
		{change(2, answer(ten, ten, ten, ten, ten, 32)), "flags"},
		{change(3, ""), "limit"},
		{change(3, "0,1000"), "invalid limit"},
		{change(3, "Inf,1000"), "invalid limit"},
		{change(3, "1,1.5"), "limit"},
		{strings.Repeat("9", 10000), "limit"},
		{change(3, strings.Repeat("9", 10000)), "limit"},
	} {
		got, err := parseReply(7, c.reply)
		if err == nil || !strings.Contains(err.Error(), "odd reply") ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%.100q: %v, does not say %q", fmt.Sprint(c.reply), err, c.want)
		} else if got != (lease.Reply{}) || len(err.Error()) > 900 {
			t.Errorf("%.100q: %+v, %v", fmt.Sprint(c.reply), got, err)
		}
	}
}

func FuzzParseReply(f *testing.F) {
	good := goodReply()
	f.Add(joined(good))
	good[3] = "0,1000,86400000000,3600000000"
	f.Add(joined(good))
	good[1] = strings.Repeat("\x00", len(good[1]))
	f.Add(joined(good))
	f.Add("elsewhere,250000,3,1.5,1000")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parseReply(7, text)
		if err != nil {
			return
		}
		if r.Seq != 7 || r.Limit.Validate() != nil {
			t.Errorf("%+v", r)
		}
		for _, x := range []float64{r.Taken, r.Add, r.Rate, r.Burst, r.Keep} {
			if !(x >= 0) || x > 1<<53 {
				t.Errorf("%v in %+v", x, r)
			}
		}
		least := 0.0 // tokens/s that flow into the pool: of a quota less than none
		if r.Limit.Kind == lease.KindQuota {
			least = -1 << 53
		}
		if p := r.Pool; math.IsNaN(p.Level) || math.IsInf(p.Level, 0) || !(p.Flow >= least) ||
			p.Flow > r.Limit.Rate || !(p.Room <= float64(r.Limit.Burst)) || r.Holders < 0 {
			t.Errorf("%+v", r)
		}
		for _, d := range []time.Duration{r.Refresh, r.RateUntil, r.Expires, r.RetryAfter, r.Window} {
			if d < 0 || d > 3*lease.MaxFill {
				t.Errorf("%v in %+v", d, r)
			}
		}
	})
}

// A View has as many ways to be odd, but only people look at it.
func TestOddViews(t *testing.T) {
	for _, v := range []any{
		nil, "", int64(1), []any{"rate"}, []any{nil}, []any{[]any{1}}, []any{[]any{}},
		[]any{[]any{"rate"}}, []any{[]any{"ends", strings.Repeat("0 ", 23)}},
		[]any{[]any{"ends", strings.Repeat("x ", 23)}},
	} {
		if view, err := parseView(v); err == nil || !strings.Contains(err.Error(), "odd reply") {
			t.Errorf("%v: %+v, %v", v, view, err)
		}
	}
	if view, err := parseView([]any{}); err != nil || view.At != 0 {
		t.Errorf("%+v, %v", view, err)
	}
}

// FuzzParseView: newlines and commas stand between rows and values, and semicolons for
// commas.
func FuzzParseView(f *testing.F) {
	ledger := "limit,100;20,at,1e15,rates,1,bursts,2,demand,3,low,0,pool,-1.5,unrest,0.1,high,1,holders,1,surplus,0,ends," +
		strings.Repeat("0 ", 23) + ",born,1,slot,62500,expiry,0"
	const holder = "h,seq,7,at,1,rate,1,burst,2,until,3,life,4,demand,5,add,6,flags,3"
	f.Add(ledger)
	f.Add(ledger + "\n" + holder + "\n" + holder)
	f.Add(ledger + "\nh,seq,NaN,at,Inf\n\n,")
	f.Fuzz(func(t *testing.T, text string) {
		var rows []any
		for row := range strings.SplitSeq(text, "\n") {
			var values []any
			for value := range strings.SplitSeq(row, ",") {
				values = append(values, strings.ReplaceAll(value, ";", ","))
			}
			rows = append(rows, values)
		}
		view, err := parseView(rows)
		if err != nil &&
			(!strings.HasPrefix(err.Error(), "odd reply") || len(err.Error()) > 10*len(text)+500) {
			t.Errorf("%q: %v", text, err)
		}
		if err == nil && len(view.Holders) != len(rows)-1 {
			t.Errorf("%q: %+v", text, view)
		}
	})
}

// numbers are those of a request, exactly.
func numbers(t *testing.T, request string) (list []float64) {
	for b := []byte(request); len(b) > 0; b = b[8:] {
		if len(b) < 8 {
			t.Fatalf("%x ends within a number", request)
		}
		list = append(list, math.Float64frombits(binary.BigEndian.Uint64(b)))
	}
	return list
}

// The script gets exactly what the holder says, and a text for the limit that both Redis and
// miniredis read back exactly.
func TestEncode(t *testing.T) {
	q := lease.Request{
		Holder: "h", Seq: 1 << 53, Seen: 9007199254740991, Take: 1 << 40, Min: 1,
		Give: 1.0 / 3, Held: 5e-324, Hold: 7 * time.Second, Debt: 0.1, Since: 9, Got: 2.0 / 7, Peak: 3.0 / 7, Denied: 11, Demand: 1 << 40,
		Lag:   1999 * time.Nanosecond,
		Claim: lease.Claim{Rate: 0.25, Left: 1}, Limit: lease.Limit{Rate: 1e-7, Burst: 1},
		Policy: lease.Policy{Mode: lease.Shares, Fairness: lease.MaxMin, MaxRefresh: time.Hour},
	}
	request, limit := encode(nil, &q)
	want := []float64{
		1 << 53, 9007199254740991, 1 << 40, 1, 0, 1.0 / 3, 5e-324, 7e6, 0.1, 9, 2.0 / 7, 3.0 / 7,
		11, 1 << 52, 1, 0.25, 0, 2, 1, 100, 20000, 3600e6, 3600e6, 0.1, 0.5, 4, 0.05, 1e-7, 1,
	}
	if got := numbers(t, string(request)); !slices.Equal(got, want) || string(limit) != "1e-07,1" {
		t.Errorf("%v\n%s", got, limit)
	}
	q.Claim = lease.Claim{Rate: 5}
	q.Demand = math.Nextafter(1, 0)
	request, _ = encode(nil, &q)
	if got := numbers(t, string(request))[13:17]; !slices.Equal(got, []float64{1048575, 1, -1, 0}) {
		t.Errorf("%v", got)
	}
	q.Used = 7
	for _, c := range []struct {
		limit lease.Limit
		text  string
		want  []float64
	}{
		{
			lease.Limit{Kind: lease.KindQuota, Burst: 10_000, Window: lease.Day, Offset: -time.Hour},
			"0,10000,86400000000,-3600000000", []float64{0.05, 0, 10000, 86400e6, -3600e6},
		},
		{lease.Limit{Kind: lease.KindSlots, Burst: 5}, "0,5,0,0", []float64{0.05, 0, 5, 0, 0}},
		{
			lease.Limit{Kind: lease.KindSliding, Burst: 5, Window: time.Second},
			"0,5,1000000,-1", []float64{0.05, 0, 5, 1e6, -1, 7},
		},
	} {
		q.Limit = c.limit
		request, limit = encode(nil, &q)
		if got := numbers(t, string(request))[26:]; !slices.Equal(got, c.want) || string(limit) != c.text {
			t.Errorf("%v, %s: not %v, %s", got, limit, c.want, c.text)
		}
	}
}

// TestWireClasses: the parts of a lease by class follow its numbers, and no reply is read without
// them that has said so.
func TestWireClasses(t *testing.T) {
	client := redistest.Start(t).Client()
	store := New(client)
	classes := []lease.Class{{Name: "a", Floor: 0.5}, {Name: "b", Weight: 1}}
	call := &lease.Call{Key: "k", Request: lease.Request{
		Holder: "h", Seq: 1, Demand: 900, Limit: lease.Limit{Rate: 1000, Burst: 1000},
		Policy:  lease.Policy{}.Resolved(),
		ByClass: &lease.ByClass{Classes: classes, Demand: [lease.MaxClasses]float64{300, 600}},
	}}
	store.Exchange(t.Context(), []*lease.Call{call})
	if call.Err != nil || call.Reply.Parts != [lease.MaxClasses]uint16{21845, 43690} {
		t.Errorf("parts %v, %v", call.Reply.Parts, call.Err)
	}
	if _, rest, err := parseParts("too short"); err == nil {
		t.Errorf("parts of 9 bytes leave %q", rest)
	}
	if size := client.HStrLen(t.Context(), "ration:k", "&&h").Val(); size != 56 {
		t.Errorf("%d bytes of demands by class, not 56", size)
	}
}

// TestWirePortions: so do those of a quota, and a key without classes has none of their fields.
func TestWirePortions(t *testing.T) {
	client := redistest.Start(t).Client()
	store := New(client)
	request := lease.Request{
		Holder: "h", Seq: 1, Take: 10, Min: 10, Demand: 900,
		Limit:  lease.Limit{Kind: lease.KindQuota, Burst: 1000, Window: lease.Month},
		Policy: lease.Policy{Batch: 1000}.Resolved(),
	}
	plain := &lease.Call{Key: "plain", Request: request}
	classed := &lease.Call{Key: "k", Request: request}
	classed.Request.ByClass = &lease.ByClass{
		Classes: []lease.Class{{Name: "a", Floor: 0.5}, {Name: "b"}},
		Demand:  [lease.MaxClasses]float64{300, 600}, First: 1,
	}
	store.Exchange(t.Context(), []*lease.Call{plain, classed})
	p := classed.Reply.Portions
	if classed.Err != nil || p == nil || p.Add[0] == 0 || p.Add[0] != p.Keep[0] ||
		p.Kept[0] != 500-p.Add[0] {
		t.Errorf("portions %+v, %v", p, classed.Err)
	}
	fields := client.HLen(t.Context(), "ration:plain").Val()
	if plain.Err != nil || plain.Reply.Portions != nil || fields != 4 {
		t.Errorf("without classes: %+v, %v", plain.Reply, plain.Err)
	}
	for field, want := range map[string]int64{"&l": 64, "&lh": 64, "&&h": 56, "&c": 56} {
		if size := client.HStrLen(t.Context(), "ration:k", field).Val(); size != want {
			t.Errorf("%d bytes in %s, not %d", size, field, want)
		}
	}
	var r reader
	if p, _ := r.portions(strings.Repeat("x", 191)); r.err == nil {
		t.Errorf("191 bytes are portions %v", p)
	}
	r = reader{}
	if p, _ := r.portions(strings.Repeat("\xff", 192)); r.err == nil {
		t.Errorf("portions of no numbers are %v", p)
	}
}
