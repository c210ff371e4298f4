package page

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed13b07268/ration/hybrid/rules"
)

// An amount is a limit as a form has it.
type amount struct{ Number, Unit, Burst, Kind, Offset string }

// A limitForm is the form beside a text, which sets or removes a limit there. Nothing is saved by
// it.
type limitForm struct {
	Path string
	amount
	Of string // the path of the rule whose limit stood in the form

	Paths   []string // of the rules in force, to choose from
	Open    bool
	Problem string
	Done    string
}

// units and kinds are what forms offer. The empty kind is that of the unit.
var (
	units = []string{"second", "minute", "hour", "day", "week", "month", "year"}
	kinds = []string{"", "bucket", "quota", "sliding"}
)

// Units are for the template.
func (amount) Units() []string { return units }

// Kinds are for the template.
func (amount) Kinds() []string { return kinds[1:] }

// amountOf is what a form shows of a rule.
func amountOf(a rules.Amount) amount {
	if a.Unlimited {
		return amount{}
	}
	f := amount{Number: strconv.FormatInt(a.Requests, 10), Unit: a.Unit, Kind: a.Kind}
	if a.Burst > 0 {
		f.Burst = strconv.FormatInt(a.Burst, 10)
	}
	if a.Offset != 0 {
		f.Offset = a.Offset.String()
		for _, rest := range []string{"m0s", "h0m"} {
			if strings.HasSuffix(f.Offset, rest) {
				f.Offset = f.Offset[:len(f.Offset)-2]
			}
		}
	}
	return f
}

// typedAmount is what was typed: value returns a field.
func typedAmount(value func(field string) string) amount {
	return amount{
		Number: value("number"), Unit: value("unit"), Burst: value("burst"), Kind: value("kind"),
		Offset: value("offset"),
	}
}

// filled has what is empty from another one.
func (f amount) filled(by amount) amount {
	return amount{
		cmp.Or(f.Number, by.Number), cmp.Or(f.Unit, by.Unit), cmp.Or(f.Burst, by.Burst),
		cmp.Or(f.Kind, by.Kind), cmp.Or(f.Offset, by.Offset),
	}
}

// limit is the rate_limit that the form says. Its values are words that it offers, numbers, and a
// time.
func (f amount) limit() ([]byte, error) {
	text := fmt.Sprintf("{unit: %s, requests_per_unit: %s", f.Unit, f.Number)
	fields := []struct{ name, value string }{{"the number of requests", f.Number}}
	if f.Burst != "" {
		text += ", burst: " + f.Burst
		fields = append(fields, struct{ name, value string }{"the burst", f.Burst})
	}
	for _, of := range fields {
		if _, err := strconv.ParseUint(of.value, 10, 63); err != nil {
			return nil, fmt.Errorf("%s is %.40q, and not digits", of.name, of.value)
		}
	}
	if f.Kind != "" {
		text += ", kind: " + f.Kind
	}
	if f.Offset != "" {
		offset, err := time.ParseDuration(f.Offset)
		if err != nil {
			return nil, fmt.Errorf("the offset is %.40q, and not a time such as -5h30m", f.Offset)
		}
		text += ", offset: " + offset.String()
	}
	if f.Unit == "" {
		return nil, errors.New("the unit is missing")
	}
	if !slices.Contains(units, f.Unit) || !slices.Contains(kinds, f.Kind) {
		return nil, errors.New("the form makes no sense")
	}
	return []byte(text + "}"), nil
}

// typedLimit is the form as it was sent.
func (v *visit) typedLimit() limitForm {
	return limitForm{
		Path: v.value("path"), amount: typedAmount(v.value), Of: v.value("of"), Paths: v.pathsOf(),
	}
}

// offered is the form before anything is typed. The page of a rule leads here with its path, and
// the form has its limit in a text then.
func (v *visit) offered(text []byte) limitForm {
	f := limitForm{Path: v.r.URL.Query().Get("path"), Paths: v.pathsOf()}
	if f.Open = f.Path != ""; f.Open {
		f.load(v.ruleIn(text, f.Path))
	}
	if query := v.r.URL.Query(); query.Has("number") { // one that was tried there
		f.amount = typedAmount(query.Get)
	}
	return f
}

// pathsOf are those of the rules in force, for the form to offer: as many as a table has rows.
func (v *visit) pathsOf() (list []string) {
	d, _ := v.page.config.Limiter.Rules().Domain(v.Domain)
	for _, r := range d.Rules[:min(len(d.Rules), mostRows)] {
		list = append(list, r.Path)
	}
	return list
}

// ruleIn is the rule of a path in a text, or nil if there is none, or no valid text.
func (v *visit) ruleIn(text []byte, path string) *rules.Rule {
	entries, err := rules.ParsePath(path)
	parsed, invalid := rules.ParseDomain(v.Domain, text)
	if err != nil || invalid != nil {
		return nil
	}
	d, _ := parsed.Domain(v.Domain)
	return ruleOf(d, rules.PathOf(entries...))
}

// load puts the limit of a rule into the form, if there is one.
func (f *limitForm) load(r *rules.Rule) {
	if r != nil {
		f.amount, f.Of = amountOf(r.Amount), f.Path
	}
}

// arrange changes the text of an edit as its form says. It reports whether it was asked to.
func (v *visit) arrange(data *editData) bool {
	f, text := &data.Form, []byte(nil)
	was := v.ruleIn([]byte(data.Text), f.Path)
	var err error
	switch v.r.PostForm.Get("do") {
	case "show":
		if was == nil {
			err = fmt.Errorf("the text has no limit at %.80q, or has mistakes", f.Path)
		}
		text = []byte(data.Text)
	case "set":
		if was != nil && f.Of != f.Path { // nobody has seen, and emptied, what it has
			number := f.Number
			f.amount, f.Of = f.filled(amountOf(was.Amount)), f.Path
			f.Number = number
		}
		var limit []byte
		if limit, err = f.limit(); err == nil {
			text, err = rules.SetLimit([]byte(data.Text), f.Path, limit)
		}
		f.Done = "The text is changed at " + f.Path + ". Nothing is saved yet."
	case "remove":
		text, err = rules.DeleteRule([]byte(data.Text), f.Path)
		f.Done = "The text is changed at " + f.Path + ". Nothing is saved yet."
	default:
		f.Open = f.pending(was)
		return false
	}
	f.Open = true
	if err != nil {
		f.Problem, f.Done = sentence(errors.New(problemOf(err))), ""
		return true
	}
	data.Text, f.amount, f.Of = string(text), amount{}, ""
	f.load(v.ruleIn(text, f.Path))
	return true
}

// pending reports whether a limit stands in the form that the rule in the text has not.
func (f limitForm) pending(r *rules.Rule) bool {
	if f.Number == "" && f.Burst == "" && f.Offset == "" {
		return false
	}
	return r == nil || f.amount != amountOf(r.Amount)
}
