package expose

import (
	"io"
	"log/slog"
	"time"
)

// Logger writes a process' log as lines of JSON. Durations are text, such as "44.5ms", rounded to three digits or more.
func Logger(to io.Writer, level slog.Leveler) *slog.Logger {
	return slog.New(slog.NewJSONHandler(to, &slog.HandlerOptions{Level: level, ReplaceAttr: readable}))
}

func readable(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(rounded(a.Value.Duration()).String())
	}
	return a
}

// rounded drops the digits that tell nothing: of a second and more those below 10 ms, of a millisecond and more those
// below 10 µs.
func rounded(d time.Duration) time.Duration {
	switch size := d.Abs(); {
	case size >= time.Second:
		return d.Round(10 * time.Millisecond)
	case size >= time.Millisecond:
		return d.Round(10 * time.Microsecond)
	default:
		return d
	}
}
