package bookstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed13b07268/ration/hybrid/rules"
)

// Killed is about a server that is killed in the middle of changes, and comes back with what it
// had promised to keep. Editors add lines to one domain all the while. Version n must have n
// lines: those of the revisions that were answered, in their places, and others once each. restart
// kills the server and returns when it runs again.
func Killed(t *testing.T, open func() rules.Book, kills int, restart func()) {
	const editors, between = 4, 30
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var answered, unknown atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	made := make([]map[int64]string, editors) // lines by version
	for i := range editors {
		made[i] = map[int64]string{}
		b := open()
		wg.Go(func() {
			for n := 0; !stop.Load() && ctx.Err() == nil; n++ {
				line := fmt.Sprintf("# line %d of editor %d", n, i)
				version, errs := insist(ctx, b, line)
				made[i][version] = line
				answered.Add(1)
				unknown.Add(int64(errs))
			}
		})
	}
	for range kills {
		from := answered.Load()
		until(ctx, t, "changes are made", func() bool { return answered.Load() >= from+between })
		restart()
	}
	from := answered.Load()
	until(ctx, t, "changes are made", func() bool { return answered.Load() >= from+between })
	stop.Store(true)
	wg.Wait()
	t.Logf("%d changes answered, %d attempts not", answered.Load(), unknown.Load())

	editor{t, open()}.keeps(made)
}

// keeps looks at a document whose versions have a line each, of which editors have made some: those
// that were answered are all there, once.
func (e editor) keeps(made []map[int64]string) {
	t := e.TB
	doc := e.load()["shop"]
	lines := strings.Split(strings.TrimSuffix(string(doc.Text), "\n"), "\n")
	if int64(len(lines)) != doc.Version {
		t.Errorf("version %d has %d lines", doc.Version, len(lines))
	}
	seen := map[string]bool{}
	for _, line := range lines {
		if seen[line] {
			t.Errorf("%q is there twice", line)
		}
		seen[line] = true
	}
	for i := range made {
		for version, line := range made[i] {
			if version > int64(len(lines)) || lines[version-1] != line {
				t.Errorf("version %d was answered to be %q", version, line)
			}
		}
	}
	for i, r := range e.history("shop", 0, 100) {
		if want := doc.Version - int64(i); r.Version != want ||
			int64(bytes.Count(r.Text, []byte("\n"))) != want {
			t.Fatalf("revision %d has version %d and %d lines", want, r.Version,
				bytes.Count(r.Text, []byte("\n")))
		}
	}
}

// insist adds a line until it is known to be there, and returns its version and how many
// attempts had no answer.
func insist(ctx context.Context, b rules.Book, line string) (version int64, unknown int) {
	for ctx.Err() == nil {
		docs, _, err := b.Load(ctx)
		if err != nil {
			pause(ctx)
			continue
		}
		var d rules.Document
		if len(docs) > 0 {
			d = docs[0]
		}
		if before, _, found := strings.Cut(string(d.Text), line+"\n"); found {
			return int64(strings.Count(before, "\n")) + 1, unknown // an answer was lost
		}
		c := change("shop", d.Version, append(bytes.Clone(d.Text), line+"\n"...))
		for {
			r, err := b.Save(ctx, c)
			if err == nil {
				return r.Version, unknown
			}
			if errors.Is(err, rules.ErrConflict) || ctx.Err() != nil {
				break
			}
			unknown++
			pause(ctx)
		}
	}
	return 0, unknown
}

// pause is between two attempts at a server that is away.
func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Millisecond):
	}
}

// until waits until what holds.
func until(ctx context.Context, t *testing.T, what string, holds func() bool) {
	t.Helper()
	for !holds() {
		if ctx.Err() != nil {
			t.Fatalf("waited in vain until %s", what)
		}
		pause(ctx)
	}
}
