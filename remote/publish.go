package remote

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/seed13b07268/ration/lua"
)

// PublishKey is a key of the store that is not a user's: what processes publish is there,
// in one hash.
const PublishKey = "\x00stats"

const (
	// mostPublished is from how many ids on a new one may be refused. At 2,062 ids, twice
	// as many and 16, it is. mostText is how long a text may be: all of them are read by
	// one command.
	mostPublished = 1024
	mostText      = 4096
	longestLife   = 5 * time.Minute
)

var (
	publish   = newScript(lua.Publish)
	published = newScript(lua.Published)
)

// Publish keeps a text of at most 4 KiB under id for a life of up to 5 min, in place of
// what was there. Where 1024 ids have one a new id may get an error, and where 2062 have one
// it does. It is one script call, and returns as Exchange does.
func (s *Store) Publish(ctx context.Context, id string, text []byte, life time.Duration) error {
	return s.PublishAll(ctx, map[string][]byte{id: text}, life)
}

// PublishAll is Publish of texts by id, in one round trip. Where it returns an error some of
// them may be kept.
func (s *Store) PublishAll(
	ctx context.Context, texts map[string][]byte, life time.Duration,
) error {
	if s.rdb == nil {
		return errNoClient
	}
	var cmds []*command
	var ids []string
	for id, text := range texts {
		if err := publishable(id, text, life); err != nil {
			return err
		}
		ids = append(ids, id)
		cmds = append(cmds, publish.command(ctx, s.name(PublishKey), id, life.Milliseconds(), text,
			mostPublished))
	}
	s.run(ctx, cmds)
	for i, cmd := range cmds {
		if err := cmd.Err(); err != nil {
			return fmt.Errorf("remote: publish %s: %w", shorten(ids[i]), err)
		}
	}
	return nil
}

// publishable returns an error if a text cannot be published.
func publishable(id string, text []byte, life time.Duration) error {
	switch {
	case len(text) > mostText:
		return fmt.Errorf("remote: publish %s: text of %d bytes, not at most %d",
			shorten(id), len(text), mostText)
	case life < time.Millisecond || life > longestLife:
		return fmt.Errorf("remote: publish %s: life %v is not from 1ms to %v",
			shorten(id), life, longestLife)
	case id == "" || id == "#" || id == "!":
		return fmt.Errorf("remote: publish: id %q is not a name", id)
	}
	return nil
}

// Published calls each for all that is published, in any order. age is how long ago that
// was, on the server's clock. It is one script call.
func (s *Store) Published(
	ctx context.Context, each func(id string, age time.Duration, text []byte),
) error {
	if s.rdb == nil {
		return errNoClient
	}
	cmd := published.command(ctx, s.name(PublishKey))
	s.run(ctx, []*command{cmd})
	v, err := cmd.Result()
	var row []string
	if err == nil {
		row, err = texts(v)
	}
	if err != nil {
		return fmt.Errorf("remote: published: %w", err)
	}
	if len(row)%3 != 0 {
		return fmt.Errorf("remote: published: odd reply: %d strings", len(row))
	}
	for i := 0; i < len(row); i += 3 {
		ms, err := strconv.ParseInt(row[i+1], 10, 64)
		if err != nil {
			return errors.Join(errors.New("remote: published: odd reply"), err)
		}
		each(row[i], time.Duration(ms)*time.Millisecond, []byte(row[i+2]))
	}
	return nil
}
