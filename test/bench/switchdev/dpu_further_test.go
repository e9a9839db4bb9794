//go:build bench

package switchdev

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// TestDPU_NetworksAreInHardware: one CNI ADD gives a pod of a host with a DPU VFs on networks of topology layer3 and
// localnet with a VLAN, and what it sends there to VFs of another node is in the DPU's NIC. Rows are those of the
// product's controller. A pod on another VLAN does not answer; without hw-offload the same traffic is in software.
func TestDPU_NetworksAreInHardware(t *testing.T) {
	tier.In(t, "bench")
	tier.Full(t, "TestDPU_PodsFromADDToDEL and TestNetworks_VFTrafficIsInHardware show the parts")
	c := newCluster(t, true)
	c.outside()
	c.onHost("TestInsideDPUFurther")
}

// dpuNetworks are a DPU and a node without one, with the product's rows.
type dpuNetworks struct {
	*product
	b          *dpuBench
	dpu, other *ovsNode
}

func newDPUNetworks(t *testing.T) *dpuNetworks {
	t.Helper()
	b := newDPUBench(t)
	p := &product{cluster: b.c, server: b.api, objects: kindsOfObjects(t), pods: map[string]*endpoint{}}
	onVFs(t, p.objects, "routed", "vlan70")
	p.control()
	p.join(dpuHost, "192.168.70.1") // the host's own, on another wire
	b.start()
	d := &dpuNetworks{p, b, newNode(t, b.dpu.name, b.dpu.dir, b.pci, 1), newNode(t, "node1", filepath.Join(b.c.dir, "node1"), nics(t)[0], 0)}
	p.join(d.other.name, d.other.addresses...)
	for n, of := range map[*ovsNode]string{d.dpu: dpuHost, d.other: d.other.name} {
		n.uplink, n.settings = n.link("p0"), offloading(true)
		p.gateway(n, of)
	}
	return d
}

func answers(from, address string) bool {
	_, err := try(inside(from, "ping", "-n", "-c2", "-W1", address)...)
	return err == nil
}

func TestInsideDPUFurther(t *testing.T) {
	d := newDPUNetworks(t)
	web := d.b.sandbox("web")
	web.create(map[string]string{contract.NetworksKey: "routed,vlan70"}, d.b.device(0), d.b.device(1), d.b.device(2))
	d.given("web", "default/routed", "default/vlan70")
	web.must("ADD")
	web.must("CHECK")
	d.answer(web.ns)
	ways, addresses := make([]way, 2), map[string]string{}
	for i, nad := range []string{"routed", "vlan70"} {
		server := d.addOn(nad+"b", d.other, i, nad)
		client, address := d.onNetwork(d.dpu, web.sandbox, fmt.Sprint("net", i+1), "default/"+nad)
		ways[i] = way{what: nad, client: client, server: server.gate(), to: []string{server.v4}}
		addresses[server.name] = address
	}
	for _, w := range ways {
		t.Run(w.what, w.row)
	}
	foreign := d.addOn("foreign", d.other, 3, "vlan71")
	if answers(foreign.name, addresses["vlan70b"]) || answers(web.ns, foreign.v4) {
		t.Error("a pod on another VLAN is reached")
	}

	d.dpu.withoutOffload()
	d.other.withoutOffload()
	for _, w := range ways {
		t.Run("without hw-offload, "+w.what, w.inSoftware)
	}
	for from, address := range addresses {
		if !answers(from, address) {
			t.Errorf("%s does not reach %s before DEL", from, address)
		}
	}
	web.must("DEL")
	for from, address := range addresses {
		if answers(from, address) {
			t.Errorf("%s reaches %s after DEL", from, address)
		}
	}
	d.b.host.idle()
}
