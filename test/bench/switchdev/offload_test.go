//go:build bench

package switchdev

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/offload"

	"github.com/ovn-offload/ovn-offload/test/tier"
)

// world is the cluster with four pods: a and b on the first node, c and d on the
// second; d is on another switch, behind the router.
type world struct {
	*cluster
	pods map[string]*endpoint
}

func newWorld(t *testing.T, hwOffload bool) *world {
	t.Helper()
	start := time.Now()
	w := &world{cluster: newCluster(t, hwOffload), pods: map[string]*endpoint{}}
	w.nb("lr-add", "lr")
	for _, s := range []string{"1", "2"} {
		w.nb("ls-add", "s"+s, "--", "lrp-add", "lr", "lr-s"+s, "0a:00:00:00:0"+s+":01", "10."+s+".0.1/24", "fd00:"+s+"::1/64",
			"--", "lsp-add", "s"+s, "s"+s+"-lr", "--", "lsp-set-type", "s"+s+"-lr", "router", "--", "lsp-set-addresses", "s"+s+"-lr", "router",
			"--", "lsp-set-options", "s"+s+"-lr", "router-port=lr-s"+s)
		// As with network policies: all traffic goes through conntrack.
		w.nb("acl-add", "s"+s, "to-lport", "1001", "ip", "allow-related")
		w.nb("acl-add", "s"+s, "from-lport", "1001", "ip", "allow-related")
	}
	for i, e := range []*endpoint{
		{name: "a", v4: "10.1.0.11", v6: "fd00:1::11", node: w.nodes[0], vf: 0},
		{name: "b", v4: "10.1.0.12", v6: "fd00:1::12", node: w.nodes[0], vf: 1},
		{name: "c", v4: "10.1.0.13", v6: "fd00:1::13", node: w.nodes[1], vf: 0},
		{name: "d", v4: "10.2.0.14", v6: "fd00:2::14", node: w.nodes[1], vf: 1},
	} {
		w.pod(e, i)
		w.pods[e.name] = e
	}
	w.sync()
	for name := range w.pods {
		run(t, inside(name, "iperf3", "-s", "-D")...)
	}
	t.Logf("two nodes with four pods in %s", time.Since(start).Round(time.Second))
	return w
}

// stream sends TCP from one pod to an address and gives the bytes that were sent,
// and those that came to the sender's representor, for there software is.
func stream(t *testing.T, from *endpoint, address string) (sent, software uint64) {
	t.Helper()
	eventually(t, from.name+" reaches "+address, 20*time.Second, func() bool {
		_, err := try(inside(from.name, "ping", "-c1", "-W1", address)...)
		return err == nil
	})
	before, seen := from.sent(t), from.seen(t)
	run(t, from.iperf(address, "4")...)
	sent, software = from.sent(t)-before, from.seen(t)-seen
	if sent < enough {
		t.Fatalf("%s sent %d bytes to %s", from.name, sent, address)
	}
	return sent, software
}

func (e *endpoint) iperf(address, seconds string) []string {
	return inside(e.name, "iperf3", "-c", address, "-t", seconds, "-b", "8M", "--connect-timeout", "5000")
}

// enough bytes to tell a stream from what else there is. How many a stream has is
// a matter of the machine's speed.
const enough = 100_000

func (e *endpoint) sent(t *testing.T) uint64 {
	t.Helper()
	return counter(t, e.name, "eth0", "tx_bytes")
}

// seen counts bytes that came to the representor from its VF.
func (e *endpoint) seen(t *testing.T) uint64 {
	t.Helper()
	return counter(t, e.node.name, e.rep, "rx_bytes")
}

func counter(t *testing.T, ns, link, name string) (n uint64) {
	t.Helper()
	text := run(t, inside(ns, "cat", "/sys/class/net/"+link+"/statistics/"+name)...)
	if _, err := fmt.Sscan(text, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func port(t *testing.T, r offload.Report, name string) offload.PortReport {
	t.Helper()
	for _, p := range r.Ports {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("no port %s in %+v", name, r.Ports)
	return offload.PortReport{}
}

// kinds of traffic, each both ways and in both families.
func kinds() [][3]string {
	return [][3]string{
		{"a", "b", "same node"}, {"b", "a", "same node, back"},
		{"a", "c", "other node"}, {"c", "a", "other node, back"},
		{"a", "d", "other node, routed"}, {"d", "a", "other node, routed, back"},
	}
}

// TestOffload_PodTrafficIsInHardware is the table of what runs in hardware. Of each stream nearly all
// must be there for pkg/offload, and the representor must not have seen it.
func TestOffload_PodTrafficIsInHardware(t *testing.T) {
	tier.In(t, "bench")
	tier.Full(t, "TestOffload_TrafficOfProduct shows the same with the product's rows")
	w := newWorld(t, true)
	t.Run("table", w.table)
	t.Run("policy", w.policy)
}

func (w *world) table(t *testing.T) {
	for _, k := range kinds() {
		from, to := w.pods[k[0]], w.pods[k[1]]
		for _, address := range []string{to.v4, to.v6} {
			t.Run(k[2]+" "+address, func(t *testing.T) {
				stream(t, from, address) // OVS makes its flows; how quick it is at that is not the question
				before := from.node.sample()
				sent, software := stream(t, from, address)
				after := from.node.sample()
				share := delta(t, before, after, from.rep).From
				t.Logf("%d of %d bytes in hardware, %d came to the representor", share.Hardware.Bytes, share.Sum().Bytes, software)
				if share.Hardware.Bytes < sent/10*9 || share.Hardware.Bytes*10 < share.Sum().Bytes*9 {
					t.Errorf("from %s: %+v, outside %+v", from.name, share, port(t, after.Report, from.rep).Outside)
				}
				if software > sent/10 {
					t.Errorf("%d bytes came to the representor", software)
				}
			})
		}
	}
	for _, n := range w.nodes {
		offloaded := strings.Join(n.flows("offloaded"), "\n")
		for _, what := range []string{"ct(", "recirc(", "tunnel(", "geneve("} {
			if !strings.Contains(offloaded, what) {
				t.Errorf("%s: no flow with %s in hardware", n.name, what)
			}
		}
	}
}

// What is in hardware obeys a policy that comes later. The module
// carries rules out, so one that outlives its policy would be seen here.
func (w *world) policy(t *testing.T) {
	for _, k := range [][2]string{{"a", "b"}, {"a", "c"}} {
		from, to := w.pods[k[0]], w.pods[k[1]]
		stream(t, from, to.v4)
		got := func() uint64 { return counter(t, to.name, "eth0", "rx_bytes") }
		long := exec.Command("timeout", append([]string{"60"}, from.iperf(to.v4, "60")...)...)
		if err := long.Start(); err != nil {
			t.Fatal(err)
		}
		before, software := got(), from.seen(t)
		time.Sleep(3 * time.Second)
		if passed := got() - before; passed < enough/2 || from.seen(t)-software > passed/4 {
			t.Errorf("%s to %s: %d bytes before the policy, %d in software", from.name, to.name, passed, from.seen(t)-software)
		}
		w.nb("acl-add", "s1", "to-lport", "2000", "ip4.dst == "+to.v4+" && tcp", "drop")
		w.sync()
		eventually(t, "the policy in force for the connection "+from.name+" to "+to.name, 15*time.Second, func() bool {
			before := got()
			time.Sleep(time.Second)
			return got()-before < 10_000
		})
		w.nb("acl-del", "s1", "to-lport", "2000", "ip4.dst == "+to.v4+" && tcp")
		w.sync()
		_ = long.Process.Kill()
		_ = long.Wait()
	}
}

// TestOffload_DisabledIsInSoftware is the control: the same traffic without hw-offload.
func TestOffload_DisabledIsInSoftware(t *testing.T) {
	tier.In(t, "bench")
	tier.Full(t, "TestOffload_DisabledProductIsInSoftware shows the same with the product's rows")
	w := newWorld(t, false)
	a, c := w.pods["a"], w.pods["c"]
	sent, software := stream(t, a, c.v4)
	p := port(t, a.node.sample().Report, a.rep)
	if n := len(a.node.flows("offloaded")); n != 0 || p.From.Hardware.Flows != 0 || software < sent/10*9 {
		t.Errorf("hw-offload is off: %d flows in hardware, %+v, %d bytes at the representor", n, p.From, software)
	}
	if len(p.Outside) == 0 || p.Outside[0].Reason != offload.ReasonOff {
		t.Errorf("the reason: %+v", p.Outside)
	}
}

// TestOffload_RefusedRulesKeepTraffic: a NIC that takes no more flows costs speed, not traffic, and is reported.
func TestOffload_RefusedRulesKeepTraffic(t *testing.T) {
	tier.In(t, "bench")
	const knob = "/sys/kernel/debug/swsim/fail_flower"
	write(t, knob, "1")
	defer write(t, knob, "0")
	w := newWorld(t, true)
	a, b := w.pods["a"], w.pods["b"]
	before := a.node.sample()
	sent, software := stream(t, a, b.v4)
	after := a.node.sample()
	if share := delta(t, before, after, a.rep).From; share.Hardware.Packets != 0 || software < sent/10*9 {
		t.Errorf("%+v, %d bytes at the representor", share, software)
	}
	reasons := map[offload.Reason]uint64{}
	for _, cause := range port(t, after.Report, a.rep).Outside {
		reasons[cause.Reason] += cause.Bytes
	}
	if reasons[offload.ReasonRefused] < sent/10*8 {
		t.Errorf("reasons by bytes: %v, want most of it %s", reasons, offload.ReasonRefused)
	}
}

func delta(t *testing.T, before, after offload.Sample, name string) offload.PortDelta {
	t.Helper()
	for _, p := range offload.Compare(before, after).Ports {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("no port %s", name)
	return offload.PortDelta{}
}
