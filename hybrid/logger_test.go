package hybrid_test

import (
	"bytes"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/seed13b07268/ration/hybrid"
)

// TestLoggers: an outage is told to whichever logger there is, and to slog's default if
// there is none.
func TestLoggers(t *testing.T) {
	var out bytes.Buffer
	toSlog := slog.New(slog.NewTextHandler(&out, nil))
	toZap := zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(zapcore.EncoderConfig{
		LevelKey: "level", EncodeLevel: zapcore.CapitalLevelEncoder, MessageKey: "msg",
	}), zapcore.AddSync(&out), zap.InfoLevel))
	before := slog.Default()
	defer slog.SetDefault(before)
	for name, c := range map[string]hybrid.Config{
		"zap": {Logger: toZap}, "slog": {SlogLogger: toSlog}, "default": {},
		"none": {SlogLogger: slog.New(slog.DiscardHandler)},
	} {
		synctest.Test(t, func(t *testing.T) {
			out.Reset()
			slog.SetDefault(before)
			c.Limit = hybrid.PerSecond(100)
			store := remoteLine(time.Millisecond)
			l := newLimiter(t, store, c)
			if name == "default" {
				slog.SetDefault(toSlog) // after New
			}
			for i := range 200 {
				store.cut.Store(i < 100)
				l.Allow("k")
				time.Sleep(20 * time.Millisecond)
			}
			if l.Close(ctx); name == "none" {
				if out.Len() > 0 {
					t.Errorf("silenced, and yet: %s", &out)
				}
				return
			}
			for _, want := range []string{"(?i)warn.*store does not answer.*for.*cut", "(?i)info.*store answers again.*after"} {
				if !regexp.MustCompile(want).MatchString(out.String()) {
					t.Errorf("%s: no %q in %s", name, want, &out)
				}
			}
		})
	}
	_, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{Limit: hybrid.PerSecond(1), Logger: toZap, SlogLogger: toSlog})
	if err == nil ||
		!strings.Contains(err.Error(), "hybrid: Config.Logger and Config.SlogLogger are both set") {
		t.Errorf("both: %v", err)
	}
}
