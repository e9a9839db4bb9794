package node

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	// verifyTimeout is how long a change may cut the node off.
	verifyTimeout = 10 * time.Second
	// probePause is the time between two attempts of a probe that fails.
	probePause = 500 * time.Millisecond
)

// Dial makes a probe of a TCP address.
func Dial(address string) func(context.Context) error {
	return func(ctx context.Context) error {
		dialer := net.Dialer{Timeout: 3 * time.Second}
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// Reachable names the probes that succeed now.
func (h *Host) Reachable(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var mu sync.Mutex
	var names []string
	var asked sync.WaitGroup
	for name, probe := range h.Deps.Probes {
		asked.Go(func() {
			if probe(ctx) == nil {
				mu.Lock()
				defer mu.Unlock()
				names = append(names, name)
			}
		})
	}
	asked.Wait()
	slices.Sort(names)
	return names
}

// Verify is a step that waits until these probes succeed again.
type Verify struct{ Probes []string }

func (a Verify) String() string { return fmt.Sprintf("verify %q", a.Probes) }

// Apply succeeds when each of the probes has, each in its own time.
func (a Verify) Apply(ctx context.Context, h *Host) error {
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	missing := map[string]error{}
	for _, name := range a.Probes {
		probe, ok := h.Deps.Probes[name]
		for ok {
			err := probe(ctx)
			if err == nil {
				break
			}
			select {
			case <-time.After(probePause):
				continue
			case <-ctx.Done():
			}
			missing[name] = err
			break
		}
	}
	if len(missing) == 0 {
		return nil
	}
	first := slices.Sorted(maps.Keys(missing))[0]
	return fmt.Errorf("%s was reachable before, and is not after %s: %w", first, verifyTimeout, missing[first])
}
