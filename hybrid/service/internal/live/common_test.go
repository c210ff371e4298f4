package live

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

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
	changed chan struct{}
}

func newBoard(texts ...string) *board {
	return &board{texts: texts, changed: make(chan struct{})}
}

// put replaces all documents.
func (b *board) put(texts ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.texts = texts
	b.version++
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *board) Load(context.Context) (docs []rules.Document, tag string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, text := range b.texts {
		docs = append(docs, rules.Document{Name: "doc" + strconv.Itoa(i), Text: []byte(text)})
	}
	return docs, strconv.Itoa(b.version), nil
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

var quiet = slog.New(slog.DiscardHandler)

// newLimiter returns a Limiter that publishes each 5 s and is closed at the end of the test.
func newLimiter(
	t testing.TB, store hybrid.Store, source rules.Source, process *hybrid.Process, name string,
) *rules.Limiter {
	t.Helper()
	l, err := rules.New(store, source, rules.Config{Limiter: hybrid.Config{
		SlogLogger: quiet, Process: process, Publish: 5 * time.Second, PublishName: name,
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	return l
}

// run runs l until the test ends.
func run(t testing.TB, l *Live) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
}

// get returns what the Handler answers.
func get(t testing.TB, l *Live, url string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	l.Handler().ServeHTTP(w, httptest.NewRequest("GET", url, nil))
	return w.Code, w.Body.String()
}
