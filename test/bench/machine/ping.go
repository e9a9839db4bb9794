//go:build bench

package machine

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// PingInterval is the time between two pings.
const PingInterval = 100 * time.Millisecond

// Pings is a ping that goes on until the test ends.
type Pings struct {
	testing.TB
	file string
	read int
}

// Answer is the answer to one ping.
type Answer struct {
	At  time.Time
	Seq int
}

// Ping pings an address from a namespace. It waits for the first answer.
func Ping(t testing.TB, ns, address string) *Pings {
	t.Helper()
	p := &Pings{TB: t, file: filepath.Join(t.TempDir(), "ping")}
	out, err := os.Create(p.file)
	must(t, err)
	cmd := exec.Command("ip", "netns", "exec", ns, "ping", "-n", "-D", "-i", fmt.Sprint(PingInterval.Seconds()), address)
	cmd.Stdout, cmd.Stderr = out, out
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait(); _ = out.Close() })
	Eventually(t, "the first answer", func() bool { return len(p.answers()) > 0 })
	return p
}

// Report logs how many packets were lost since the last report, and the longest time between two answers. It waits
// until the external host has answers again. A time over the limit fails the test.
func (p *Pings) Report(when string, limit time.Duration) {
	p.Helper()
	from := len(p.answers())
	Eventually(p, "pings answered "+when, func() bool { return len(p.answers()) >= from+5 })
	answers := p.answers()
	last := answers[max(p.read-1, 0)]
	var gap time.Duration
	var lost int
	for _, a := range answers[max(p.read-1, 0):] {
		gap, lost = max(gap, a.At.Sub(last.At)), lost+max(a.Seq-last.Seq-1, 0)
		last = a
	}
	sent := last.Seq - answers[max(p.read-1, 0)].Seq
	p.Logf("%s: %d of %d pings lost, the longest gap was %s", when, lost, sent, gap.Round(10*time.Millisecond))
	if gap > limit {
		p.Errorf("%s: no answer for %s", when, gap)
	}
	p.read = len(answers)
}

// Silence gives the longest time without an answer between two moments.
func (p *Pings) Silence(from, to time.Time) (longest time.Duration) {
	p.Helper()
	last := from
	for _, a := range p.answers() {
		if a.At.After(from) && a.At.Before(to) {
			longest, last = max(longest, a.At.Sub(last)), a.At
		}
	}
	return max(longest, to.Sub(last))
}

func (p *Pings) answers() (all []Answer) {
	p.Helper()
	text, err := os.ReadFile(p.file)
	must(p, err)
	for line := range strings.Lines(string(text)) {
		stamp, rest, found := strings.Cut(strings.TrimPrefix(line, "["), "]")
		_, seq, replied := strings.Cut(rest, "icmp_seq=")
		if !found || !replied || !strings.Contains(rest, "bytes from") {
			continue
		}
		at, err := strconv.ParseFloat(stamp, 64)
		must(p, err)
		n, err := strconv.Atoi(strings.Fields(seq)[0])
		must(p, err)
		all = append(all, Answer{time.UnixMicro(int64(at * 1e6)), n})
	}
	return all
}
