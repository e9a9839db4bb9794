//go:build bench

package switchdev

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/offload"
)

// world is the cluster with four pods: a and b on the first node, c and d on the
// second; d is on another switch, behind the router.
type world struct {
	*cluster
	pods map[string]*endpoint
}

func newWorld(t *testing.T, hwOffload bool) *world {
	t.Helper()
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
		t.Cleanup(func() { _, _ = try("ip", "netns", "del", e.name) })
	}
	w.sync()
	for name := range w.pods {
		run(t, inside(name, "iperf3", "-s", "-D")...)
	}
	return w
}

// stream sends TCP from one pod to the other for some seconds and gives the
// packets that the representor of the sender saw, for there software is.
func (w *world) stream(from, to *endpoint, address string) (software int) {
	w.t.Helper()
	eventually(w.t, from.name+" reaches "+address, 20*time.Second, func() bool {
		_, err := try(inside(from.name, "ping", "-c1", "-W1", address)...)
		return err == nil
	})
	before := from.seen(w.t)
	run(w.t, inside(from.name, "iperf3", "-c", address, "-t", "4", "-b", "20M", "--connect-timeout", "5000")...)
	return from.seen(w.t) - before
}

// seen counts packets that came to the representor from its VF.
func (e *endpoint) seen(t *testing.T) (n int) {
	t.Helper()
	text := run(t, inside(e.node.name, "cat", "/sys/class/net/"+e.rep+"/statistics/rx_packets")...)
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

// TestOffload is the table of what runs in hardware. Of each stream nearly all
// packets must be there for pkg/offload, and the representor must not have seen them.
func TestOffload(t *testing.T) {
	w := newWorld(t, true)
	for _, k := range kinds() {
		from, to := w.pods[k[0]], w.pods[k[1]]
		for _, address := range []string{to.v4, to.v6} {
			t.Run(k[2]+" "+address, func(t *testing.T) {
				before := from.node.sample()
				software := w.stream(from, to, address)
				after := from.node.sample()
				delta := offload.Compare(before, after)
				for _, p := range delta.Ports {
					if p.Name != from.rep {
						continue
					}
					ratio, ok := p.From.Ratio()
					t.Logf("%.3f of %d packets in hardware; %d came to the representor", ratio, p.From.Sum().Packets, software)
					if !ok || ratio < 0.9 || p.From.Hardware.Packets < 300 {
						t.Errorf("from %s: %+v, outside %+v", from.name, p.From, port(t, after.Report, from.rep).Outside)
					}
					if uint64(software) > p.From.Sum().Packets/10 {
						t.Errorf("%d of %d packets came to the representor", software, p.From.Sum().Packets)
					}
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

// TestOffloadOff is the control: the same traffic without hw-offload.
func TestOffloadOff(t *testing.T) {
	w := newWorld(t, false)
	a, c := w.pods["a"], w.pods["c"]
	software := w.stream(a, c, c.v4)
	report := a.node.sample().Report
	p := port(t, report, a.rep)
	if n := len(a.node.flows("offloaded")); n != 0 || p.From.Hardware.Packets != 0 || software < 300 {
		t.Errorf("hw-offload is off: %d flows in hardware, %+v, %d packets at the representor", n, p.From, software)
	}
	if len(p.Outside) == 0 || p.Outside[0].Reason != offload.ReasonOff {
		t.Errorf("the reason: %+v", p.Outside)
	}
}

// TestRefused: a NIC that takes no more flows costs speed, not traffic, and is reported.
func TestRefused(t *testing.T) {
	w := newWorld(t, true)
	const knob = "/sys/kernel/debug/swsim/fail_flower"
	write(t, knob, "1")
	defer write(t, knob, "0")
	a, b := w.pods["a"], w.pods["b"]
	before := a.node.sample()
	software := w.stream(a, b, b.v4)
	after := a.node.sample()
	for _, p := range offload.Compare(before, after).Ports {
		if p.Name == a.rep && (p.From.Hardware.Packets != 0 || software < 300) {
			t.Errorf("%+v, %d packets at the representor", p.From, software)
		}
	}
	reasons := map[offload.Reason]uint64{}
	for _, cause := range port(t, after.Report, a.rep).Outside {
		reasons[cause.Reason] += cause.Packets
	}
	if reasons[offload.ReasonRefused] < 300 {
		t.Errorf("reasons by packets: %v, want most %s", reasons, offload.ReasonRefused)
	}
}
