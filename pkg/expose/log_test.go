package expose_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/expose"
)

func TestLogger_WritesReadableDurations(t *testing.T) {
	for took, want := range map[time.Duration]string{
		44535933 * time.Nanosecond:    "44.54ms",
		1234567890 * time.Nanosecond:  "1.23s",
		-1234567890 * time.Nanosecond: "-1.23s",
		987 * time.Nanosecond:         "987ns",
		2*time.Minute + 3*time.Second: "2m3s",
		time.Duration(0):              "0s",
		999_999_999 * time.Nanosecond: "1s",
	} {
		var out bytes.Buffer
		expose.Logger(&out, slog.LevelInfo).With("node", "a").Info("applied", "took", took, slog.Group("stages", "flows", took))
		var line struct {
			Took   string
			Stages struct{ Flows string }
		}
		if err := json.Unmarshal(out.Bytes(), &line); err != nil {
			t.Fatalf("%s: %v", out.String(), err)
		}
		if line.Took != want || line.Stages.Flows != want {
			t.Errorf("%d ns: %s, want %s", took, out.String(), want)
		}
	}
}
