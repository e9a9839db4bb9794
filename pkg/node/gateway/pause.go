package gateway

import (
	"context"

	"github.com/ovn-offload/ovn-offload/pkg/node"
)

// The methods of this file are for pkg/node/uplink, which changes the mode of a NIC under a bridge.

// Pause waits for the end of a pass, and no other begins before resume, which asks for one. It may be called before Run.
func (s *Setup) Pause() (resume func()) {
	s.turn.Lock()
	return func() {
		s.turn.Unlock()
		s.Mark()
	}
}

// Detach takes a NIC out of the bridge that has taken it over; the addresses stay on the bridge. The NIC's rules of TC go
// with its port, and no driver changes the mode while there are any. It is false for a NIC of no such bridge.
func (s *Setup) Detach(ctx context.Context, nic string) (bool, error) {
	b, saved, err := s.bridgeWith(nic)
	if b == nil || err != nil {
		return false, err
	}
	return true, b.Commit(ctx, gatewayRows(b.cfg, *saved, false))
}

// Attach puts back what Detach took.
func (s *Setup) Attach(ctx context.Context, nic string) error {
	b, saved, err := s.bridgeWith(nic)
	if b == nil || err != nil {
		return err
	}
	if err := b.Commit(ctx, gatewayRows(b.cfg, *saved, true)); err != nil {
		return err
	}
	return node.AwaitPort{Owner: gatewayOwner(b.cfg), Name: nic}.Apply(ctx, b.Host)
}

// Verify waits until probes succeed, for as long as a takeover may cut the node off.
func (s *Setup) Verify(ctx context.Context, probes []string) error {
	return node.Verify{Probes: probes}.Apply(ctx, s.Host)
}

// bridgeWith is the bridge that has a NIC of its own, nil if none has. A NIC that has not been taken over since the host
// has booted has the host's addresses, and no bridge.
func (s *Setup) bridgeWith(nic string) (*bridge, *Checkpoint, error) {
	for _, b := range []*bridge{s.bridge, s.second} {
		saved, err := loadCheckpoint(b.cfg.Checkpoint)
		if err != nil {
			return nil, nil, err
		}
		booted := State{Saved: saved, Boot: b.cfg.Boot}.HasBooted()
		if saved != nil && saved.Interface == nic && !booted && len(b.Deps.DB.Rows(gatewayOwner(b.cfg).String())) > 0 {
			return b, saved, nil
		}
	}
	return nil, nil, nil
}
