package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ProcessorTime is what all machines of a lab have used of the processors since the lab came up, as their cgroup
// counts it. The error is fs.ErrNotExist when the lab is not up.
func ProcessorTime(lab string) (time.Duration, error) {
	all, err := hierarchies()
	if err != nil {
		return 0, err
	}
	for _, h := range all {
		dir := filepath.Join(h.mount, h.own)
		if _, err := os.Stat(dir); err != nil || isV2() {
			dir = h.mount
		}
		used, err := processorTime(filepath.Join(dir, cgroupPrefix+lab))
		if !errors.Is(err, fs.ErrNotExist) {
			return used, err
		}
	}
	return 0, fmt.Errorf("lab %s has no cgroup that counts processor time: %w", lab, fs.ErrNotExist)
}

// processorTime reads cpuacct.usage (v1, nanoseconds) or usage_usec of cpu.stat (v2) of a group.
func processorTime(dir string) (time.Duration, error) {
	if text, err := os.ReadFile(filepath.Join(dir, "cpuacct.usage")); err == nil {
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		return time.Duration(n), err
	}
	text, err := os.ReadFile(filepath.Join(dir, "cpu.stat"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "usage_usec "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			return time.Duration(n) * time.Microsecond, err
		}
	}
	return 0, fmt.Errorf("%s has no usage_usec: %w", dir, fs.ErrNotExist) // a v1 hierarchy that does not count it
}
