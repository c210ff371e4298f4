package main

import (
	"encoding/json"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/remote/redistest"
)

// line is the last line of a log with a message.
func (r *running) line(t *testing.T, message string) map[string]any {
	t.Helper()
	var found map[string]any
	for text := range strings.Lines(r.told()) {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		if line["msg"] == message {
			found = line
		}
	}
	return found
}

// TestDurations: those of the library and of the service have their units.
func TestDurations(t *testing.T) {
	redis := redistest.Start(t)
	w := shop(t, "-data", t.TempDir(), "-redis", "redis://"+redis.Addr, "-timeout", "250ms")
	redis.Kill()
	w.soon("the library tells that Redis is away", func() bool {
		body, _ := ann(1)
		_, _ = w.visitor.API(t.Context(), "POST", "v1/take", body)
		return w.line(t, "store does not answer") != nil
	})
	w.end(t)
	for message, field := range map[string]string{
		"store does not answer": "for", "ending": "shutdown", "ended": "served",
	} {
		line := w.line(t, message)
		text, _ := line[field].(string)
		if _, err := time.ParseDuration(text); err != nil {
			t.Errorf("%s: %v", message, line)
		}
	}
}

// TestEnded: the last line of the log says that all has ended, and why if it was not told to.
func TestEnded(t *testing.T) {
	r := start(t, "-data", t.TempDir())
	r.end(t)
	lines := strings.Split(strings.TrimSpace(r.told()), "\n")
	if last := lines[len(lines)-1]; !strings.Contains(last, `"level":"INFO","msg":"ended"`) {
		t.Errorf("the last line is %s", last)
	}
	var log strings.Builder
	err := run(t.Context(), []string{"-data", t.TempDir(), "-http", taken(t)}, os.Getenv, &log)
	if err == nil || !strings.Contains(log.String(), `"level":"ERROR","msg":"ended"`) ||
		!strings.Contains(log.String(), `"error":"-http `) {
		t.Errorf("%v:\n%s", err, log.String())
	}
}

// taken is an address where somebody listens.
func taken(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}
