package dpu

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/cni/plug"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// bridge puts pods' ports into place and takes them away.
type bridge struct {
	ports   plug.Plugger
	timeout time.Duration // of ovn-controller
	log     *slog.Logger
	mark    func(...contract.Owner)
	freed   func() // a port is gone

	mu    sync.Mutex
	waits map[contract.Owner]*wait
}

// wait is ovn-controller's time for one port.
type wait struct {
	sandbox, link string
	over          bool
	err           error
}

// forget is for a pod that claims nothing any more.
func (b *bridge) forget(owner contract.Owner) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waits, owner)
}

func (b *bridge) place(ctx context.Context, want plug.Port) error {
	if err := b.clear(ctx, want); err != nil {
		return err
	}
	_, err := b.ports.Plug(ctx, want)
	return err
}

// clear takes away what stands in the way of a port: the pod's own on another
// representor, a dead pod's on this one, and that of the pod's last sandbox,
// whose row says that its flows are there.
func (b *bridge) clear(ctx context.Context, want plug.Port) error {
	plugged, err := b.ports.Plugged()
	if err != nil {
		return err
	}
	for _, port := range plugged {
		mine := port.Pod == want.Pod && port.UID == want.UID && port.Sandbox == want.Sandbox
		if (port.Pod == want.Pod || port.Link == want.Link) && (!mine || port.Link != want.Link) {
			if err := b.unplug(ctx, port); err != nil {
				return err
			}
		}
	}
	return nil
}

// flows reports whether ovn-controller has set ovn-installed on a port, and the error after the deadline. Until then a
// wait marks the pod later.
func (b *bridge) flows(ctx context.Context, want plug.Port) (done bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ports.Check(want.Plugged) == nil {
		delete(b.waits, want.Pod)
		return true, nil
	}
	w := b.waits[want.Pod]
	if w != nil && w.sandbox == want.Sandbox && w.link == want.Link {
		if w.over {
			delete(b.waits, want.Pod) // the next try waits anew
			return true, w.err
		}
		return false, nil
	}
	w = &wait{sandbox: want.Sandbox, link: want.Link}
	b.waits[want.Pod] = w
	go func() {
		ctx, cancel := context.WithTimeout(ctx, b.timeout)
		defer cancel()
		err := b.ports.Wait(ctx, want)
		b.mu.Lock()
		w.over, w.err = true, err
		b.mu.Unlock()
		b.mark(want.Pod.On(""))
	}()
	return false, nil
}

func (b *bridge) unplugPod(ctx context.Context, owner contract.Owner) error {
	plugged, err := b.ports.Plugged(owner)
	for _, port := range plugged {
		if port.Pod == owner {
			err = errors.Join(err, b.unplug(ctx, port))
		}
	}
	return err
}

func (b *bridge) unplug(ctx context.Context, port plug.Plugged) error {
	if err := b.ports.Unplug(ctx, port); err != nil {
		return err
	}
	b.log.Info("port removed", "owner", port.Pod.String(), "device", port.Link, "sandbox", port.Sandbox)
	b.freed()
	return nil
}
