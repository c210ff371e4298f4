package rules

import (
	"context"
	"errors"
	"fmt"
)

// Save makes a change in a book after it has validated the text as a whole, and returns what the
// change does to each rule. A text with a mistake is not written; the error joins an *Error for
// each. If the Base of the change is not the newest version, the error wraps ErrConflict: load
// the document again, make the edit anew, and save that.
//
// It blocks for two exchanges with the book. After an error other than those above the change
// may have been made: the same Save again tells.
func Save(ctx context.Context, b Book, c Change) (Revision, []Difference, error) {
	is, err := ParseDomain(c.Domain, c.Text)
	if err != nil {
		return Revision{}, nil, err
	}
	var was *Rules
	if c.Base > 0 {
		base, err := revision(ctx, b, c.Domain, c.Base)
		if err != nil && !errors.Is(err, errNoRevision) {
			return Revision{}, nil, err
		}
		// A base that has been dropped from the history is not the newest version: the book
		// decides. One that is no valid text has no rules in force.
		was, _ = ParseDomain(c.Domain, base.Text)
	}
	r, err := b.Save(ctx, c)
	if err != nil {
		return Revision{}, nil, err
	}
	return r, Diff(was, is), nil
}

// RollBack saves the text of an earlier version of a domain as a new revision, or deletes the
// domain if that version is a deletion. It is validated again, and returns as Save does. It
// blocks for four exchanges with the book.
func RollBack(
	ctx context.Context, b Book, domain string, version int64, author, reason string,
) (Revision, []Difference, error) {
	if version < 1 {
		return Revision{}, nil, fmt.Errorf("rules: roll back %.300q: version %d is not positive",
			domain, version)
	}
	to, err := revision(ctx, b, domain, version)
	if err != nil {
		return Revision{}, nil, err
	}
	newest, err := b.History(ctx, domain, 0, 1)
	if err != nil {
		return Revision{}, nil, err
	}
	if len(newest) == 0 {
		return Revision{}, nil, fmt.Errorf("rules: domain %.300q: %w", domain, errNoRevision)
	}
	return Save(ctx, b, Change{
		Domain: domain, Base: newest[0].Version, Text: to.Text, Author: author, Reason: reason,
	})
}

var errNoRevision = errors.New("the version is not in the history")

// revision returns one revision of a domain.
func revision(ctx context.Context, b Book, domain string, version int64) (Revision, error) {
	list, err := b.History(ctx, domain, version+1, 1)
	if err != nil {
		return Revision{}, err
	}
	if len(list) == 0 || list[0].Version != version {
		return Revision{}, fmt.Errorf("rules: domain %.300q, version %d: %w",
			domain, version, errNoRevision)
	}
	return list[0], nil
}
