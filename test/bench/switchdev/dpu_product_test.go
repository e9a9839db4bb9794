//go:build bench

package switchdev

import (
	"fmt"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/offload"
)

// TestDPUProduct: what a host's pod sends outside, and what comes from there to a
// node port of it, runs in the DPU's NIC. Rows are those of the product's controller;
// the agent's part on the DPU makes the gateway bridge there.
func TestDPUProduct(t *testing.T) {
	c := newCluster(t, true)
	c.outside()
	c.onHost("TestInsideDPUProduct")
}

func TestInsideDPUProduct(t *testing.T) {
	b := newDPUBench(t)
	p := &product{cluster: b.c, server: b.api}
	p.control()
	p.join(dpuHost, "192.168.70.1") // the host's own, on another wire
	b.start()
	n := newNode(t, b.dpu.name, b.dpu.dir, b.pci, 1)
	n.uplink = n.link("p0")
	n.settings = offloading(true)
	p.gateway(n, dpuHost)

	web := b.sandbox("web")
	web.create(b.device(0), nil)
	addresses := p.network(web.name).Addresses
	web.v4, web.v6 = addresses[0].Addr().String(), addresses[1].Addr().String()
	web.must("ADD")
	p.answer(web.ns)
	p.serve("web", nearService(), nearPort, nil, &endpoint{v4: web.v4, v6: web.v6})
	pod := gate{web.ns, web.port(), n}
	n.ports = append(n.ports, offload.Port{Name: pod.port, Device: offload.Device{Representor: true, HWTC: true, Function: true}})
	var ways []way
	for i, family := range families() {
		wire := gate{outside, n.uplink, n}
		ways = append(ways,
			way{what: "to outside, " + string(family), client: pod, server: wire, to: []string{outsides()[i]}},
			way{what: "from outside to a node port, " + string(family), client: wire, server: pod, to: []string{n.addresses[i], "-p", fmt.Sprint(nearPort)}})
	}
	for _, w := range ways {
		t.Run(w.what, w.row)
	}

	b.dpu.vsctl("set", "Open_vSwitch", ".", "other_config:hw-offload=false")
	b.dpu.restartOVS()
	n.settings = offloading(false)
	for _, w := range ways {
		t.Run("without hw-offload, "+w.what, w.inSoftware)
	}
	web.must("DEL")
}
