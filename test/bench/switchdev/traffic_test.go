//go:build bench

package switchdev

import (
	"fmt"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/test/tier"
)

// What is at each node's address for outside, and what is at the first one's.
const nearPort, farPort, hostPort = 30080, 30081, 30082

// The services' one endpoint is the pod b, on a's node, or c, on the other. The far
// one has external addresses, too.
func nearService() []string { return []string{"10.96.0.50", "fd00:10:96::50"} }
func farService() []string  { return []string{"10.96.0.51", "fd00:10:96::51"} }
func external() []string    { return []string{"198.51.100.1", "2001:db8::1"} }

// newServed has the pods a and b on the first node, c on the second, and their services.
func newServed(t *testing.T, hwOffload bool) *product {
	t.Helper()
	start := time.Now()
	p := newProduct(t, hwOffload)
	p.add("a", p.nodes[0], 0)
	p.add("b", p.nodes[0], 1, p.nodes[0].addresses...)
	p.add("c", p.nodes[1], 0)
	p.serve("near", nearService(), nearPort, nil, p.pods["b"])
	p.serve("far", farService(), farPort, external(), p.pods["c"])
	for i, address := range external() {
		batch(t, outside, "route add "+address+" via "+p.nodes[0].addresses[i])
	}
	p.sync()
	t.Logf("the product on two nodes with three pods in %s", time.Since(start).Round(time.Second))
	return p
}

// ways are those by services and to outside.
func (p *product) ways() []way {
	a, b, c := p.pods["a"].gate(), p.pods["b"].gate(), p.pods["c"].gate()
	first := p.nodes[0]
	wire := first.wire()
	var ways []way
	for i, family := range families() {
		for _, w := range []way{
			{what: "service, same node", client: a, server: b, to: []string{nearService()[i]}},
			{what: "service, other node", client: a, server: c, to: []string{farService()[i]}},
			{what: "to outside", client: a, server: wire, to: []string{outsides()[i]}},
			{what: "from outside to a node port, same node", client: wire, server: b, to: []string{first.addresses[i], "-p", fmt.Sprint(nearPort)}},
			{what: "from outside to a node port, other node", client: wire, server: c, to: []string{first.addresses[i], "-p", fmt.Sprint(farPort)}},
			{what: "from outside to a host port of the node's address", client: wire, server: b, to: []string{first.addresses[i], "-p", fmt.Sprint(hostPort)}},
			{what: "from outside to an external address, other node", client: wire, server: c, to: []string{external()[i]}},
		} {
			w.what += ", " + string(family)
			ways = append(ways, w)
		}
	}
	return ways
}

// between are ways from pod to pod.
func (p *product) between() []way {
	a, b, c := p.pods["a"], p.pods["b"], p.pods["c"]
	return []way{
		{what: "same node, IPv4", client: a.gate(), server: b.gate(), to: []string{b.v4}},
		{what: "other node, IPv4", client: a.gate(), server: c.gate(), to: []string{c.v4}},
		{what: "same node, IPv6", client: a.gate(), server: b.gate(), to: []string{b.v6}},
		{what: "other node, IPv6", client: a.gate(), server: c.gate(), to: []string{c.v6}},
	}
}

// TestOffload_TrafficOfProduct is the table of what runs in hardware with the rows and flows of the
// product itself: services, to and from outside, and pods under policies.
func TestOffload_TrafficOfProduct(t *testing.T) {
	tier.In(t, tier.Core, "bench")
	p := newServed(t, true)
	for _, w := range ofTier(p.ways()) {
		t.Run(w.what, w.row)
	}
	t.Run("under a policy", func(t *testing.T) { p.underPolicy(t, ofTier(p.between())) })
	p.keep()
	t.Run("policy lands", p.policyLands)
	t.Run("endpoint leaves", p.endpointLeaves)
}

// underPolicy: who may, speaks in hardware.
func (p *product) underPolicy(t *testing.T, ways []way) {
	b, c := p.pods["b"], p.pods["c"]
	listen(t, "b")
	listen(t, "c")
	meet := func() bool { return connects(t, "c", b.v4) || connects(t, "b", c.v4) }
	if !meet() {
		t.Fatal("b and c do not meet without a policy")
	}
	p.policy("allow-b", "b", "a")
	p.policy("allow-c", "c", "a")
	eventually(t, "the policies are in force", patience, func() bool { return !meet() })
	for _, w := range ways {
		t.Run(w.what, w.row)
	}
	p.withdraw("allow-b", "allow-c")
}

// TestOffload_DisabledProductIsInSoftware is the control: the same traffic without hw-offload.
func TestOffload_DisabledProductIsInSoftware(t *testing.T) {
	tier.In(t, tier.Core, "bench")
	p := newServed(t, false)
	for _, w := range ofTier(p.ways())[:tier.Pick(3, len(p.ways()))] {
		t.Run(w.what, w.inSoftware)
	}
}
