package cni

import (
	"encoding/json"
	"net"
	"net/netip"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// result describes the interfaces of an attachment: of each both ends, the switch's
// first if it is on this machine. Addresses belong to the pod's.
func (a *attachment) result() (*types100.Result, error) {
	r := &types100.Result{CNIVersion: types100.ImplementedSpecVersion, DNS: a.req.Conf.DNS}
	for _, i := range a.interfaces {
		if err := i.describeIn(r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (a *iface) describeIn(r *types100.Result) error {
	pod := &types100.Interface{Name: a.name, Mac: a.network.MAC.String(), Mtu: a.mtu, Sandbox: a.req.Netns}
	if a.vf != nil {
		pod.PciID = a.vf.Device
	}
	if a.port.Link != "" {
		host, err := a.Host.Link(a.port.Link)
		if err != nil {
			return fail(CodeAttach, "result: %v", err)
		}
		r.Interfaces = append(r.Interfaces, &types100.Interface{Name: host.Name, Mac: host.MAC.String(), Mtu: host.MTU})
		pod.Mtu = host.MTU
	}
	inPod := len(r.Interfaces)
	r.Interfaces = append(r.Interfaces, pod)
	for _, p := range a.network.Addresses {
		ip := &types100.IPConfig{Interface: &inPod, Address: toIPNet(p)}
		for _, gw := range a.network.Gateways {
			if contract.FamilyOf(gw).Has(p.Addr()) {
				ip.Gateway = gw.AsSlice()
				break
			}
		}
		r.IPs = append(r.IPs, ip)
	}
	for _, route := range a.link.Routes() {
		r.Routes = append(r.Routes, toRoute(route))
	}
	return nil
}

// encode writes a result in the version that the runtime speaks.
func encode(r *types100.Result, cniVersion string) ([]byte, error) {
	out, err := r.GetAsVersion(cniVersion)
	if err != nil {
		return nil, fail(types.ErrIncompatibleCNIVersion, "result in version %s: %v", cniVersion, err)
	}
	return json.Marshal(out)
}

func toIPNet(p netip.Prefix) net.IPNet {
	return net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func toRoute(r netdev.Route) *types.Route {
	return &types.Route{Dst: toIPNet(r.Dest.Masked()), GW: r.NextHop.AsSlice(), Priority: r.Metric}
}
