package hybrid

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// logger is where c has its log lines written. Without a choice that is slog.Default()
// at the time of each line: nobody should have to look for an outage.
func (c Config) logger() *zap.Logger {
	if c.Logger != nil {
		return c.Logger
	}
	return zap.New(slogCore{to: c.SlogLogger})
}

// A slogCore writes what a zap.Logger is told to a slog.Logger.
type slogCore struct {
	to     *slog.Logger // nil: slog.Default()
	fields []zapcore.Field
}

func (c slogCore) logger() *slog.Logger {
	if c.to == nil {
		return slog.Default()
	}
	return c.to
}

// slogLevel is a level of zap, whose levels are 1 apart, and those of slog 4.
func slogLevel(l zapcore.Level) slog.Level { return slog.Level(4 * l) }

// Enabled is part of zapcore.Core.
func (c slogCore) Enabled(l zapcore.Level) bool {
	return c.logger().Enabled(context.Background(), slogLevel(l))
}

// With is part of zapcore.Core.
func (c slogCore) With(fields []zapcore.Field) zapcore.Core {
	c.fields = slices.Concat(c.fields, fields)
	return c
}

// Check is part of zapcore.Core.
func (c slogCore) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return checked.AddCore(e, c)
	}
	return checked
}

// Write is part of zapcore.Core.
func (c slogCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	var attributes []slog.Attr
	for _, f := range slices.Concat(c.fields, fields) {
		values := zapcore.NewMapObjectEncoder() // a field may have none, or several
		f.AddTo(values)
		for _, name := range slices.Sorted(maps.Keys(values.Fields)) {
			attributes = append(attributes, slog.Any(name, values.Fields[name]))
		}
	}
	c.logger().LogAttrs(context.Background(), slogLevel(e.Level), e.Message, attributes...)
	return nil
}

// Sync is part of zapcore.Core.
func (c slogCore) Sync() error { return nil }
