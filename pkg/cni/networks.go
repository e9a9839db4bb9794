package cni

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/cni/plug"
	"github.com/ovn-offload/ovn-offload/pkg/cni/podlink"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// errNoNetwork says that the controller gives the pod no address on a further network.
var errNoNetwork = errors.New("no network")

// wanted gives the interfaces of an ADD. An error without a code may be gone at the next change of the pod.
//
// Multus asks for each further network in an ADD of its own, with a network configuration that names the
// NetworkAttachmentDefinition. All else is in the ADD of the default network.
func (a *attachment) wanted(pod *corev1.Pod) ([]Interface, error) {
	switch {
	case a.req.Interfaces != nil:
		return a.req.Interfaces, nil
	case a.req.Conf.Topology != "":
		return a.selected(pod)
	}
	list := []Interface{{Name: a.req.IfName, Device: a.req.Conf.device()}}
	primary, err := primaryOf(pod)
	if err != nil {
		return nil, err
	}
	list = append(list, primary...)
	if !a.cfg.Native {
		return list, nil
	}
	further, err := contract.Attachments(pod)
	if err != nil {
		return nil, fail(CodeNetwork, "network: %v", err)
	}
	for _, f := range further {
		list = append(list, Interface{Name: f.Interface, Network: f.Key()})
	}
	return list, nil
}

// selected finds the one attachment that Multus means: the same NetworkAttachmentDefinition may be there several times.
func (a *attachment) selected(pod *corev1.Pod) ([]Interface, error) {
	nad := a.req.Conf.NetAttachDefName
	further, err := contract.Attachments(pod)
	if err != nil {
		return nil, fail(CodeNetwork, "network: %v", err)
	}
	for _, f := range further {
		if f.NAD == nad && f.Interface == a.req.IfName {
			return []Interface{{Name: f.Interface, Network: f.Key(), Device: a.req.Conf.device()}}, nil
		}
	}
	return nil, fail(CodeNetwork, "network: annotation %s of pod %s does not ask for network %s on %s", contract.NetworksKey, a.req.Pod, nad, a.req.IfName)
}

// primaryOf is the pod's interface on the primary network of its namespace, if that has one.
func primaryOf(pod *corev1.Pod) ([]Interface, error) {
	annotation := pod.Annotations[contract.PodNetworksKey]
	first, err := contract.ParsePodNetwork(annotation, contract.DefaultNetwork)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", contract.PodNetworksKey, err)
	}
	if first == nil || contract.Role(first.Role) != contract.RoleLocked {
		return nil, nil
	}
	if key, n := contract.PrimaryOf(annotation); n != nil {
		return []Interface{{Name: cmp.Or(n.Interface, contract.PrimaryInterface), Network: key}}, nil
	}
	return nil, fmt.Errorf("%w: %s has nothing of the primary network of the namespace; Events of the pod and of the network say more", errNoNetwork, contract.PodNetworksKey)
}

// read gives the interfaces as the pod's annotations have them now.
func (a *attachment) read(pod *corev1.Pod) (list []*iface, err error) {
	wanted, err := a.wanted(pod)
	if err != nil {
		return nil, err
	}
	for _, w := range wanted {
		i := &iface{attachment: a, name: w.Name, pod: a.req.Pod.On(w.Network), device: w.Device}
		if i.network, err = i.recorded(pod); err == nil && i.network == nil {
			return nil, missing(i)
		}
		if err == nil {
			err = podlink.Validate(i.network, w.Network != "")
		}
		if err != nil { // not final: the controller replaces what a user has forged
			return nil, fmt.Errorf("%s: %w", contract.PodNetworksKey, err)
		}
		i.link, i.mtu = podlink.Of(pod, w.Network, w.Name, i.network), podlink.CarriedMTU(cmp.Or(i.network.MTU, a.podMTU), i.network.PhysicalNetwork, a.Carried)
		list = append(list, i)
	}
	return list, nil
}

// missing says which network the annotation lacks.
func missing(a *iface) error {
	if a.pod.Network == "" {
		return fmt.Errorf("ovn-offload-controller has not written %s", contract.PodNetworksKey)
	}
	return fmt.Errorf("%w: %s has nothing of %s for %s: is there a NetworkAttachmentDefinition %s of type %s? Events of the pod and of the NetworkAttachmentDefinition say more",
		errNoNetwork, contract.PodNetworksKey, a.pod.Network, a.name, contract.NADOf(a.pod.Network), contract.PluginType)
}

// reportMTU tells users that an interface has a smaller MTU than they have asked for.
func (a *iface) reportMTU() {
	if mtu := cmp.Or(a.network.MTU, a.podMTU); mtu != a.mtu && a.Warn != nil {
		a.Warn(a.req.Pod, "MTULowered", fmt.Sprintf("%s has an MTU of %d, and not of %d as its network says: larger packets do not leave this node", a.name, a.mtu, mtu))
	}
}

// checkPhysical refuses a network that this node has no way to.
func (a *iface) checkPhysical(context.Context) error {
	if name := a.network.PhysicalNetwork; name != "" && a.Mapped != nil && !a.Mapped(name) {
		return fail(CodeNetwork, "network: %s is on the physical network %s, and this node has no bridge for it: external_ids:ovn-bridge-mappings of its "+
			"Open_vSwitch does not name %s", a.pod.Network, name, name)
	}
	return nil
}

// attached gives the interfaces of an attachment by what ADD has made: the pod's annotations may be other ones by now.
func (d *Deps) attached(r *Request) ([]Interface, error) {
	if r.Interfaces != nil {
		return r.Interfaces, nil
	}
	ports, err := d.Plugger.Plugged(r.Pod)
	if err != nil {
		return nil, err
	}
	links, err := d.linksOf(r)
	if err != nil {
		return nil, err
	}
	var list []Interface
	named := func(name string) bool {
		return slices.ContainsFunc(list, func(i Interface) bool { return i.Name == name })
	}
	for _, p := range append(ports, links...) {
		if p.Sandbox == r.Sandbox && p.Attachment == r.IfName && !named(p.IfName) {
			list = append(list, Interface{Name: p.IfName, Network: p.Pod.Network})
		}
	}
	if !named(r.IfName) {
		list = append(list, Interface{Name: r.IfName})
	}
	return list, nil
}

// linksOf are the host's ends of an attachment's veths, also where the database has lost their ports.
func (d *Deps) linksOf(r *Request) (list []plug.Plugged, err error) {
	links, err := d.Host.Links()
	for _, l := range links {
		if p, own := ours(l); own && p.Sandbox == r.Sandbox && (p.Attachment == r.IfName || p.Attachment == "") {
			list = append(list, p)
		}
	}
	return list, err
}
