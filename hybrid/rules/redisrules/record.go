package redisrules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed13b07268/ration/hybrid/rules"
)

// A payload is a change, as Redis keeps it: a sign, "+" or "-" for a deletion, and JSON.
type payload struct {
	Base   int64  `json:"base"`
	Author string `json:"author"`
	Reason string `json:"reason"`
	Text   string `json:"text,omitempty"`
}

// newPayload returns the same bytes for the same change.
func newPayload(c rules.Change) (string, error) {
	var b bytes.Buffer
	b.WriteByte('+')
	if c.Text == nil {
		b.Reset()
		b.WriteByte('-')
	}
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(payload{c.Base, c.Author, c.Reason, string(c.Text)})
	return strings.TrimSuffix(b.String(), "\n"), err
}

// parseRecord reads what save.lua has written: version, seconds, microseconds and payload.
func parseRecord(domain, record string) (rules.Revision, error) {
	fail := func(err error) (rules.Revision, error) {
		return rules.Revision{}, fmt.Errorf("record %.100q of domain %.300q: %w", record, domain, err)
	}
	words := strings.SplitN(record, " ", 4)
	if len(words) != 4 || words[3] == "" {
		return fail(errors.New("not four words"))
	}
	var numbers [3]int64
	for i := range numbers {
		var err error
		if numbers[i], err = strconv.ParseInt(words[i], 10, 64); err != nil {
			return fail(err)
		}
	}
	var p payload
	if err := json.Unmarshal([]byte(words[3][1:]), &p); err != nil {
		return fail(err)
	}
	r := rules.Revision{
		Domain: domain, Version: numbers[0], Author: p.Author, Reason: p.Reason,
		Time: time.Unix(numbers[1], numbers[2]*1000).UTC(),
	}
	switch words[3][0] {
	case '+':
		r.Text = []byte(p.Text)
	case '-':
	default:
		return fail(errors.New("neither + nor -"))
	}
	if r.Version < 1 {
		return fail(errors.New("version is not positive"))
	}
	return r, nil
}
