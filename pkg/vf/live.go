package vf

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// watchBackoff is how long Live waits before it watches again.
const watchBackoff = 5 * time.Second

// Live keeps the newest inventory, so that the inventory is taken once for all readers.
// Listeners are called one after the other, by one goroutine.
type Live struct {
	node      *Node
	log       *slog.Logger
	listeners []func(Inventory)

	mu     sync.Mutex
	latest *Inventory

	reading sync.Mutex
	read    Inventory
	readAt  time.Time // when read was complete
}

// NewLive has no inventory before Run.
func NewLive(node *Node, log *slog.Logger) *Live { return &Live{node: node, log: log} }

// OnChange adds a listener; call it before Run. What a listener is given is
// shared: do not change it.
func (l *Live) OnChange(f func(Inventory)) { l.listeners = append(l.listeners, f) }

// Inventory is the newest; nil before the first. It is shared, too.
func (l *Live) Inventory() *Inventory {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.latest
}

// VF finds a VF by its device's name. One that is not in the newest inventory, or
// not with its representor, may be newer than the inventory, and a NIC that had not answered may answer now: then VF takes
// an inventory.
func (l *Live) VF(device string) (Handle, error) {
	if latest := l.Inventory(); latest != nil {
		if h, ok := latest.Handle(device); ok && (h.Representor != "" || h.Mode == Legacy || h.Mode == NoSwitch) {
			return h, nil
		}
	}
	now, err := l.readNow()
	if err != nil {
		return Handle{}, fmt.Errorf("looking for VF %s: %w", device, err)
	}
	h, ok := now.Handle(device)
	if !ok {
		return h, fmt.Errorf("%s is not a VF of this node", device)
	}
	return h, nil
}

// Exclusive says whether each namespace has RDMA devices of its own. Like VF it
// does not wait for the first inventory.
func (l *Live) Exclusive() (bool, error) {
	mode := rdmaUnknown
	if latest := l.Inventory(); latest != nil {
		mode = latest.RDMA
	}
	if mode == rdmaUnknown {
		now, err := l.readNow()
		if err != nil {
			return false, fmt.Errorf("asking for the RDMA namespace mode: %w", err)
		}
		mode = now.RDMA
	}
	if mode == rdmaUnknown {
		return false, errors.New("the kernel does not answer which RDMA namespace mode it has")
	}
	return mode == "exclusive", nil
}

// readNow takes the inventory, once for callers that come one after the other: each pod
// of a NIC that is absent asks for it.
func (l *Live) readNow() (Inventory, error) {
	l.reading.Lock()
	defer l.reading.Unlock()
	if time.Since(l.readAt) < debounce {
		return l.read, nil
	}
	now, err := l.node.Read()
	if err == nil {
		l.read, l.readAt = now, time.Now()
	}
	return now, err
}

// Run watches until ctx ends, and begins again when the kernel ends it.
func (l *Live) Run(ctx context.Context) error {
	for {
		err := l.node.Watch(ctx, l.changed)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		l.log.Warn("watching devices", "error", err, "retry", watchBackoff)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(watchBackoff):
		}
	}
}

func (l *Live) changed(inv Inventory) {
	l.mu.Lock()
	l.latest = &inv
	l.mu.Unlock()
	for _, f := range l.listeners {
		f(inv)
	}
}
