// Package validate says how domains may be called, and which reasons changes may have: the page and
// the API hold both to the same rule. Rules as files may have other names, which nobody can edit.
package validate

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed13b07268/ration/hybrid/rules"
)

// Bounds in bytes.
const (
	MaxDomain = 256
	MaxReason = 4096
)

// Domain returns an error if no domain may be made with the name: rights to all are called *, no
// path leads to the names of folders, books have bans under some, and others could not be seen.
func Domain(name string) error {
	switch {
	case name == "":
		return errors.New("the name is missing")
	case len(name) > MaxDomain:
		return fmt.Errorf("the name is longer than %d bytes", MaxDomain)
	case name == "*", name == ".", name == "..", !Distinct(name),
		strings.HasPrefix(name, rules.BansPrefix):
		return errors.New("a domain cannot have this name")
	}
	return nil
}

// Reason returns an error if no change may have the reason.
func Reason(reason string) error {
	switch {
	case strings.TrimSpace(reason) == "":
		return errors.New("the reason is missing")
	case len(reason) > MaxReason:
		return fmt.Errorf("the reason is longer than %d bytes", MaxReason)
	case !Readable(reason):
		return errors.New("the reason has a character that cannot be read")
	}
	return nil
}

// Readable reports whether a text is UTF-8 that reads as it is stored: without control characters,
// some of which databases refuse, such as NUL; without what ends a line; and without characters
// that turn the text around it, such as U+202E, or that nobody sees. The two joiners are parts of
// words in some languages.
func Readable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool {
		return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) && !joiner(r)
	})
}

func joiner(r rune) bool { return r == '\u200c' || r == '\u200d' }

// Distinct is Readable for names, which have no joiners either: two that look alike would differ.
func Distinct(name string) bool { return Readable(name) && !strings.ContainsFunc(name, joiner) }
