package page

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/seed13b07268/ration/hybrid/rules"
)

// A limitForm is the form beside a text, which sets or removes a limit there. Nothing is saved by
// it.
type limitForm struct {
	Path, Number, Unit, Kind, Burst string

	Paths   []string // of the rules in force, to choose from
	Open    bool
	Problem string
	Done    string
}

// units and kinds are what the form offers. The empty kind is that of the unit.
var (
	units = []string{"second", "minute", "hour", "day", "week", "month", "year"}
	kinds = []string{"", "bucket", "quota", "sliding"}
)

// Units are for the template.
func (limitForm) Units() []string { return units }

// Kinds are for the template.
func (limitForm) Kinds() []string { return kinds[1:] }

// typedLimit is the form as it was sent.
func (v *visit) typedLimit() limitForm {
	return limitForm{
		Path: v.value("path"), Number: v.value("number"), Unit: v.value("unit"), Kind: v.value("kind"),
		Burst: v.value("burst"), Paths: v.pathsOf(),
	}
}

// offered is the form before anything is typed, but for the path of a rule whose page leads here.
func (v *visit) offered() limitForm {
	f := limitForm{Path: v.r.URL.Query().Get("path"), Unit: "minute", Paths: v.pathsOf()}
	f.Open = f.Path != ""
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

// limit is the rate_limit that the form says. Its values are words that it offers, and numbers.
func (f limitForm) limit() ([]byte, error) {
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
	if !slices.Contains(units, f.Unit) || !slices.Contains(kinds, f.Kind) {
		return nil, errors.New("the form makes no sense")
	}
	return []byte(text + "}"), nil
}

// arrange changes the text of an edit as its form says. It reports whether it was asked to.
func (v *visit) arrange(data *editData) bool {
	f, text := &data.Form, []byte(nil)
	var err error
	switch v.r.PostForm.Get("do") {
	case "set":
		var limit []byte
		if limit, err = f.limit(); err == nil {
			text, err = rules.SetLimit([]byte(data.Text), f.Path, limit)
		}
	case "remove":
		text, err = rules.DeleteRule([]byte(data.Text), f.Path)
	default:
		f.Open = f.typed()
		return false
	}
	f.Open = true
	if err != nil {
		f.Problem = sentence(errors.New(problemOf(err)))
		return true
	}
	data.Text = string(text)
	f.Done = "The text is changed at " + f.Path + ". Nothing is saved yet."
	f.Path, f.Number, f.Burst = "", "", ""
	return true
}

// typed reports whether a limit stands in the form that is not in the text.
func (f limitForm) typed() bool { return f.Number != "" || f.Burst != "" }
