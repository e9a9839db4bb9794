package capture

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestWriter_RunEndsWithTheCommand or with the file, and says what the command has printed about its failure.
func TestWriter_RunEndsWithTheCommand(t *testing.T) {
	four := pcap(binary.LittleEndian, "a", "b", "c", "d")
	goesOn := func(ctx context.Context, _ string, out, _ io.Writer) error {
		for ctx.Err() == nil {
			if _, err := out.Write(four); err != nil {
				return err
			}
		}
		return ctx.Err()
	}
	for name, c := range map[string]struct {
		limit   int64
		run     Command
		packets int
		isFull  bool
		says    string
	}{
		"ended": {1 << 20, func(_ context.Context, _ string, out, _ io.Writer) error { _, err := out.Write(four); return err }, 4, false, ""},
		"full":  {300, goesOn, -1, true, ""},
		"fails": {1 << 20, func(_ context.Context, _ string, _, errs io.Writer) error {
			_, _ = io.WriteString(errs, "tcpdump: eth0: no such device")
			return errors.New("exit code 1")
		}, 0, false, "capturing at pod: exit code 1: tcpdump: eth0: no such device"},
	} {
		w, err := NewWriter(&bytes.Buffer{}, c.limit, "")
		if err != nil {
			t.Fatal(err)
		}
		packets, isFull, err := w.Run(t.Context(), "pod", "sees all", c.run)
		if packets != c.packets && c.packets >= 0 || isFull != c.isFull || (err == nil) != (c.says == "") || err != nil && !strings.HasPrefix(err.Error(), "capturing at pod: ") {
			t.Errorf("%s: %d packets, full %v, %v; want %+v", name, packets, isFull, err, c.says)
		}
		if err != nil && !strings.Contains(err.Error(), "no such device") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
