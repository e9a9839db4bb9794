package flowapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// lately is an agent whose flows carry ten packets a second. It reads them when asked, at most each period.
type lately struct {
	Source
	period time.Duration
	asked  atomic.Int64
	taken  time.Time
	broken error
	// anew is the moment from which it counts.
	anew time.Time
}

func (l *lately) Summary(context.Context, bool) (*Summary, error) {
	l.asked.Add(1)
	if now := time.Now(); now.Sub(l.taken) >= l.period {
		l.taken = now
	}
	longAgo := time.Date(1999, 12, 31, 0, 0, 0, 0, time.UTC)
	s := counted(0, 0, uint64(10*l.taken.Sub(longAgo).Seconds()), 0)
	s.Taken, s.CountedSince = l.taken, longAgo
	if !l.anew.IsZero() && !l.taken.Before(l.anew) {
		s.CountedSince = l.taken
		s.Counted.Hardware.Packets = 0
		if l.asked.Load() > 2 {
			s.CountedSince = l.anew
			s.Counted.Hardware.Packets = uint64(10 * l.taken.Sub(l.anew).Seconds())
		}
	}
	return s, l.broken
}

// TestCounter_PausesOnceForAllNodes: the pause does not grow with the nodes, and a second count goes on from the first.
func TestCounter_PausesOnceForAllNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agents, nodes := map[string]*lately{}, []string(nil)
		for i := range 20 * nodesAtOnce {
			nodes = append(nodes, fmt.Sprint("w", i))
			agents[nodes[i]] = &lately{period: MinPeriod}
		}
		c := Counter{Sources: func(node string) Source { return agents[node] }}
		for round := range 2 {
			begun := time.Now()
			got, missing := c.Count(t.Context(), nodes, 3*time.Second)
			if took := time.Since(begun); len(got) != len(nodes) || len(missing) > 0 || took != 3*time.Second {
				t.Errorf("%d nodes counted in %s, missing %v", len(got), took, missing)
			}
			if got[0].Seconds != 3 || got[0].Total.Hardware.Packets != 30 {
				t.Errorf("in %v s %+v", got[0].Seconds, got[0].Total)
			}
			if asked := agents["w7"].asked.Load(); asked != int64(round+2) {
				t.Errorf("round %d: asked %d times", round, asked)
			}
		}
	})
}

// TestCounter_NamesWhatWasNotCounted: an agent that reads its flows too rarely, does not answer or has just begun anew gives no
// numbers of another time. One that reads them late is waited for.
func TestCounter_NamesWhatWasNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		agents := map[string]*lately{
			"good": {period: MinPeriod}, "slow": {period: 10 * time.Second}, "never": {period: time.Hour}, "broken": {broken: errors.New("no route to host")},
			"anew": {period: MinPeriod, anew: now.Add(2 * time.Second)},
		}
		c := Counter{Sources: func(node string) Source { return agents[node] }}
		got, missing := c.Count(t.Context(), []string{"good", "slow", "never", "broken", "anew"}, 3*time.Second)
		seconds := ""
		for _, s := range got {
			if rate := float64(s.Total.Hardware.Packets) / s.Seconds; rate < 9 || rate > 10.1 {
				t.Errorf("%v packets a second in %v s", rate, s.Seconds)
			}
			seconds += fmt.Sprint(s.Seconds, " ")
		}
		if seconds != "3 4 12 " {
			t.Errorf("counted in seconds: %s", seconds)
		}
		if text := strings.Join(missing, "\n"); len(missing) != 2 || !strings.HasPrefix(text, "node/broken: no route to host\nnode/never: its agent has not read its flows a second time") {
			t.Errorf("missing: %s", text)
		}
		if got, _ := c.Count(t.Context(), []string{"never"}, 0); len(got) != 1 || got[0].Seconds != 0 {
			t.Errorf("without an interval: %+v", got)
		}
	})
}
