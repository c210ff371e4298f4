package rules_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A board is a Source in memory. It has what a test has put there.
type board struct {
	mu      sync.Mutex
	texts   []string
	version int
	err     error
	changed chan struct{}
}

func newBoard(texts ...string) *board {
	return &board{texts: texts, changed: make(chan struct{})}
}

// put replaces all documents.
func (b *board) put(texts ...string) { b.set(nil, texts...) }

// fail lets each Load fail.
func (b *board) fail(err error) { b.set(err) }

func (b *board) set(err error, texts ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.texts, b.err = texts, err
	b.version++
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *board) Load(context.Context) (docs []rules.Document, tag string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, text := range b.texts {
		docs = append(docs, rules.Document{
			Name: "doc" + strconv.Itoa(i) + ".yaml", Text: []byte(text), Version: int64(b.version),
		})
	}
	return docs, strconv.Itoa(b.version), b.err
}

func (b *board) Wait(ctx context.Context, tag string) error {
	b.mu.Lock()
	changed, same := b.changed, tag == strconv.Itoa(b.version)
	b.mu.Unlock()
	if !same {
		return nil
	}
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// newLimiter returns a Limiter that is closed at the end of the test.
func newLimiter(
	t testing.TB, store hybrid.Store, source rules.Source, config rules.Config,
) *rules.Limiter {
	t.Helper()
	if config.Limiter.SlogLogger == nil {
		config.Limiter.SlogLogger = slog.New(slog.DiscardHandler)
	}
	l, err := rules.New(store, source, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return l
}

// parse reads one text.
func parse(text string) (*rules.Rules, error) {
	return rules.Parse(rules.Document{Name: "x.yaml", Text: []byte(text)})
}

// admitted takes n times, and returns how often that was allowed.
func admitted(
	t *testing.T, l *rules.Limiter, domain string, n int, d ...rules.Descriptor,
) (yes int) {
	t.Helper()
	for range n {
		r, err := l.Take(t.Context(), domain, d...)
		if err != nil {
			t.Fatal(err)
		}
		if r.Allowed {
			yes++
		}
	}
	return yes
}

// A logBook keeps log lines.
type logBook struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *logBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *logBook) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.String()
}

var errBroken = errors.New("the source is broken")
