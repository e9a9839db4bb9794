package vf

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// rewatch is how long Live waits before it watches again.
const rewatch = 5 * time.Second

// Live keeps the newest inventory for all who need one, so that it is taken
// once. Listeners are called one after the other, by one goroutine.
type Live struct {
	node      *Node
	log       *slog.Logger
	listeners []func(Inventory)

	mu    sync.Mutex
	known *Inventory

	looking sync.Mutex
	looked  Inventory
	at      time.Time // when looked was complete
}

// NewLive knows nothing before Run.
func NewLive(node *Node, log *slog.Logger) *Live { return &Live{node: node, log: log} }

// OnChange adds a listener; call it before Run. What a listener is given is
// shared: nobody changes it.
func (l *Live) OnChange(f func(Inventory)) { l.listeners = append(l.listeners, f) }

// Inventory is the newest; nil before the first. It is shared, too.
func (l *Live) Inventory() *Inventory {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known
}

// VF finds a VF by its device's name. One that is not in the newest inventory, or
// not with its representor, may be newer than that: then it looks itself.
func (l *Live) VF(device string) (PF, VF, error) {
	if known := l.Inventory(); known != nil {
		if pf, v, ok := known.VF(device); ok && (v.Representor != nil || !pf.Switchdev()) {
			return *pf, *v, nil
		}
	}
	now, err := l.look()
	if err != nil {
		return PF{}, VF{}, fmt.Errorf("looking for VF %s: %w", device, err)
	}
	pf, v, ok := now.VF(device)
	if !ok {
		return PF{}, VF{}, fmt.Errorf("%s is not a VF of this node", device)
	}
	return *pf, *v, nil
}

// Exclusive says whether each namespace has RDMA devices of its own. Like VF it
// does not wait for the first inventory.
func (l *Live) Exclusive() bool {
	if known := l.Inventory(); known != nil {
		return known.RDMA == "exclusive"
	}
	now, err := l.look()
	return err == nil && now.RDMA == "exclusive"
}

// look reads the inventory, once for all who ask one after the other: a NIC that
// is away is asked for by each of its pods.
func (l *Live) look() (Inventory, error) {
	l.looking.Lock()
	defer l.looking.Unlock()
	if time.Since(l.at) < quiet {
		return l.looked, nil
	}
	now, err := l.node.Read()
	if err == nil {
		l.looked, l.at = now, time.Now()
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
		l.log.Warn("watching devices", "error", err, "again", rewatch)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(rewatch):
		}
	}
}

func (l *Live) changed(inv Inventory) {
	l.mu.Lock()
	l.known = &inv
	l.mu.Unlock()
	for _, f := range l.listeners {
		f(inv)
	}
}
