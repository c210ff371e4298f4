// Package book has what all Books share: the bounds of a change, and what a reader remembers
// of the state that it has read.
package book

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed13b07268/ration/hybrid/rules"
)

// Bounds of a change beside rules.MaxText, in bytes.
const (
	MaxDomain = 256
	MaxAuthor = 256
	MaxReason = 4096
)

// MostRevisions is how many History may be asked for.
const MostRevisions = 1000

// Poll is how often Wait looks for a change of which it got no notice.
const Poll = 400 * time.Millisecond

// Check returns an error that names the field of a change which is out of bounds. Whether the
// text is valid rules is not its business.
func Check(c rules.Change) error {
	for _, f := range []struct {
		name, value string
		most        int
	}{
		{"Domain", c.Domain, MaxDomain},
		{"Author", c.Author, MaxAuthor},
		{"Reason", c.Reason, MaxReason},
	} {
		if err := checkName(f.name, f.value, f.most); err != nil {
			return err
		}
	}
	switch {
	case c.Base < 0:
		return fmt.Errorf("Base %d is negative", c.Base)
	case c.Text == nil && c.Base == 0:
		return fmt.Errorf("Text is nil, which deletes, and Base is 0, which is a new domain")
	case c.Text != nil && len(c.Text) == 0:
		return errors.New("Text is empty; nil deletes the domain")
	case len(c.Text) > rules.MaxText:
		return fmt.Errorf("Text has %d bytes, more than %d", len(c.Text), rules.MaxText)
	case !utf8.Valid(c.Text):
		return errors.New("Text is not valid UTF-8")
	}
	return nil
}

func checkName(name, value string, most int) error {
	switch {
	case value == "" || len(value) > most:
		return fmt.Errorf("%s has %d bytes, not 1 to %d", name, len(value), most)
	case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		return fmt.Errorf("%s %q is not valid UTF-8 without NUL", name, value)
	}
	return nil
}

// CheckHistory returns an error that names the argument of History which is out of bounds.
func CheckHistory(domain string, before int64, n int) error {
	if err := checkName("domain", domain, MaxDomain); err != nil {
		return err
	}
	if before < 0 {
		return fmt.Errorf("before %d is negative", before)
	}
	if n < 1 || n > MostRevisions {
		return fmt.Errorf("n %d is not 1 to %d", n, MostRevisions)
	}
	return nil
}

// Documents are those of the newest revisions of all domains, by domain. source is a word for
// their names.
func Documents(source string, newest []rules.Revision) []rules.Document {
	slices.SortFunc(newest, func(a, b rules.Revision) int {
		return strings.Compare(a.Domain, b.Domain)
	})
	var docs []rules.Document
	for _, r := range newest {
		if r.Text == nil {
			continue
		}
		docs = append(docs, rules.Document{
			Domain:  r.Domain,
			Name:    fmt.Sprintf("%s %s@%d", source, r.Domain, r.Version),
			Version: r.Version,
			Text:    r.Text,
		})
	}
	return docs
}
