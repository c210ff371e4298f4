package page

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/account"
	"github.com/seed13b07268/ration/hybrid/service/internal/validate"
)

// editData is what the form of an edit shows.
type editData struct {
	Base         int64
	Text, Reason string
	Problem      string
	Check        verdict
	Conflict     *conflict
	Form         limitForm
	Asked        string // descriptors of a request to try
	Tried        *explainData

	Trials     []*trial // of limits that the text changes; nil: nobody has asked
	MoreTrials int
	NoTrials   bool // somebody has asked, and it changes none
}

// A verdict is what a text is worth, and what it would change.
type verdict struct {
	Checked  bool
	Numbers  []numbered // beside the text
	Rows     int        // of its field, in browsers whose fields do not grow
	Mistakes []mistake
	Notes    []string
	Diff     diff
	rules    *rules.Rules // nil: the text is not valid
}

// A mistake is one of a text.
type mistake struct {
	Line, Column int
	Numbered     bool // the line has a number beside it
	Field, Text  string
	Source       string // what stands in the line
}

// A diff is what a text changes.
type diff struct {
	Rules   []differing
	Beyond  int  // how many more there are
	Same    bool // not a byte differs
	Unknown bool // the text before is no valid one
}

// A conflict is what others have changed meanwhile.
type conflict struct {
	By      []rules.Revision // newest first
	Diff    diff
	Deleted bool
	Text    string
}

// base is the version that the author of a form has seen.
func (v *visit) base() int64 {
	n, err := strconv.ParseInt(v.r.PostForm.Get("base"), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

func (v *visit) editForm() {
	if !v.writable() {
		return
	}
	newest, away := v.newest()
	switch {
	case away:
		v.broken(errors.New("the book does not answer"))
	case newest == nil:
		v.noPage()
	case newest.Text == nil:
		v.seeOther(v.at(""))
	default:
		v.show(http.StatusOK, "edit", v.Domain+": edit", editData{
			Base: newest.Version, Text: string(newest.Text), Check: newVerdict(newest.Text),
			Form: v.offered(newest.Text),
		})
	}
}

// typed is the form of an edit as it was sent.
func (v *visit) typed() editData {
	text := v.r.PostForm.Get("text")
	return editData{
		Base: v.base(), Reason: v.value("reason"), Asked: v.r.PostForm.Get("descriptors"),
		Form: v.typedLimit(),
		// Browsers end lines by two bytes, whatever they have got.
		Text: strings.ReplaceAll(text, "\r\n", "\n"),
	}
}

// checkText is the fragment of what is wrong with a text, or what it would change.
func (v *visit) checkText() {
	if !v.form() || !v.writable() {
		return
	}
	data := v.typed()
	base, away := v.revision(data.Base)
	if away || base == nil {
		data.Check = judge(v.Domain, nil, []byte(data.Text))
		data.Check.Diff.Unknown = true
	} else {
		data.Check = judge(v.Domain, base.Text, []byte(data.Text))
	}
	v.show(http.StatusOK, "check", "", data.Check)
}

// revision returns one version of the domain, or nil if there is none.
func (v *visit) revision(version int64) (r *rules.Revision, away bool) {
	if version < 1 || version == 1<<63-1 {
		return nil, false
	}
	list, err := v.page.config.Book.History(v.r.Context(), v.Domain, version+1, 1)
	if err != nil {
		v.page.log.Error("the book of rules does not answer", "domain", v.Domain, "error", err)
		return nil, true
	}
	if len(list) == 0 || list[0].Version != version {
		return nil, false
	}
	return &list[0], false
}

// judge reads a text, and compares it with the one before.
func judge(domain string, was, text []byte) verdict {
	out := newVerdict(text)
	out.Checked = true
	parsed, err := rules.Parse(rules.Document{Domain: domain, Name: domain, Text: text})
	if err != nil {
		out.Mistakes = mistakes(err)
		quote(out.Mistakes, text)
		out.number()
		return out
	}
	out.rules = parsed
	out.Notes = parsed.Notes()
	out.Diff = compare(read(domain, was), source{text: text, rules: parsed})
	return out
}

// mistakes are those that an error joins.
func mistakes(err error) (list []mistake) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			list = append(list, mistakes(e)...)
		}
		return list
	}
	var e *rules.Error
	if errors.As(err, &e) {
		return []mistake{{Line: e.Line, Column: e.Column, Field: e.Path, Text: e.Text}}
	}
	return []mistake{{Text: err.Error()}}
}

// mostQuoted is how many characters of a line are shown.
const mostQuoted = 100

// quote adds to mistakes what stands in their lines.
func quote(list []mistake, text []byte) {
	lines := strings.Split(string(text), "\n")
	for i, m := range list {
		if m.Line < 1 || m.Line > len(lines) {
			continue
		}
		source := []rune(strings.ToValidUTF8(strings.TrimSpace(lines[m.Line-1]), "\uFFFD"))
		list[i].Source = string(source[:min(len(source), mostQuoted)])
	}
}

// A source is a text, and the rules in it. A nil text has none.
type source struct {
	text  []byte
	rules *rules.Rules
	wrong bool // it is not valid
}

func read(domain string, text []byte) source {
	parsed, err := rules.ParseDomain(domain, text)
	return source{text, parsed, err != nil}
}

// compare tells what comes of a domain when a text replaces another one.
func compare(was, is source) diff {
	switch {
	case bytes.Equal(was.text, is.text) && (was.text == nil) == (is.text == nil):
		return diff{Same: true}
	case was.wrong || is.wrong:
		return diff{Unknown: true}
	}
	list := rules.Diff(was.rules, is.rules)
	out := diff{Beyond: max(0, len(list)-mostRows)}
	for _, d := range list[:len(list)-out.Beyond] {
		out.Rules = append(out.Rules, differ(d))
	}
	return out
}

// differing is a rule, or the domain where Path is empty, that is not as it was. One that is new
// has no Was, and one that has gone no Is.
type differing struct{ Path, Was, Is string }

// differ leaves out of a difference what both texts end with.
func differ(d rules.Difference) differing {
	const mark = ", "
	was, is := strings.Split(d.Was, mark), strings.Split(d.Is, mark)
	for i, j := len(was)-1, len(is)-1; i > 0 && j > 0 && was[i] == is[j]; i, j = i-1, j-1 {
		left, right := strings.Join(was[:i], mark), strings.Join(is[:j], mark)
		if strings.Count(left, `"`)%2 == 0 && strings.Count(right, `"`)%2 == 0 { // not within a name
			d.Was, d.Is = left, right
		}
	}
	return differing{d.Path, d.Was, d.Is}
}

// save saves an edit, or shows what is in its way with all that was typed.
func (v *visit) save() {
	if !v.form() || !v.writable() {
		return
	}
	data := v.typed()
	newest, away := v.newest()
	if !away && (newest == nil || newest.Text == nil && !v.User.May(v.Domain, account.Admin)) {
		if newest == nil {
			v.noPage()
		} else {
			v.forbid(account.Admin) // it would make the domain anew
		}
		return
	}
	var was []byte
	if newest != nil {
		was = newest.Text
	}
	arranged := v.arrange(&data)
	data.Check = judge(v.Domain, was, []byte(data.Text))
	status := v.trySave(&data, newest, arranged)
	if status != 0 {
		v.show(status, "edit", v.Domain+": edit", data)
	}
}

// trySave saves if it can, or returns the status of the page that says why not.
func (v *visit) trySave(data *editData, newest *rules.Revision, arranged bool) int {
	switch {
	case arranged, slices.Contains(asks, v.r.PostForm.Get("do")):
		status := http.StatusOK
		if newest != nil && newest.Version != data.Base {
			status = v.showConflict(data)
		}
		v.lookAt(data)
		return status
	case len(data.Check.Mistakes) > 0:
		data.Problem = "The text has mistakes. Nothing was saved."
		return http.StatusUnprocessableEntity
	case data.Form.Open: // what stands in it is not in the text
		data.Problem = "The limit in the form is not in the text yet: put it there, or empty the form. " +
			"Nothing was saved."
		return http.StatusUnprocessableEntity
	case validate.Reason(data.Reason) != nil:
		data.Problem = sentence(validate.Reason(data.Reason)) + " Nothing was saved."
		return http.StatusUnprocessableEntity
	}
	made, err := v.change("rules changed", rules.Change{
		Base: data.Base, Text: []byte(data.Text), Reason: data.Reason,
	})
	switch {
	case errors.Is(err, rules.ErrConflict):
		return v.showConflict(data)
	case err != nil:
		data.Problem = v.bookAway(err)
		return http.StatusServiceUnavailable
	}
	v.seeOther(v.at(fmt.Sprint("?saved=", made.Version)))
	return 0
}

// asks are what a form may ask for but for a save, and for a change of its text.
var asks = []string{"check", "try", "whatif"}

// lookAt answers what the form asks for.
func (v *visit) lookAt(data *editData) {
	switch v.r.PostForm.Get("do") {
	case "try":
		v.try(data)
	case "whatif":
		if v.WhatIf() {
			v.tryChanges(data)
		}
	}
}

// try tells what would limit a request by a text that is not saved. Nothing is known of its
// buckets.
func (v *visit) try(data *editData) {
	data.Tried = &explainData{Asked: data.Asked}
	if data.Check.rules == nil {
		data.Tried.Problem = "The text has mistakes: they come first."
		return
	}
	ds, err := descriptors(data.Asked)
	if err == nil {
		var list []rules.Explanation
		list, err = data.Check.rules.Explain(v.Domain, ds...)
		data.Tried.explain(ds, list)
	}
	if err != nil {
		data.Tried.Problem = problemOf(err)
	}
}

// mostOthers is how many changes of others a conflict lists.
const mostOthers = 10

// showConflict adds to the form what others have changed since its base. Its next save is on
// top of that: its author has seen it then.
func (v *visit) showConflict(data *editData) int {
	list, err := v.page.config.Book.History(v.r.Context(), v.Domain, 0, mostOthers)
	if err != nil || len(list) == 0 {
		data.Problem = v.bookAway(errors.Join(err, rules.ErrConflict))
		return http.StatusServiceUnavailable
	}
	newest := list[0]
	var was []byte
	base, _ := v.revision(data.Base)
	if base != nil {
		was = base.Text
	}
	c := &conflict{
		Diff:    compare(read(v.Domain, was), read(v.Domain, newest.Text)),
		Deleted: newest.Text == nil, Text: string(newest.Text),
	}
	if base == nil {
		c.Diff = diff{Unknown: true}
	}
	for _, r := range list {
		if r.Version > data.Base {
			c.By = append(c.By, r)
		}
	}
	data.Conflict, data.Base = c, newest.Version
	data.Check = judge(v.Domain, newest.Text, []byte(data.Text))
	return http.StatusConflict
}
