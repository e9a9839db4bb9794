package cni

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/cni/plug"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// collect removes stale ports, for which dead is true, and links of the agent whose sandbox has no port. It skips the
// sandbox of a running ADD. Errors do not stop it.
func (s *Server) collect(ctx context.Context, dead func(plug.Plugged) bool) (removed int, err error) {
	// Links are listed first: one that is made later is not seen at all.
	links, err := s.deps.Host.Links()
	if err != nil {
		return 0, err
	}
	ports, err := s.deps.Plugger.Plugged()
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
	gone, err = s.collectLinks(ctx, links, dead)
	return removed + gone, errors.Join(append(errs, err)...)
}

// collectLinks is about links of ours whose sandbox has no port: those of live pods
// get their ports back, and the others are removed.
func (s *Server) collectLinks(ctx context.Context, links []netdev.Link, dead func(plug.Plugged) bool) (removed int, err error) {
	stale, ports, err := s.staleLinks(links)
	if err != nil {
		return 0, err
	}
	var errs []error
	var nameless []plug.Plugged
	for _, p := range stale {
		switch {
		case p.UID == "" || s.deps.OnNode == nil:
			nameless = append(nameless, p)
		case dead(p):
			gone, err := s.removeLinks(p)
			removed += gone
			errs = append(errs, err)
		case p.Pod.Name != "": // else GC knows the sandbox, and a sweep will know about the pod
			errs = append(errs, s.replug(ctx, p))
		}
	}
	gone, err := s.collectNameless(nameless, ports)
	return removed + gone, errors.Join(append(errs, err)...)
}

// staleLinks gives the newest first: of two sandboxes of a pod, it is the last one.
func (s *Server) staleLinks(links []netdev.Link) (stale []plug.Plugged, ports int, err error) {
	links = slices.SortedFunc(slices.Values(links), func(a, b netdev.Link) int { return cmp.Compare(b.Index, a.Index) })
	for _, l := range links {
		if p, ok := ours(l); ok && !s.commands.adding(p.Sandbox) {
			stale = append(stale, p)
		}
	}
	plugged, err := s.deps.Plugger.Plugged() // an ADD that has ended has its port by now
	if err != nil {
		return nil, 0, err
	}
	has := map[[2]string]bool{}
	for _, p := range plugged {
		has[[2]string{p.Sandbox, p.IfName}] = true
		has[[2]string{p.Sandbox, ""}] = true // a link of a former version
	}
	stale = slices.DeleteFunc(stale, func(p plug.Plugged) bool { return has[[2]string{p.Sandbox, p.IfName}] })
	if len(stale) == 0 || s.deps.OnNode == nil {
		return stale, len(plugged), nil
	}
	pods := map[string]contract.Owner{}
	for _, pod := range s.deps.OnNode() {
		pods[string(pod.UID)] = contract.PodOwner(pod.Namespace, pod.Name)
	}
	for i := range stale {
		stale[i].Pod = pods[stale[i].UID].On(stale[i].Pod.Network)
	}
	return stale, len(plugged), nil
}

// replug gives a live pod the port back that the database has lost, as when OVS was
// installed again. The pod's end is as it was: the pair goes together.
func (s *Server) replug(ctx context.Context, p plug.Plugged) error {
	release, err := s.commands.acquire(ctx, p.Pod)
	if err != nil {
		return err
	}
	defer release()
	now, ok, err := plug.Find(s.deps.Plugger, p.Pod)
	switch {
	case err != nil:
		return err
	case ok && now.Sandbox != p.Sandbox:
		return removeLink(s.deps.Host, p)
	case ok:
		return nil
	}
	link, err := s.deps.Host.Link(p.Link)
	if made, own := ours(link); errors.Is(err, netdev.ErrNotFound) || err == nil && (!own || !made.SameInterface(p)) {
		return nil // a DEL was quicker
	}
	if err != nil {
		return err
	}
	_, network, err := s.deps.recorded(p, p.UID)
	if err == nil {
		_, err = s.deps.Plugger.Plug(ctx, plug.Port{
			Plugged: p, MAC: net.HardwareAddr(network.MAC), Addresses: network.Addresses, NetworkName: network.Network, MTU: link.MTU,
		})
	}
	if err != nil {
		return fmt.Errorf("giving pod %s its port %s back: %w", p.Pod, p.Link, err)
	}
	s.log.Info("gave a pod its port back", "owner", p.Pod.String(), "device", p.Link, "sandbox", p.Sandbox)
	return nil
}

// collectNameless removes links of which the pod is not known. A database that has
// fewer ports than there are such links has rather lost its rows: then the links may
// be those of live pods, and stay. DEL and GC name the sandbox and remove its link
// all the same.
func (s *Server) collectNameless(stale []plug.Plugged, ports int) (removed int, err error) {
	if len(stale) > max(ports, 1) {
		return 0, fmt.Errorf("%d links of ours have no port and only %d have one: the Open_vSwitch database may have lost its rows", len(stale), ports)
	}
	return s.removeLinks(stale...)
}

func (s *Server) removeLinks(stale ...plug.Plugged) (removed int, err error) {
	var errs []error
	for _, p := range stale {
		if err := removeLink(s.deps.Host, p); err != nil {
			errs = append(errs, err)
			continue
		}
		removed++
	}
	return removed, errors.Join(errs...)
}

// collectOne looks again under the pod's lock, where no command changes it.
func (s *Server) collectOne(ctx context.Context, p plug.Plugged, dead func(plug.Plugged) bool) (int, error) {
	release, err := s.commands.acquire(ctx, p.Pod)
	if err != nil {
		return 0, err
	}
	defer release()
	now, ok, err := plug.Find(s.deps.Plugger, p.Pod)
	if err != nil || !ok || now.Sandbox != p.Sandbox || !dead(now) {
		return 0, err
	}
	if err := s.deps.Plugger.Unplug(ctx, now); err != nil {
		return 0, err
	}
	s.log.Info("removed a stale attachment", "owner", now.Pod.String(), "device", now.Link, "sandbox", now.Sandbox)
	return 1, removeLink(s.deps.Host, now)
}

// gc keeps what the runtime names; attachments of other networks are not its business.
func (s *Server) gc(ctx context.Context, conf Conf) error {
	valid := map[types.GCAttachment]bool{}
	for _, a := range conf.ValidAttachments {
		valid[a] = true
	}
	_, err := s.collect(ctx, func(p plug.Plugged) bool {
		return p.Network == conf.Name && !valid[types.GCAttachment{ContainerID: p.Sandbox, IfName: p.Attachment}]
	})
	return err
}

// Sweep removes what a crash, a missed DEL or a reboot has left: ports of pods
// that are not on this node any more, ports without a link, and details for a DPU
// without a claim. The pods'
// informer must have its full list.
func (s *Server) Sweep(ctx context.Context) error {
	removed, err := s.collect(ctx, func(p plug.Plugged) bool {
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
