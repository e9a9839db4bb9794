package unixctl

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ProcessorTime is the time on a processor of the daemon's main thread, which answers here, since its start. An error
// says that the process cannot be read, such as that of another PID namespace.
func (c Client) ProcessorTime() (time.Duration, error) {
	instance, err := c.Instance()
	if err != nil {
		return 0, err
	}
	process := filepath.Join(cmp.Or(c.Proc, "/proc"), strconv.Itoa(instance.PID))
	name, err := os.ReadFile(filepath.Join(process, "comm"))
	if err != nil {
		return 0, fmt.Errorf("reading the processor time of %s: %w", c.Daemon, err)
	}
	// The number in the pid file may be that of another process here.
	if name := strings.TrimSpace(string(name)); name != c.Daemon {
		return 0, fmt.Errorf("reading the processor time of %s: process %d is %q", c.Daemon, instance.PID, name)
	}
	text, err := os.ReadFile(filepath.Join(process, "schedstat"))
	if err != nil {
		return 0, fmt.Errorf("reading the processor time of %s: %w", c.Daemon, err)
	}
	return parseSchedstat(string(text))
}

// parseSchedstat takes the schedstat file of a thread (proc(5)): nanoseconds on a processor, nanoseconds of waiting for
// one, and number of turns. A kernel without these statistics writes zeros.
func parseSchedstat(text string) (time.Duration, error) {
	first, _, _ := strings.Cut(text, " ")
	nanoseconds, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("parsing %q as schedstat: %w", text, err)
	}
	if nanoseconds == 0 {
		return 0, fmt.Errorf("parsing %q as schedstat: the kernel counts no processor time", text)
	}
	return time.Duration(nanoseconds), nil
}

// Runs reports whether there is a process of the daemon. It is true if that is not known: Proc is not set, or a file cannot
// be read.
func (c Client) Runs() bool {
	if c.Proc == "" {
		return true
	}
	pid, err := os.ReadFile(filepath.Join(c.Dir, c.Daemon+".pid"))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	name, err := os.ReadFile(filepath.Join(c.Proc, strings.TrimSpace(string(pid)), "comm"))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH)
	}
	return strings.TrimSpace(string(name)) == c.Daemon
}
