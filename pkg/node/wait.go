package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

// calm is how long changes that only the annotations show are gathered.
const calm = time.Second

// follow turns the host's events into passes: at once for links that carry the
// node's network, after a while for other addresses, never for pods' links.
func (s *Setup) follow(events <-chan netdev.Event) {
	var later *time.Timer
	for e := range events {
		switch {
		case e.Kind == netdev.Lost || s.matters(e):
			s.Mark()
		case e.Kind == netdev.AddrEvent && later == nil:
			later = time.AfterFunc(calm, s.Mark)
		case e.Kind == netdev.AddrEvent:
			later.Reset(calm)
		}
	}
	if later != nil {
		later.Stop()
	}
}

// matters reports whether an event is about a link of ours. A link that has
// just been made is known by its name only, one that is gone by its index.
func (s *Setup) matters(e netdev.Event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == nil { // before the first pass
		return true
	}
	return s.known[e.Index] || e.Kind == netdev.LinkEvent && s.names[e.Link]
}

func (s *Setup) remember(st State, g Gateway) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known, s.names = map[int]bool{}, map[string]bool{}
	for _, name := range []string{g.Bridge, g.NIC, IntegrationBridge, ManagementInterface} {
		s.names[name] = true
		if link, ok := st.Links[name]; ok {
			s.known[link.Index] = true
		}
	}
}

func (s *Setup) commit(ctx context.Context, c commit) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	result, err := s.deps.DB.Commit(ctx, ovsdb.Want{Owner: c.Owner.String(), Rows: c.Rows})
	if err != nil {
		return err
	}
	err = result.Failed[c.Owner.String()]
	if errors.Is(err, ovsdb.ErrNoParent) {
		return notReady("%v", err)
	}
	return err
}

// awaitPort returns ovs-vswitchd's complaint, if that is what it answers.
func (s *Setup) awaitPort(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	var complaint *string
	err := s.deps.DB.WaitRow(ctx, vswitch.InterfaceTable, gatewayOwner(s.cfg).String(), name, func(row any) bool {
		iface, ok := row.(*vswitch.Interface)
		if !ok {
			return false
		}
		complaint = iface.Error
		return iface.Error != nil || iface.Ofport != nil && *iface.Ofport > 0
	})
	if err != nil {
		return fmt.Errorf("ovs-vswitchd has not opened %s: %w", name, err)
	}
	if complaint != nil {
		return fmt.Errorf("ovs-vswitchd: %s", *complaint)
	}
	return nil
}

// reachable names the probes that succeed now.
func (s *Setup) reachable(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var mu sync.Mutex
	var names []string
	var asked sync.WaitGroup
	for name, probe := range s.deps.Probes {
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

// verify succeeds when each of the probes has, each in its own time.
func (s *Setup) verify(ctx context.Context, names []string) error {
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	missing := map[string]error{}
	for _, name := range names {
		probe, ok := s.deps.Probes[name]
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
