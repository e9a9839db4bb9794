//go:build bench

package switchdev

import (
	"testing"
	"time"
)

// dpuService is balanced to the pod of the other node.
const dpuService = "10.96.0.60"

// testDPUServices: connections of a host's pod to a service run in the DPU's NIC,
// and stop there: UDP when a policy comes, TCP when the endpoint goes. Who
// connects to the pod itself goes on.
func testDPUServices(b *dpuBench) {
	web := b.pod(8, b.device(0))
	web.must("ADD")
	run(b, "ip", "-n", web.ns, "route", "add", dpuService, "via", "10.1.0.11") // s1 has no router
	b.balance("10.1.0.11:9000")
	b.c.nb("ls-lb-add", "s1", "service-tcp", "--", "ls-lb-add", "s1", "service-udp")
	b.c.sync()
	b.Run("services", func(t *testing.T) {
		served, own := listen(t, "a"), listen(t, web.ns)
		for network := range served {
			speak(t, web.ns, network, dpuService)
			speak(t, "a", network, web.v4)
		}
		rep := web.port()
		inHardware(t, func() uint64 { return b.dpu.seen(rep) }, served, own)
		cut := time.Now()
		b.c.nb("acl-add", "s1", "from-lport", "2000", `inport=="default_`+web.name+`" && udp.dst==9000`, "drop")
		b.balance("")
		ended(t, cut, served)
		lives(t, cut, own)
	})
	b.c.nb("acl-del", "s1", "--", "lb-del", "service-tcp", "--", "lb-del", "service-udp")
	web.must("DEL")
	b.host.idle()
}

// balance gives the service an endpoint, or none.
func (b *dpuBench) balance(endpoint string) {
	b.Helper()
	for _, network := range []string{"tcp", "udp"} {
		b.c.nb("--may-exist", "lb-add", "service-"+network, dpuService+":9000", endpoint, network,
			"--", "set", "Load_Balancer", "service-"+network, "options:reject=true", "options:ct_flush=true")
	}
}

// seen counts packets that came to a representor from its VF.
func (d *dpuSide) seen(rep string) uint64 {
	d.Helper()
	return counter(d.T, d.name, rep, "rx_packets")
}

// testDPUOffloadOff is the control: the same counts without hardware offload.
func testDPUOffloadOff(b *dpuBench) {
	web := b.pod(9, b.device(0))
	web.must("ADD")
	b.dpu.vsctl("set", "Open_vSwitch", ".", "other_config:hw-offload=false")
	b.dpu.restartOVS()
	web.answers()
	heard := listen(b.T, "a")
	for network := range heard {
		speak(b.T, web.ns, network, "10.1.0.11")
	}
	time.Sleep(2 * time.Second)
	rep := web.port()
	start, before := time.Now(), b.dpu.seen(rep)
	eventually(b, "all of it comes to software", patience, func() bool {
		udp, _ := heard["udp"].since(start)
		tcp, _ := heard["tcp"].since(start)
		return udp > 20 && tcp > 20 && b.dpu.seen(rep)-before >= uint64(udp+tcp)/10*9
	})
	if flows := b.dpu.offloaded(); flows != "" {
		b.Errorf("in hardware: %s", flows)
	}
	web.must("DEL")
}
