package account

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// By says who does something, and from which address.
type By struct{ Who, Address string }

func (b By) event(what, domain, detail string) Event {
	return Event{Who: b.Who, Address: b.Address, What: what, Domain: domain, Detail: detail}
}

// An Event is a line of the audit log.
type Event struct {
	ID   int64 // they grow
	Time time.Time

	// Who did What, from which Address, with which Domain, if it is about one. Longer ones than
	// 128, 64, 64, 256 and 4096 bytes are cut.
	Who, Address, What, Domain, Detail string
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
		cut(e.Domain, MaxDomain), cut(e.Detail, 4096))
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

// Events returns the newest n events before an ID, or of all if it is 0, newest first: those of
// one domain, or all if it is empty. There are MaxEvents at most.
func (a *Accounts) Events(
	ctx context.Context, domain string, before int64, n int,
) ([]Event, error) {
	if before <= 0 {
		before = 1<<63 - 1
	}
	condition, args := "id < ?", []any{before}
	if domain != "" {
		condition, args = "domain = ? AND id < ?", []any{[]byte(domain), before}
	}
	args = append(args, max(1, min(n, MaxEvents)))
	q, done := a.query(ctx)
	defer done()
	var list []Event
	err := q.rows(func(scan func(...any) error) error {
		var e Event
		var at int64
		err := scan(&e.ID, &at, &e.Who, &e.Address, &e.What, &e.Domain, &e.Detail)
		e.Time = time.UnixMicro(at).UTC()
		list = append(list, e)
		return err
	}, "SELECT id, at, who, address, what, domain, detail FROM ration_accounts_audit WHERE "+
		condition+" ORDER BY id DESC LIMIT ?", args...)
	if err != nil {
		return nil, fmt.Errorf("account: audit log: %w", err)
	}
	return list, nil
}
