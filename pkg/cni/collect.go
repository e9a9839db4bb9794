package cni

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// collect removes what belongs to nobody: ports for which dead holds, and links
// of ours whose sandbox has no port. An ADD under way is left alone. Errors do
// not stop it.
func (s *Server) collect(ctx context.Context, dead func(Plugged) bool) (removed int, err error) {
	// Links are listed first: one that is made later is not seen at all.
	links, err := s.deps.Host.Links()
	if err != nil {
		return 0, err
	}
	ports, err := s.deps.Switch.Plugged()
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, p := range ports {
		if !dead(p) {
			continue
		}
		gone, err := s.collectOne(ctx, p, dead)
		errs = append(errs, err)
		removed += gone
	}
	gone, err := s.collectClaims(ctx, dead)
	errs = append(errs, err)
	removed += gone
	gone, err = s.collectLinks(links)
	return removed + gone, errors.Join(append(errs, err)...)
}

// collectLinks removes links of ours whose sandbox has no port. A database that
// has fewer ports than there are such links has rather lost its rows: then the
// links may be those of live pods, and stay. DEL and GC name the sandbox and
// remove its link all the same.
func (s *Server) collectLinks(links []netdev.Link) (removed int, err error) {
	orphans := map[string]string{} // sandbox to link
	for _, l := range links {
		if sandbox, ok := ours(l); ok && !s.commands.adding(sandbox) {
			orphans[sandbox] = l.Name
		}
	}
	ports, err := s.deps.Switch.Plugged() // an ADD that has ended has its port by now
	if err != nil {
		return 0, err
	}
	for _, p := range ports {
		delete(orphans, p.Sandbox)
	}
	if len(orphans) > max(len(ports), 1) {
		return 0, fmt.Errorf("%d links of ours have no port and only %d have one: the Open_vSwitch database may have lost its rows", len(orphans), len(ports))
	}
	var errs []error
	for _, sandbox := range slices.Sorted(maps.Keys(orphans)) { // sorted: errors that are the same read the same
		if err := removeLink(s.deps.Host, orphans[sandbox], sandbox); err != nil {
			errs = append(errs, err)
			continue
		}
		removed++
	}
	return removed, errors.Join(errs...)
}

// collectOne looks again under the pod's lock, where no command changes it.
func (s *Server) collectOne(ctx context.Context, p Plugged, dead func(Plugged) bool) (int, error) {
	release, err := s.commands.acquire(ctx, p.Pod)
	if err != nil {
		return 0, err
	}
	defer release()
	now, ok, err := plugged(s.deps.Switch, p.Pod)
	if err != nil || !ok || now.Sandbox != p.Sandbox || !dead(now) {
		return 0, err
	}
	if err := s.deps.Switch.Unplug(ctx, now); err != nil {
		return 0, err
	}
	s.log.Info("removed a stale attachment", "owner", now.Pod.String(), "device", now.Link, "sandbox", now.Sandbox)
	return 1, removeLink(s.deps.Host, now.Link, now.Sandbox)
}

// gc keeps what the runtime names; attachments of other networks are not its business.
func (s *Server) gc(ctx context.Context, conf Conf) error {
	valid := map[types.GCAttachment]bool{}
	for _, a := range conf.ValidAttachments {
		valid[a] = true
	}
	_, err := s.collect(ctx, func(p Plugged) bool {
		return p.Network == conf.Name && !valid[types.GCAttachment{ContainerID: p.Sandbox, IfName: p.IfName}]
	})
	return err
}

// Sweep removes what a crash, a missed DEL or a reboot has left: ports of pods
// that are not on this node any more, ports without a link, and details for a DPU
// without a claim. The pods'
// informer must have its full list.
func (s *Server) Sweep(ctx context.Context) error {
	removed, err := s.collect(ctx, func(p Plugged) bool {
		pod := s.deps.Pods.get(p.Pod)
		if pod == nil || string(pod.UID) != p.UID {
			return true
		}
		if s.unclaimed(p) {
			return true
		}
		if p.Representor {
			return false // it comes back with its NIC, and then the pod has it again
		}
		_, err := s.deps.Host.Link(p.Link)
		return errors.Is(err, netdev.ErrNotFound)
	})
	if removed > 0 {
		s.log.Info("swept stale attachments", "ops", removed)
	}
	err = errors.Join(err, s.restore(ctx))
	if err != nil {
		return fmt.Errorf("sweeping stale attachments: %w", err)
	}
	return nil
}
