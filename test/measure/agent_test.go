package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/expose"
)

// TestReadCommands_ReadsWhatTheAgentLogs: its logger writes the lines, in the form
// of containerd's files.
func TestReadCommands_ReadsWhatTheAgentLogs(t *testing.T) {
	var log bytes.Buffer
	write := func(attrs ...any) {
		log.WriteString("2026-11-29T01:21:51.969711002Z stderr F ")
		expose.Logger(&log, slog.LevelInfo).Info("CNI command", attrs...)
	}
	write("command", "ADD", "owner", "Pod/bench-x/one", "sandbox", "a", "took", 17630*time.Microsecond)
	write("command", "DEL", "owner", "Pod/bench-x/one", "sandbox", "a", "took", 14*time.Millisecond)
	write("command", "DEL", "owner", "Pod/bench-x/one", "sandbox", "a", "took", time.Millisecond)
	write("command", "ADD", "owner", "Pod/bench-x/failed", "sandbox", "b", "took", time.Second, "error", "no")
	write("command", "ADD", "owner", "Pod/other/one", "sandbox", "c", "took", time.Second)
	pods := readLog(t, log.Bytes())
	one, ok := pods["one"]
	if !ok || len(pods) != 1 {
		t.Fatalf("commands of pods %v, want those of pod one alone", pods)
	}
	if one.add != 17630*time.Microsecond || one.returned.Sub(one.received) != one.add {
		t.Errorf("ADD took %s, from %s to %s", one.add, one.received, one.returned)
	}
	if diff := cmp.Diff([]time.Duration{14 * time.Millisecond}, one.del); diff != "" {
		t.Errorf("DEL (-want +got):\n%s", diff)
	}
}

// TestReadCommands_LineOfAnotherFormIsAnError: a form that is not known would give tables without times.
func TestReadCommands_LineOfAnotherFormIsAnError(t *testing.T) {
	line := `2026-11-29T01:21:51Z stderr F {"msg":"CNI command","command":"ADD","owner":"Pod/bench-x/one","took":17630000}`
	file := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := readCommands(file, "Pod/bench-x/", map[string]podCommands{}); err == nil {
		t.Error("a duration that is a number was taken")
	}
}

func readLog(t *testing.T, text []byte) map[string]podCommands {
	t.Helper()
	file := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	pods := map[string]podCommands{}
	if err := readCommands(file, "Pod/bench-x/", pods); err != nil {
		t.Fatal(err)
	}
	return pods
}
