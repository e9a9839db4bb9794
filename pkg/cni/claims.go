package cni

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ovn-offload/ovn-offload/pkg/cni/plug"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/ledger"
)

// restoring bounds how many pods get their network back at once.
const restoring = 8

// asPlugged is what a port of the claim's would look like.
func asPlugged(c ledger.Claim) plug.Plugged {
	return plug.Plugged{
		Pod: owner(c), UID: string(c.UID), Sandbox: c.Sandbox, IfName: c.Interface, Attachment: c.AttachmentName(),
		Network: c.Network, Representor: true,
	}
}

// claimOf finds a claim when the runtime does not name the pod.
func (s *Server) claimOf(r *Request) (ledger.Claim, bool) {
	if s.deps.Functions == nil {
		return ledger.Claim{}, false
	}
	for _, c := range s.deps.Functions.Mover.ClaimsOf(r.Sandbox, r.IfName) {
		return c, true
	}
	return ledger.Claim{}, false
}

// unclaimed reports whether a pod has details for a DPU that no ADD of this node has
// written: they may name a function that another pod has. A claim comes before the
// details and ends after them. A damaged record might be the claim.
func (s *Server) unclaimed(p plug.Plugged) bool {
	if s.deps.Functions == nil || !p.Representor || p.Link != "" || s.commands.busy(p.Pod) {
		return false
	}
	claims := s.deps.Functions.Ledger
	return len(claims.Damaged()) == 0 && len(claims.Where(func(c ledger.Claim) bool {
		return owner(c) == p.Pod && string(c.UID) == p.UID && c.Sandbox == p.Sandbox
	})) == 0
}

// Changed marks a sweep when a deleted pod still has a device, because its DEL came while no agent ran, or the kubelet
// does not run. It marks a sweep as well when a pod has details without a claim. Connect it to the events of pods.
func (s *Server) Changed(owners ...contract.Owner) {
	if s.deps.Functions == nil {
		return
	}
	for _, o := range owners {
		pod := s.deps.Pods.get(o)
		left := s.deps.Functions.Ledger.Where(func(c ledger.Claim) bool {
			return owner(c).On("") == o && (pod == nil || pod.UID != c.UID)
		})
		ports, err := s.deps.Plugger.Plugged(o)
		if len(left) > 0 || err == nil && slices.ContainsFunc(ports, s.unclaimed) {
			s.Repair()
		}
	}
}

// collectClaims detaches devices whose pod or sandbox is deleted, and completes interrupted detachments. It skips the
// sandbox of a running ADD.
func (s *Server) collectClaims(ctx context.Context, dead func(plug.Plugged) bool) (removed int, err error) {
	if s.deps.Functions == nil {
		return 0, nil
	}
	over := func(c ledger.Claim) bool {
		return dead(asPlugged(c)) || c.Phase == ledger.Orphan || s.deps.Functions.Mover.NetnsGone(c)
	}
	var errs []error
	for _, c := range s.deps.Functions.Ledger.Claims() {
		if s.commands.adding(c.Sandbox) || !over(c) {
			continue
		}
		errs = append(errs, s.again(c, func() error {
			gone, err := s.collectClaim(ctx, c, over)
			removed += gone
			return err
		}))
	}
	return removed, errors.Join(errs...)
}

// collectClaim looks again under the pod's lock.
func (s *Server) collectClaim(ctx context.Context, c ledger.Claim, over func(ledger.Claim) bool) (int, error) {
	release, err := s.commands.acquire(ctx, owner(c))
	if err != nil {
		return 0, err
	}
	defer release()
	now, ok := s.deps.Functions.Ledger.Holder(c.Device)
	if !ok || now.Sandbox != c.Sandbox || !over(now) {
		return 0, nil
	}
	if err := releaseDevice(ctx, s.deps, now); err != nil {
		return 0, err
	}
	s.log.Info("detached a device", "owner", owner(c).String(), "device", c.Device, "sandbox", c.Sandbox)
	return 1, nil
}

// restore puts back the network of pods whose device went away under them and is
// there again, as after a reset of the NIC. A device that is not there yet is
// waited for: its event asks for the next sweep.
func (s *Server) restore(ctx context.Context) error {
	if s.deps.Functions == nil {
		return nil
	}
	claims := s.deps.Functions.Ledger.Claims()
	s.backoff.keep(claims)
	// All are looked at before the first is put back: that makes its pod busy, which may have others.
	claims = slices.DeleteFunc(claims, func(c ledger.Claim) bool { return c.Phase != ledger.Attached || !s.needsRestore(c) })
	var group errgroup.Group
	group.SetLimit(restoring)
	errs := make([]error, len(claims))
	for i, c := range claims {
		group.Go(func() error {
			errs[i] = s.again(c, func() error { return s.restoreOne(ctx, c) })
			return nil
		})
	}
	_ = group.Wait() // which gives the first of several
	return errors.Join(errs...)
}

// again tries what may fail for long. A device whose netdev is on the node is not
// waited for.
func (s *Server) again(c ledger.Claim, do func() error) error {
	if _, names, err := s.deps.Functions.Mover.Present(c.Device); err == nil && len(names) > 0 {
		s.backoff.forget(c)
	}
	return s.backoff.try(c, time.Now(), do)
}

// needsRestore reports whether a claim's device is there and not as ADD has left it.
func (s *Server) needsRestore(c ledger.Claim) bool {
	pod := s.deps.Pods.get(owner(c))
	if pod == nil || pod.UID != c.UID || s.commands.busy(owner(c)) {
		return false
	}
	v, err := s.deps.Functions.VF(c.Device)
	if err != nil || v.Driver == "" || v.Mode == vf.Switchdev && v.Representor == "" {
		return false
	}
	if !s.deps.Functions.Mover.Attached(c) {
		return true
	}
	p, ok, err := plug.Find(s.deps.Plugger, owner(c))
	if err != nil || !ok {
		return err == nil
	}
	return p.Link != "" && (p.Link != v.Representor || s.isDown(p.Link)) // since a reset of the NIC, the link may be another VF's
}

// isDown reports whether a link of the host is down or absent.
func (s *Server) isDown(name string) bool {
	link, err := s.deps.Host.Link(name)
	return errors.Is(err, netdev.ErrNotFound) || err == nil && !link.Up
}

// restoreOne is an ADD without a request.
func (s *Server) restoreOne(ctx context.Context, c ledger.Claim) error {
	r := &Request{
		Command: "ADD", Sandbox: c.Sandbox, Netns: c.NetNS, IfName: c.AttachmentName(), Pod: owner(c).On(""), UID: string(c.UID),
		Interfaces: []Interface{{Name: c.Interface, Network: c.PodNetwork, Device: c.Device}},
		Conf:       Conf{Name: c.Network, MTU: c.MTU},
	}
	ctx, end := s.commands.enter(ctx, r)
	defer end()
	release, err := s.commands.acquire(ctx, r.Pod)
	if err != nil {
		return err
	}
	defer release()
	if now, ok := s.deps.Functions.Ledger.Holder(c.Device); !ok || now.Sandbox != c.Sandbox || now.Phase != ledger.Attached {
		return nil // a DEL was quicker
	}
	if _, err := Attach(ctx, s.deps, s.cfg, r); err != nil {
		return fmt.Errorf("giving pod %s its device %s back: %w", r.Pod, c.Device, err)
	}
	s.log.Info("gave a pod its device back", "owner", r.Pod.String(), "device", c.Device)
	s.metrics.restored.Inc()
	return nil
}
