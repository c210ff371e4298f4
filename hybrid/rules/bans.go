package rules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// BansPrefix stands before the name of a domain in that of the document of its bans: a Book keeps
// them apart from its rules. No domain of rules may be called so.
const BansPrefix = "bans of "

// ErrNoBan says that there is no such ban.
var ErrNoBan = errors.New("there is no such ban")

// SetBan sets a ban of a domain in a book, in place of one of the same Entries, and drops those
// that have ended. It sets Since; the Author is that of the Change. The ban is in force in each
// process that follows the book within a second, if the domain has rules.
//
// A book that others change at the same time is tried again. It blocks for as long as ctx and the
// Book let it. Errors: ErrBan, for a ban that makes no sense, ends by now or in more than
// MaxBanTime, or is one too many; else it may have been set, and SetBan again does no harm.
func SetBan(ctx context.Context, b Book, domain string, ban Ban) (Ban, error) {
	now := time.Now()
	ban.Since, ban.Until = now.UTC().Truncate(time.Second), ban.Until.UTC()
	err := ban.check()
	switch {
	case err != nil:
	case ban.Ended(now):
		err = fmt.Errorf("%w: it ends at %s, which is over", ErrBan, ban.Until.Format(time.RFC3339))
	case ban.Until.Sub(now) > MaxBanTime:
		err = fmt.Errorf("%w: it ends at %s, more than %v from now", ErrBan,
			ban.Until.Format(time.RFC3339), MaxBanTime)
	case len(domain)+len(BansPrefix) > maxDomain:
		err = fmt.Errorf("%w: the domain has %d bytes, more than %d", ErrBan, len(domain),
			maxDomain-len(BansPrefix))
	}
	if err == nil {
		reason := fmt.Sprintf("%s until %s: %s", ban, ban.Until.Format(time.RFC3339), ban.Reason)
		err = changeBans(ctx, b, Change{Domain: domain, Author: ban.Author, Reason: reason},
			func(list []Ban) ([]Ban, error) {
				list = slices.DeleteFunc(list, ban.same)
				if len(list) >= MaxBans {
					return nil, fmt.Errorf("%w: the domain has %d already", ErrBan, len(list))
				}
				return append(list, ban), nil
			})
	}
	if err != nil {
		return Ban{}, fmt.Errorf("rules: ban in %.300q: %w", domain, err)
	}
	return ban, nil
}

// LiftBan ends the ban of a domain with these entries, and returns it. ErrNoBan says that there is
// none, or that it has ended. The reason goes into the book's history. It blocks as SetBan does.
func LiftBan(
	ctx context.Context, b Book, domain string, entries []Entry, author, reason string,
) (lifted Ban, err error) {
	what := Ban{Entries: entries}
	if err = checkBanReason(reason); err == nil {
		err = changeBans(ctx, b, Change{
			Domain: domain, Author: author, Reason: fmt.Sprintf("%s is lifted: %s", what, reason),
		}, func(list []Ban) ([]Ban, error) {
			i := slices.IndexFunc(list, what.same)
			if i < 0 {
				return nil, ErrNoBan
			}
			lifted = list[i]
			return slices.Delete(list, i, i+1), nil
		})
	}
	if err != nil {
		return Ban{}, fmt.Errorf("rules: lift a ban of %.300q: %w", domain, err)
	}
	return lifted, nil
}

// BansOf returns the bans of a domain that a book has, and that have not ended, in the order in
// which they were set. It blocks for one exchange with the book.
func BansOf(ctx context.Context, b Book, domain string) ([]Ban, error) {
	list, _, err := newestBans(ctx, b, domain)
	if err != nil {
		return nil, fmt.Errorf("rules: bans of %.300q: %w", domain, err)
	}
	return list, nil
}

func (b Ban) same(other Ban) bool { return slices.Equal(b.Entries, other.Entries) }

// newestBans returns those that have not ended, and the version of their document.
func newestBans(ctx context.Context, b Book, domain string) (list []Ban, version int64, err error) {
	if len(domain)+len(BansPrefix) > maxDomain {
		return nil, 0, nil // no book has any
	}
	newest, err := b.History(ctx, BansPrefix+domain, 0, 1)
	if err != nil || len(newest) == 0 {
		return nil, 0, err
	}
	text := newest[0].Text
	if text == nil {
		return nil, newest[0].Version, nil
	}
	r := &reader{file: BansPrefix + domain}
	if root, ok := r.root(text); ok {
		_, list = r.bans(root)
	}
	now := time.Now()
	list = slices.DeleteFunc(list, func(b Ban) bool { return b.Ended(now) })
	return list, newest[0].Version, r.err()
}

// banTries is how often a change of bans is made anew after somebody else's.
const banTries = 20

// changeBans makes a change whose text is that of the newest bans, edited.
func changeBans(
	ctx context.Context, b Book, c Change, edit func([]Ban) ([]Ban, error),
) error {
	domain := c.Domain
	c.Domain = BansPrefix + domain
	for try := 1; ; try++ {
		list, version, err := newestBans(ctx, b, domain)
		if err == nil {
			list, err = edit(list)
		}
		if err != nil {
			return err
		}
		c.Base, c.Text = version, bansText(domain, list)
		if _, err = b.Save(ctx, c); !errors.Is(err, ErrConflict) || try == banTries {
			return err
		}
	}
}

// bansText is the document of bans: a line for each. What JSON quotes YAML reads.
func bansText(domain string, list []Ban) []byte {
	quote := func(s string) string {
		text, _ := json.Marshal(s)
		return string(text)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "domain: %s\nbans:", quote(domain))
	if len(list) == 0 {
		b.WriteString(" []")
	}
	b.WriteString("\n")
	for _, x := range list {
		fmt.Fprintf(&b, "  - {descriptor: %s, until: %s, reason: %s, author: %s, since: %s}\n",
			quote(x.String()), x.Until.Format(time.RFC3339Nano), quote(x.Reason), quote(x.Author),
			x.Since.Format(time.RFC3339Nano))
	}
	return []byte(b.String())
}

// bans reads a document of bans.
func (r *reader) bans(root place) (domain string, list []Ban) {
	fields := r.fields(root, "domain", "bans")
	if domain = r.text(fields["domain"]); domain == "" {
		r.fail(root, "the domain is missing")
	}
	p := fields["bans"]
	if null(p) || !r.is(p, yaml.SequenceNode, "a list of bans") {
		return domain, nil
	}
	if len(p.Content) > MaxBans {
		r.fail(p, "%d bans are more than %d", len(p.Content), MaxBans)
		return domain, nil
	}
	for i, n := range p.Content {
		at := place{n, fmt.Sprintf("%s[%d]", p.path, i)}
		b, ok := r.ban(at)
		switch {
		case !ok:
		case slices.ContainsFunc(list, b.same):
			r.fail(at, "a ban of %.200s is there already", b)
		default:
			list = append(list, b)
		}
	}
	return domain, list
}

// ban reads one. It is not ok after a mistake.
func (r *reader) ban(p place) (b Ban, ok bool) {
	mistakes := len(r.errs) + r.more
	fields := r.fields(p, "descriptor", "until", "reason", "author", "since")
	var err error
	if b.Entries, err = ParsePath(r.text(fields["descriptor"])); err != nil {
		r.fail(p, "descriptor %.200q is not key=value,key=value", r.text(fields["descriptor"]))
		return b, false
	}
	b.Reason, b.Author = r.text(fields["reason"]), r.text(fields["author"])
	b.Until, b.Since = r.moment(fields["until"]), r.moment(fields["since"])
	if len(r.errs)+r.more > mistakes {
		return b, false
	}
	if err = b.check(); err != nil {
		r.fail(p, "%v", err)
	}
	return b, err == nil
}

// moment reads a time of RFC 3339, or the zero Time where there is none.
func (r *reader) moment(p place) time.Time {
	if null(p) {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, r.text(p))
	if err != nil {
		r.fail(p, "%.80q is no time like 2026-12-31T12:00:00Z", p.Value)
	}
	return t.UTC()
}
