package account

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// By says who does something, and from which address. Subject is User.Subject.
type By struct{ Who, Address, Subject string }

func (b By) event(what, domain, detail string) Event {
	return Event{
		Who: b.Who, Subject: b.Subject, Address: b.Address, What: what, Domain: domain, Detail: detail,
	}
}

// An Event is a line of the audit log.
type Event struct {
	ID   int64 // they grow
	Time time.Time

	// Who did What, from which Address, with which Domain, if it is about one. Longer ones than
	// 128, 64, 64, 256 and 4096 bytes are cut.
	Who, Address, What, Domain, Detail string

	// Subject is User.Subject of Who. Events that are read have it at the begin of Detail, as
	// subject "SUBJECT".
	Subject string
}

// detail is Detail, with who it was at an issuer, quoted before what others have written.
func (e Event) detail() string {
	if e.Subject == "" {
		return e.Detail
	}
	return strings.TrimSuffix(fmt.Sprintf("subject %q, %s", e.Subject, e.Detail), ", ")
}

// MaxEvents is how many events are read at once.
const MaxEvents = 200

// Note writes an event into the audit log. Its ID and Time are the log's to give.
func (a *Accounts) Note(ctx context.Context, e Event) error {
	q, done := a.query(ctx)
	defer done()
	return q.note(e)
}

func (q querier) note(e Event) error {
	err := q.exec("INSERT INTO ration_accounts_audit (at, who, address, what, domain, detail)"+
		" VALUES (?, ?, ?, ?, ?, ?)", now(), cut(e.Who, MaxName), cut(e.Address, 64), cut(e.What, 64),
		cut(e.Domain, MaxDomain), cut(e.detail(), 4096))
	if err != nil {
		return fmt.Errorf("account: audit log: %w", err)
	}
	return nil
}

// cut returns the first n bytes at most, of whole characters.
func cut(s string, n int) []byte {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "")
	}
	return []byte(s)
}

// A Search says which events are wanted.
type Search struct {
	Domain string // of events with this domain; empty: all
	Words  string // each word is part of the event, in upper or lower case; empty: all
	Before int64  // of events with a lower ID; 0: all
	Most   int    // 1 to MaxEvents
}

// mostSearched is how many events a Search with Words reads.
const mostSearched = 20_000

// Events returns the newest events of a Search, newest first. more is the Before with which others
// may follow, or 0: a Search with Words ends after mostSearched events, found or not.
func (a *Accounts) Events(ctx context.Context, s Search) (list []Event, more int64, err error) {
	if s.Before <= 0 {
		s.Before = 1<<63 - 1
	}
	most := max(1, min(s.Most, MaxEvents))
	words, read := strings.Fields(strings.ToLower(s.Words)), most
	if len(words) > 0 {
		read = mostSearched
	}
	condition, args := "id < ?", []any{s.Before}
	if s.Domain != "" {
		condition, args = "domain = ? AND id < ?", []any{[]byte(s.Domain), s.Before}
	}
	q, done := a.query(ctx)
	defer done()
	n, last := 0, int64(0)
	err = q.rows(func(scan func(...any) error) error {
		var e Event
		var at int64
		err := scan(&e.ID, &at, &e.Who, &e.Address, &e.What, &e.Domain, &e.Detail)
		if err != nil {
			return err
		}
		if len(list) == most || n == read {
			more = last
			return errEnough
		}
		n, last = n+1, e.ID
		e.Time = time.UnixMicro(at).UTC()
		if e.has(words) {
			list = append(list, e)
		}
		return nil
	}, "SELECT id, at, who, address, what, domain, detail FROM ration_accounts_audit WHERE "+
		condition+" ORDER BY id DESC LIMIT ?", append(args, read+1)...)
	if err != nil && !errors.Is(err, errEnough) {
		return nil, 0, fmt.Errorf("account: audit log: %w", err)
	}
	return list, more, nil
}

// errEnough ends the rows of a query that are not needed.
var errEnough = errors.New("enough")

// has reports whether each of the words, in lower case, is part of the event.
func (e Event) has(words []string) bool {
	if len(words) == 0 {
		return true
	}
	text := strings.ToLower(strings.Join([]string{
		e.Time.Format(time.DateTime), e.Who, e.Address, e.What, e.Domain, e.Detail,
	}, "\n"))
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}
