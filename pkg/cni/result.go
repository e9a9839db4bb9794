package cni

import (
	"encoding/json"
	"net"
	"net/netip"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// result describes both ends; addresses belong to interface 1, the pod's.
func (a *attachment) result() (*types100.Result, error) {
	host, err := a.Host.Link(a.req.hostLink())
	if err != nil {
		return nil, fail(CodeAttach, "result: %v", err)
	}
	inPod := 1
	r := &types100.Result{
		CNIVersion: types100.ImplementedSpecVersion,
		Interfaces: []*types100.Interface{
			{Name: host.Name, Mac: host.MAC.String(), Mtu: host.MTU},
			{Name: a.req.IfName, Mac: a.network.MAC.String(), Mtu: host.MTU, Sandbox: a.req.Netns},
		},
	}
	for _, p := range a.network.Addresses {
		ip := &types100.IPConfig{Interface: &inPod, Address: toIPNet(p)}
		for _, gw := range a.network.Gateways {
			if gw.Is4() == p.Addr().Is4() {
				ip.Gateway = gw.AsSlice()
				break
			}
		}
		r.IPs = append(r.IPs, ip)
	}
	for _, route := range routes(a.req.IfName, a.network) {
		r.Routes = append(r.Routes, toRoute(route))
	}
	return r, nil
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
	return &types.Route{Dst: toIPNet(r.Dest.Masked()), GW: r.NextHop.AsSlice()}
}
