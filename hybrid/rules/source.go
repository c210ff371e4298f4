package rules

import (
	"bytes"
	"context"
	"errors"
	"time"
)

// A Document is the rules of one domain, as text in the format of envoyproxy/ratelimit with
// ration's fields beside. See Parse.
type Document struct {
	// Domain is the domain that the text is for, or empty if only the text says so. A text that
	// says another one is an error.
	Domain string
	// Name is where the document came from, for errors: the name of a file, or "redis orders@7".
	Name string
	// Version of the document in its source, which keeps none if it is 0.
	Version int64
	// Text is YAML, at most MaxText bytes.
	Text []byte
}

// equal reports whether a document is the same.
func (d Document) equal(other Document) bool {
	return d.Domain == other.Domain && d.Name == other.Name && d.Version == other.Version &&
		bytes.Equal(d.Text, other.Text)
}

// A Source has the rules of all domains. It is pulled: a Limiter loads, applies, waits, and loads
// again. It calls one method at a time.
type Source interface {
	// Load returns all documents as they are now, consistent with each other, and a tag of
	// their state for Wait.
	Load(ctx context.Context) (docs []Document, tag string, err error)

	// Wait returns nil when the state may differ from that of the tag, and an error when it
	// cannot tell or ctx has ended. It sees a change within a second. It may return nil without
	// a change.
	Wait(ctx context.Context, tag string) error
}

// A Change replaces, makes or deletes the document of one domain in a Book.
type Change struct {
	Domain string
	Base   int64  // the Version that the author has seen; 0 for a new domain
	Text   []byte // nil deletes the domain

	// Author and Reason are required, 1 to 256 and 1 to 4096 bytes of valid UTF-8.
	Author, Reason string
}

// A Revision is a Change that was made. The versions of a domain count up by one from 1, and go
// on after a deletion.
type Revision struct {
	Domain         string
	Version        int64
	Text           []byte // nil: the domain was deleted
	Author, Reason string
	Time           time.Time // by the clock of the source
}

// A Book is a Source that can be written, and that keeps its history.
type Book interface {
	Source

	// Save makes the change if its Base is still the newest version of the domain, else it
	// returns ErrConflict. After any other error the change may have been made: a Save of it
	// again with the same Base returns ErrConflict then, or the same Revision.
	Save(ctx context.Context, c Change) (Revision, error)

	// History returns the newest n revisions of a domain, newest first: those before the
	// version before, or all if it is 0.
	History(ctx context.Context, domain string, before int64, n int) ([]Revision, error)
}

// ErrConflict is wrapped by a Save whose Base is not the newest version of the domain.
var ErrConflict = errors.New("somebody else has changed the domain")
