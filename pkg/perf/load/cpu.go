package load

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// CPU is the CPU time that a node used, in cores.
type CPU struct {
	// Boot is the id of the machine's boot: nodes with the same one share a machine.
	Boot string `json:"boot"`
	// Count is how many cores there are.
	Count int `json:"count"`
	// Idle are the cores in use before the load, Busy those while it ran. Softirq are those of Busy, less the ones before,
	// that handled interrupts and packets.
	Idle    float64 `json:"idle"`
	Busy    float64 `json:"busy"`
	Softirq float64 `json:"softirq"`
}

// Times are sums of /proc/stat at a moment, which in a pod is that of the node.
type Times struct {
	Boot  string
	Count int
	At    time.Time
	// Busy is all time but that of idling and waiting for disks. Interrupts is the part in interrupts and their softirqs.
	Busy, Interrupts time.Duration
}

// tick is the unit of /proc/stat: USER_HZ is 100 on all architectures of Go.
const tick = 10 * time.Millisecond

// ReadTimes reads those of the node.
func ReadTimes() (Times, error) {
	at := time.Now()
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return Times{}, err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Times{}, err
	}
	t, err := parseTimes(string(text))
	t.At, t.Boot = at, strings.TrimSpace(string(boot))
	return t, err
}

// The columns of /proc/stat: proc_stat(5). Time of guests is in user and nice already.
const (
	user = iota
	nice
	system
	_ // idle
	_ // iowait
	irq
	softirq
	columns
)

func parseTimes(text string) (t Times, err error) {
	line, rest, _ := strings.Cut(text, "\n")
	t.Count = strings.Count("\n"+rest, "\ncpu")
	fields := strings.Fields(line)
	if len(fields) < 1+columns || fields[0] != "cpu" {
		return t, fmt.Errorf("/proc/stat begins with %q", line)
	}
	var ticks [columns]time.Duration
	for i := range ticks {
		n, err := strconv.ParseInt(fields[1+i], 10, 64)
		if err != nil {
			return t, fmt.Errorf("reading /proc/stat: %w", err)
		}
		ticks[i] = time.Duration(n) * tick
	}
	t.Interrupts = ticks[irq] + ticks[softirq]
	t.Busy = ticks[user] + ticks[nice] + ticks[system] + t.Interrupts
	return t, nil
}

// cores is the use of three moments: before the idle time, after it, and after the load.
func cores(first, idle, load Times) CPU {
	rate := func(from, to Times, of func(Times) time.Duration) float64 {
		span := to.At.Sub(from.At)
		if span <= 0 {
			return 0
		}
		return float64(of(to)-of(from)) / float64(span)
	}
	busy := func(t Times) time.Duration { return t.Busy }
	interrupts := func(t Times) time.Duration { return t.Interrupts }
	return CPU{
		Boot: load.Boot, Count: load.Count, Idle: rate(first, idle, busy), Busy: rate(idle, load, busy),
		Softirq: max(0, rate(idle, load, interrupts)-rate(first, idle, interrupts)),
	}
}
