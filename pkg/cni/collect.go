package cni

import (
	"context"
	"errors"
	"fmt"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// collect removes what belongs to nobody: attachments for which dead holds, and
// links of ours whose sandbox has no attachment. An ADD under way is left
// alone. Errors do not stop it.
func (s *Server) collect(ctx context.Context, dead func(attached) bool) (removed int, err error) {
	if s.deps.DB.Generation() == 0 {
		return 0, errors.New("collecting: the Open_vSwitch database is not connected")
	}
	// Links are listed first: one that is made later is not seen at all.
	links, err := s.deps.Host.Links()
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, a := range all(s.deps.DB) {
		if !dead(a) {
			continue
		}
		gone, err := s.collectOne(ctx, a, dead)
		errs = append(errs, err)
		removed += gone
	}
	gone, err := s.collectLinks(links)
	return removed + gone, errors.Join(append(errs, err)...)
}

// collectLinks removes links of ours whose sandbox has no attachment. A database
// that went away meanwhile, or that has fewer attachments than there are such
// links, has rather lost its rows: then the links may be those of live pods, and
// stay. DEL and GC name the sandbox and remove its link all the same.
func (s *Server) collectLinks(links []netdev.Link) (removed int, err error) {
	generation := s.deps.DB.Generation()
	orphans := map[string]string{} // link to sandbox
	for _, l := range links {
		sandbox, ok := ours(l)
		if !ok || s.commands.adding(sandbox) {
			continue
		}
		// An ADD that has ended since has its rows by now.
		if _, ok := bySandbox(s.deps.DB, sandbox); !ok {
			orphans[l.Name] = sandbox
		}
	}
	attachments := len(all(s.deps.DB))
	if generation == 0 || s.deps.DB.Generation() != generation {
		return 0, errors.New("collecting: the Open_vSwitch database went away meanwhile")
	}
	if len(orphans) > max(attachments, 1) {
		return 0, fmt.Errorf("collecting: %d links of ours have no port and only %d have one: the Open_vSwitch database may have lost its rows", len(orphans), attachments)
	}
	var errs []error
	for name, sandbox := range orphans {
		if err := removeLink(s.deps.Host, name, sandbox); err != nil {
			errs = append(errs, err)
			continue
		}
		removed++
	}
	return removed, errors.Join(errs...)
}

// collectOne looks again under the pod's lock, where no command changes it.
func (s *Server) collectOne(ctx context.Context, a attached, dead func(attached) bool) (int, error) {
	release, err := s.commands.acquire(ctx, a.owner)
	if err != nil {
		return 0, err
	}
	defer release()
	now, ok := find(s.deps.DB, a.owner)
	if !ok || now.sandbox != a.sandbox || !dead(now) {
		return 0, nil
	}
	if err := removeAttached(ctx, s.deps.DB, a.owner); err != nil {
		return 0, err
	}
	s.log.Info("removed a stale attachment", "owner", a.owner.String(), "device", a.link, "sandbox", a.sandbox)
	return 1, removeLink(s.deps.Host, a.link, a.sandbox)
}

// gc keeps what the runtime names; attachments of other networks are not its business.
func (s *Server) gc(ctx context.Context, conf Conf) error {
	valid := map[types.GCAttachment]bool{}
	for _, a := range conf.ValidAttachments {
		valid[a] = true
	}
	_, err := s.collect(ctx, func(a attached) bool {
		return a.network == conf.Name && !valid[types.GCAttachment{ContainerID: a.sandbox, IfName: a.ifName}]
	})
	return err
}

// Sweep removes what a crash, a missed DEL or a reboot has left: ports of pods
// that are not on this node any more and ports without a link. The pods'
// informer must have its full list.
func (s *Server) Sweep(ctx context.Context) error {
	removed, err := s.collect(ctx, func(a attached) bool {
		pod := s.deps.Pods.get(a.owner)
		if pod == nil || string(pod.UID) != a.uid {
			return true
		}
		_, err := s.deps.Host.Link(a.link)
		return errors.Is(err, netdev.ErrNotFound)
	})
	if removed > 0 {
		s.log.Info("swept stale attachments", "ops", removed)
	}
	if err != nil {
		return fmt.Errorf("sweeping stale attachments: %w", err)
	}
	return nil
}
