// Package names says how domains may be called, and which reasons changes may have: the page and
// the API hold both to the same rule. Rules as files may have other names, which nobody can edit.
package names

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds in bytes.
const (
	MaxDomain = 256
	MaxReason = 4096
)

// Domain returns an error if no domain may be made with the name: rights to all are called *, no
// path leads to the names of folders, and others could not be seen.
func Domain(name string) error {
	switch {
	case name == "":
		return errors.New("the name is missing")
	case len(name) > MaxDomain:
		return fmt.Errorf("the name is longer than %d bytes", MaxDomain)
	case name == "*", name == ".", name == "..", !Readable(name):
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

// Readable reports whether a text is UTF-8 without control characters: databases refuse some, such
// as NUL, and lists show none.
func Readable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}
