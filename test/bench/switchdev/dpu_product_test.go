//go:build bench

package switchdev

import (
	"fmt"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/offload"

	"github.com/ovn-offload/ovn-offload/test/tier"
)

// TestDPU_ServicesAndPoliciesAreInHardware: services of a host's pods, what they send outside, what comes from
// there to a node port, and what a policy allows, runs in the DPU's NIC, until a policy
// lands or an endpoint leaves. Rows are those of the product's controller; the agent's
// parts on the DPU make the gateway bridge there and end connections.
func TestDPU_ServicesAndPoliciesAreInHardware(t *testing.T) {
	tier.In(t, "bench")
	c := newCluster(t, true)
	c.outside()
	c.onHost("TestInsideDPUProduct")
}

func TestInsideDPUProduct(t *testing.T) {
	b := newDPUBench(t)
	p := &product{cluster: b.c, server: b.api, pods: map[string]*endpoint{}}
	p.control()
	p.join(dpuHost, "192.168.70.1") // the host's own, on another wire
	b.start()
	n := newNode(t, b.dpu.name, b.dpu.dir, b.pci, 1)
	n.uplink = n.link("p0")
	n.settings = offloading(true)
	p.gateway(n, dpuHost)

	p.nodes = []*ovsNode{n}
	for i, name := range []string{"a", "b", "c"} {
		p.pods[name] = p.onDPU(b, n, name, i)
	}
	p.serve("near", nearService(), nearPort, nil, p.pods["b"])
	p.serve("far", farService(), farPort, nil, p.pods["c"])
	a, web := p.pods["a"], p.pods["b"]
	var ways, direct []way
	for i, family := range families() {
		wire := n.wire()
		for _, w := range []way{
			{what: "service", client: a.gate(), server: web.gate(), to: []string{nearService()[i]}},
			{what: "to outside", client: a.gate(), server: wire, to: []string{outsides()[i]}},
			{what: "from outside to a node port", client: wire, server: web.gate(), to: []string{n.addresses[i], "-p", fmt.Sprint(nearPort)}},
		} {
			w.what += ", " + string(family)
			ways = append(ways, w)
		}
		direct = append(direct, way{what: string(family), client: a.gate(), server: web.gate(), to: []string{web.addresses()[i]}})
	}
	ways = ofTier(ways)
	for _, w := range ways {
		t.Run(w.what, w.row)
	}
	t.Run("under a policy", func(t *testing.T) { p.underPolicy(t, direct[:tier.Pick(1, len(direct))]) })
	p.keep()
	t.Run("policy lands", p.policyLands)
	t.Run("endpoint leaves", p.endpointLeaves)

	n.withoutOffload()
	for _, w := range ways[:tier.Pick(1, len(ways))] {
		t.Run("without hw-offload, "+w.what, w.inSoftware)
	}
}

// onDPU is a host's pod on a VF, which the agents of both sides attach.
func (p *product) onDPU(b *dpuBench, n *ovsNode, name string, device int) *endpoint {
	p.t.Helper()
	s := b.sandbox(name)
	s.create(nil, b.device(device))
	addresses := p.network(name).Addresses
	s.must("ADD")
	p.answer(s.ns)
	n.ports = append(n.ports, offload.Port{Name: s.port(), Device: offload.Device{Representor: true, HWTC: true, Function: true}})
	return &endpoint{name: name, v4: addresses[0].Addr().String(), v6: addresses[1].Addr().String(), node: n, rep: s.port()}
}
