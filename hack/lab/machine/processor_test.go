package machine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestProcessorTime_IsWhatTheGroupCounts(t *testing.T) {
	for _, tc := range []struct {
		name, file, text string
		want             time.Duration
		err              error
	}{
		{"v1", "cpuacct.usage", "1500000000\n", 1500 * time.Millisecond, nil},
		{"v2", "cpu.stat", "usage_usec 2500000\nuser_usec 1\n", 2500 * time.Millisecond, nil},
		{"v1 hierarchy cpu, which has no usage", "cpu.stat", "nr_periods 0\n", 0, fs.ErrNotExist},
		{"another hierarchy", "memory.limit_in_bytes", "0\n", 0, fs.ErrNotExist},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, tc.file), []byte(tc.text), 0o644); err != nil {
				t.Fatal(err)
			}
			if got, err := processorTime(dir); got != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("%s, %v; want %s, %v", got, err, tc.want, tc.err)
			}
		})
	}
}
