package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local/gauge"
	"github.com/seed13b07268/ration/lua"
)

// A View is what the ledger of a key knew when it last answered: the limit in force, and of
// each holder its demand and its lease.
type View struct {
	lease.View

	// Jain is Jain's index over Parts: 1 if all holders that refill get the same part of what
	// they are asked for, and 1 where fewer than two refill.
	Jain float64
}

// Inspect returns what the ledger of key knows; if there is none, a View without a Limit.
// It changes nothing. It is one script call, and returns as Exchange does.
func (s *Store) Inspect(ctx context.Context, key string) (View, error) {
	if s.rdb == nil {
		return View{}, errNoClient
	}
	cmd := inspect.command(ctx, s.name(key))
	s.run(ctx, []*command{cmd})
	v, err := cmd.Result()
	var view lease.View
	if err == nil {
		view, err = parseView(v)
	}
	if err != nil {
		return View{}, fmt.Errorf("remote: inspect %s: %w", shorten(key), err)
	}
	return View{view, gauge.Jain(view.Parts())}, nil
}

func parseView(v any) (lease.View, error) {
	rows, ok := v.([]any)
	if !ok {
		return lease.View{}, fmt.Errorf("odd reply: %T, not an array", v)
	}
	var view lease.View
	var limits map[int]lease.DeclaredLimit
	for i, row := range rows {
		texts, err := texts(row)
		if err != nil {
			return lease.View{}, err
		}
		if i == 0 {
			limits, err = parseLedger(&view, texts)
		} else {
			var h lease.HolderView
			h, err = parseHolder(texts, limits)
			view.Holders = append(view.Holders, h)
		}
		if err != nil {
			return lease.View{}, fmt.Errorf("odd reply %.200q: %w", texts, err)
		}
	}
	tidy(&view, limits)
	return view, nil
}

// tidy puts holders and limits in order. A limit that is the only one is that of all.
func tidy(v *lease.View, limits map[int]lease.DeclaredLimit) {
	slices.SortFunc(v.Holders, func(a, b lease.HolderView) int { return cmp.Compare(a.ID, b.ID) })
	for _, d := range limits {
		v.Limits = append(v.Limits, d)
	}
	slices.SortFunc(v.Limits, lease.DeclaredLimit.Compare)
	if len(limits) > 0 || len(v.Holders) == 0 {
		return
	}
	v.Limits = []lease.DeclaredLimit{{Limit: v.Limit, Holders: len(v.Holders)}}
	for i := range v.Holders {
		v.Holders[i].Limit = v.Limit
	}
}

func texts(row any) ([]string, error) {
	list, ok := row.([]any)
	if !ok {
		return nil, fmt.Errorf("odd reply: %T in the place of an array", row)
	}
	texts := make([]string, len(list))
	for i, x := range list {
		if texts[i], ok = x.(string); !ok {
			return nil, fmt.Errorf("odd reply: %T in the place of a string", x)
		}
	}
	return texts, nil
}

// parseLedger reads all but the holders, and returns the limits by place if there are several.
func parseLedger(v *lease.View, texts []string) (map[int]lease.DeclaredLimit, error) {
	p := parsePairs(texts)
	limit, err := parseLimit(p.values["limit"])
	if err != nil {
		return nil, err
	}
	v.Limit = limit
	v.At, v.Born, v.Pool = p.number("at"), p.number("born"), p.number("pool")
	v.Ahead = p.number("ahead")
	v.Rates, v.Bursts, v.Demand = p.number("rates"), p.number("bursts"), p.number("demand")
	v.Low, v.High, v.Unrest = p.number("low"), p.number("high"), p.number("unrest")
	v.Earmark = p.number("earmark")
	v.Caution, v.Denied = p.number("caution"), p.number("denied")
	v.Tick = p.number("tick")
	if p.values["pass"] != "" {
		v.Pass = p.number("pass")
	}
	v.Panes, v.Rooms, v.Past = p.panes(), p.list("rooms"), p.past()
	v.Classes, v.Lent = p.classes("classes"), p.classes("lent")
	ends := strings.Fields(p.values["ends"])
	if len(ends) != len(v.Ends) {
		return nil, fmt.Errorf("%d ends, not %d", len(ends), len(v.Ends))
	}
	for i, f := range ends {
		n, err := strconv.Atoi(f)
		if err != nil {
			return nil, fmt.Errorf("end %q is not a whole number", f)
		}
		v.Ends[i] = n
	}
	limits, err := parseLimits(p.values["limits"], limit)
	return limits, cmp.Or(p.err, err)
}

// parseLimits reads place, rate, burst and holders of each limit. The rest of it is as in
// the one that is in force.
func parseLimits(text string, inForce lease.Limit) (map[int]lease.DeclaredLimit, error) {
	limits := map[int]lease.DeclaredLimit{}
	for f := range slices.Chunk(strings.Fields(text), 4) {
		var x [4]float64
		for i := range x {
			err := errors.New("too few")
			if i < len(f) {
				x[i], err = strconv.ParseFloat(f[i], 64)
			}
			if err != nil {
				return nil, fmt.Errorf("limits %q are not four numbers each", text)
			}
		}
		limit := inForce
		limit.Rate, limit.Burst = x[1], int64(x[2])
		limits[int(x[0])] = lease.DeclaredLimit{Limit: limit, Holders: int(x[3])}
	}
	return limits, nil
}

func parseHolder(texts []string, limits map[int]lease.DeclaredLimit) (lease.HolderView, error) {
	if len(texts) == 0 {
		return lease.HolderView{}, fmt.Errorf("no holder id")
	}
	p := parsePairs(texts[1:])
	flags := int(p.number("flags"))
	return lease.HolderView{
		ID: texts[0], Seq: uint64(p.number("seq")), At: p.number("at"),
		Rate: p.number("rate"), Burst: p.number("burst"),
		Until: p.number("refills"), Life: p.number("life"),
		Demand: p.number("demand"), Add: p.number("add"), Mark: p.number("mark"),
		Shape: lease.Shape(p.number("shape")), Limit: limits[int(p.number("limit"))].Limit,
		Classes: p.classes("classes"), Adds: p.classes("adds"),
		High: flags&lua.High != 0, Marked: flags&lua.Marked != 0, Ended: flags&lua.Ended != 0,
	}, p.err
}

// pairs are names and values.
type pairs struct {
	values map[string]string
	err    error
}

func parsePairs(texts []string) *pairs {
	p := &pairs{values: map[string]string{}}
	for pair := range slices.Chunk(texts, 2) {
		if len(pair) == 2 {
			p.values[pair[0]] = pair[1]
		}
	}
	return p
}

func (p *pairs) number(name string) float64 {
	x, err := strconv.ParseFloat(p.values[name], 64)
	if err != nil && p.err == nil {
		p.err = fmt.Errorf("%s %q is not a number", name, p.values[name])
	}
	return x
}

// classes reads numbers by class, nil if all are 0.
func (p *pairs) classes(name string) []float64 {
	list := p.list(name)
	if !slices.ContainsFunc(list, func(x float64) bool { return x != 0 }) {
		return nil
	}
	return list
}

// list reads numbers.
func (p *pairs) list(name string) (list []float64) {
	for _, f := range strings.Fields(p.values[name]) {
		x, err := strconv.ParseFloat(f, 64)
		if err != nil {
			p.err = cmp.Or(p.err, fmt.Errorf("%s %q are not numbers", name, p.values[name]))
		}
		list = append(list, x)
	}
	return list
}

// past reads tokens, end and rate of each part of the past.
func (p *pairs) past() (list []lease.PastView) {
	for f := range slices.Chunk(strings.Fields(p.values["uses"]), 3) {
		var x [3]float64
		for i := range x {
			err := errors.New("too few")
			if i < len(f) {
				x[i], err = strconv.ParseFloat(f[i], 64)
			}
			if err != nil {
				p.err = cmp.Or(p.err, fmt.Errorf("uses %q are not three numbers each", p.values["uses"]))
				return nil
			}
		}
		list = append(list, lease.PastView{Tokens: x[0], Until: x[1], Rate: x[2]})
	}
	return list
}

// panes reads the end and the tokens of each pane of a sliding window.
func (p *pairs) panes() []lease.PaneView {
	var list []lease.PaneView
	for f := range slices.Chunk(strings.Fields(p.values["panes"]), 2) {
		ends, err := strconv.ParseFloat(f[0], 64)
		tokens, err2 := strconv.ParseFloat(f[len(f)-1], 64)
		if err := cmp.Or(err, err2); err != nil || len(f) < 2 {
			p.err = cmp.Or(p.err, fmt.Errorf("panes %q are not two numbers each", p.values["panes"]))
			return nil
		}
		list = append(list, lease.PaneView{Ends: ends, Tokens: tokens})
	}
	slices.SortFunc(list, func(a, b lease.PaneView) int { return cmp.Compare(a.Ends, b.Ends) })
	return list
}
