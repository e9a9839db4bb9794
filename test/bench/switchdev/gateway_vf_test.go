//go:build bench

package switchdev

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/gateway"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/openflow"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// The node's addresses and those of the wire's other end, its router.
const (
	gatewayNode, gatewayOutside   = "192.168.60.2", "192.168.60.1"
	gatewayNode6, gatewayOutside6 = "fd00:60::2", "fd00:60::1"
)

// gatewayHost has its address on a bridge over the NIC, with a gateway router in
// OVN that shares it.
type gatewayHost struct {
	*podNode
	setup    *gateway.Setup
	function atomic.Pointer[node.VF]
	absent   atomic.Bool // ovs-vswitchd
	nic      string
}

// TestGatewayVF_NodeTrafficIsInHardware: a node has its address on a VF, and its connections with the
// outside in hardware. The control is the gateway bridge's own interface, before
// and after, which has none there. A connection lives on through all of it.
func TestGatewayVF_NodeTrafficIsInHardware(t *testing.T) {
	tier.In(t, "bench")
	h := newGatewayHost(t)
	bridge, own := "br"+h.nic, pf(t, h.inventory(), h.pci).VFs[3]
	was := h.state(own.Name)
	alive := h.talk(listen(t, "outside")["tcp"])
	for way := range directions() {
		h.stream(way)
		s := h.stream(way)
		t.Logf("by the bridge's own interface, %s: %+v", way, s)
		if s.hardware > 0 || s.counted < s.sent/10*9 {
			t.Errorf("%s: traffic of the bridge's own interface is in hardware: %+v", way, s)
		}
	}
	alive("before the move")

	h.function.Store(&node.VF{Device: own.Name, Representor: own.Representor.Name})
	h.setup.Mark()
	eventually(t, "the VF has the address", patience, func() bool { return h.bears(own.Netdev.Name) })
	eventually(t, "the bridge's own interface is down", patience, func() bool { return !isUp(h, bridge) })
	alive("after the move to the VF")
	h.six("on the VF")
	for way := range directions() {
		h.stream(way) // OVS makes its flows
		s := h.stream(way)
		t.Logf("by the VF, %s: %+v", way, s)
		if s.hardware < s.sent/10*9 || s.hardware*10 < s.counted*9 || s.software > s.sent/10 {
			t.Errorf("%s: traffic of the VF is not in hardware: %+v", way, s)
		}
	}

	write(t, driver+"unbind", own.Name)
	eventually(t, "without the VF the bridge has the address", patience, func() bool { return h.bears(bridge) })
	alive("after the VF has gone")
	write(t, driver+"bind", own.Name)
	back := pf(t, h.inventory(), h.pci).VFs[3]
	h.setup.Mark() // what the agent's inventory does
	eventually(t, "the VF has the address again", patience, func() bool { return h.bears(back.Netdev.Name) })
	alive("after the VF is back")

	h.function.Store(nil)
	h.setup.Mark()
	eventually(t, "the bridge has the address again", patience, func() bool { return h.bears(bridge) })
	eventually(t, "the VF is what it was", patience, func() bool { return h.state(own.Name) == was })
	alive("after the move to the bridge")
	h.six("on the bridge again")
}

// six: the VF and the bridge have one MAC and do not take each other's IPv6 addresses for duplicates.
func (h *gatewayHost) six(where string) {
	h.Helper()
	eventually(h, "IPv6 "+where, patience, func() bool { return pings(gatewayOutside6) })
	if failed := run(h, "ip", "-6", "addr", "show", "dadfailed"); failed != "" {
		h.Errorf("%s there are duplicate addresses:\n%s", where, failed)
	}
}

// directions are those of TCP, by iperf3's options.
func directions() map[string][]string { return map[string][]string{"out": nil, "in": {"-R"}} }

func newGatewayHost(t *testing.T) *gatewayHost {
	t.Helper()
	h := &gatewayHost{podNode: newPodNode(t)}
	p := pf(t, h.inventory(), h.pci)
	h.nic = p.Uplink().Name
	for _, link := range []string{h.nic, p.VFs[3].Representor.Name} {
		run(t, "ethtool", "-K", link, "hw-tc-offload", "on")
	}
	h.cable()
	h.router()
	h.run()
	return h
}

// cable has the external host at the other end of the NIC's cable, and the node's addresses on the NIC.
func (h *gatewayHost) cable() {
	t := h.T
	t.Helper()
	run(t, "ip", "netns", "add", "outside")
	run(t, "ip", "link", "set", "swsimw0", "netns", "outside")
	t.Cleanup(func() {
		_, _ = try(inside("outside", "pkill", "iperf3")...)
		_, _ = try("ip", "-n", "outside", "link", "set", "swsimw0", "netns", "1")
		_, _ = try("ip", "netns", "del", "outside")
	})
	batch(t, "outside", "link set lo up", "link set swsimw0 up", "addr add "+gatewayOutside+"/24 dev swsimw0", "addr add "+gatewayOutside6+"/64 dev swsimw0 nodad")
	run(t, "ip", "link", "set", h.nic, "up")
	run(t, "ip", "addr", "add", gatewayNode+"/24", "dev", h.nic)
	run(t, "ip", "addr", "add", gatewayNode6+"/64", "dev", h.nic, "nodad")
	run(t, "ip", "route", "add", "default", "via", gatewayOutside, "dev", h.nic)
	run(t, inside("outside", "iperf3", "-s", "-D")...)
}

// router is the node's gateway router as the controller makes it, less its services.
func (h *gatewayHost) router() {
	h.Helper()
	mac := read(h, "/sys/class/net/"+h.nic+"/address")
	h.c.nb("lr-add", "GR", "--", "set", "Logical_Router", "GR", "options:chassis=node",
		"--", "lrp-add", "GR", "rtoe", mac, gatewayNode+"/24",
		"--", "ls-add", "ext", "--", "lsp-add", "ext", "etor", "--", "lsp-set-type", "etor", "router",
		"--", "lsp-set-addresses", "etor", "router", "--", "lsp-set-options", "etor", "router-port=rtoe",
		"--", "lsp-add", "ext", "br"+h.nic+"_node", "--", "lsp-set-type", "br"+h.nic+"_node", "localnet",
		"--", "lsp-set-addresses", "br"+h.nic+"_node", "unknown", "--", "lsp-set-options", "br"+h.nic+"_node", "network_name=physnet")
}

// run keeps the node set up, as the agent does, until the test ends; then it takes all back.
func (h *gatewayHost) run() {
	h.Helper()
	h.Setenv("OVS_RUNDIR", h.dir)
	host, err := netdev.Open("")
	ok(h, err)
	cfg := gateway.Defaults()
	cfg.Node, cfg.Network, cfg.Zone.ServiceSubnets = "node", networkOf("10.244.0.0/16"), subnetsOf("10.96.0.0/16")
	cfg.Remote, cfg.GatewayInterface = h.c.remote("sb"), h.nic
	cfg.Checkpoint = filepath.Join(h.dir, "node.json")
	object := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node"},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: gatewayNode}}},
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	deps := node.Deps{
		Netns: node.Local{NS: host}, DB: h.db,
		Node:     func() *corev1.Node { return object },
		Annotate: func(context.Context, *corev1.Node, map[string]string) error { return nil },
		Probes:   map[string]func(context.Context) error{"outside": reachesOutside},
		Logger:   log, Registerer: prometheus.NewRegistry(),
	}
	h.setup, err = gateway.New(cfg, gateway.Deps{
		Deps: deps, Flows: openflow.Tables{Log: log},
		VF: func() (*node.VF, error) { return h.function.Load(), nil }, SwitchAbsent: h.absent.Load,
	})
	ok(h, err)
	h.db.OnChange(func(owners []string) { h.setup.Changed(owners...) })
	h.db.OnForeign(func(tables []string) { h.setup.Foreign(tables...) })
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = h.setup.Run(ctx) })
	h.Cleanup(func() {
		cancel()
		running.Wait()
		ok(h, h.setup.Cleanup(context.Background()))
		if !h.bears(h.nic) {
			h.Error("after the clean-up the NIC has no address")
		}
		run(h, "ip", "addr", "flush", "dev", h.nic)
		_ = host.Close()
	})
	eventually(h, "the gateway router is on the bridge", time.Minute, func() bool {
		flows, err := try("ovs-ofctl", "-O", "OpenFlow14", "--no-stats", "dump-flows", "br"+h.nic)
		return err == nil && strings.Contains(flows, "ct_mark=0x1")
	})
}

func reachesOutside(ctx context.Context) error {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(gatewayOutside, fmt.Sprint(probePort)))
	if err != nil {
		return err
	}
	return c.Close()
}

// streamed is what became of the bytes of a stream: those that passed the cable, those
// that came to the sender's port of the bridge, and of what pkg/offload counts there
// those in hardware.
type streamed struct{ sent, software, counted, hardware uint64 }

// stream sends TCP between the node and the outside.
func (h *gatewayHost) stream(way string) streamed {
	h.Helper()
	from, end := h.port(way), "tx_bytes"
	if way == "out" {
		end = "rx_bytes"
	}
	count := func() (cable, port uint64) {
		_, err := fmt.Sscan(read(h, "/sys/class/net/"+from+"/statistics/rx_bytes"), &port)
		ok(h, err)
		return counter(h.T, "outside", "swsimw0", end), port
	}
	before := h.sample(from)
	cable, port := count()
	run(h, append([]string{"iperf3", "-c", gatewayOutside, "-t", "4", "-b", "8M", "--connect-timeout", "5000"}, directions()[way]...)...)
	share := delta(h.T, before, h.sample(from), from).From
	s := streamed{counted: share.Sum().Bytes, hardware: share.Hardware.Bytes}
	s.sent, s.software = count()
	s.sent, s.software = s.sent-cable, s.software-port
	if s.sent < enough {
		h.Fatalf("%s: %+v", way, s)
	}
	return s
}

// port is the bridge's port that packets of the way come from.
func (h *gatewayHost) port(way string) string {
	h.Helper()
	switch f := h.function.Load(); {
	case way == "in":
		return h.nic
	case f != nil:
		return f.Representor
	}
	return "br" + h.nic
}

func (h *gatewayHost) sample(port string) offload.Sample {
	h.Helper()
	n := ovsNode{T: h.T, name: "node", dir: h.dir, ports: []offload.Port{{Name: port, Device: offload.Device{Representor: true, HWTC: true}}}}
	n.settings = offloading(true)
	return n.sample()
}

// bears reports whether a link, and no other, has the node's address and its way out.
func (h *gatewayHost) bears(link string) bool {
	h.Helper()
	addrs, err := try("ip", "-br", "-4", "addr", "show", "to", gatewayNode)
	routes, _ := try("ip", "route", "show", "default")
	return err == nil && strings.Fields(addrs + " -")[0] == link && !strings.Contains(addrs, "\n") && strings.Contains(routes+" ", "dev "+link+" ")
}

func isUp(t testing.TB, link string) bool {
	host, err := netdev.Open("")
	ok(t, err)
	defer func() { _ = host.Close() }()
	l, err := host.Link(link)
	ok(t, err)
	return l.Up
}

// talk opens a connection to an external address that carries a probe at each interval. The returned function waits for
// five more probes, and logs the longest pause since its last call.
func (h *gatewayHost) talk(received *tap) (alive func(when string)) {
	h.Helper()
	c, err := net.Dial("tcp", net.JoinHostPort(gatewayOutside, fmt.Sprint(probePort)))
	ok(h, err)
	closeAfter(h.T, c)
	go func() { _, _ = io.Copy(io.Discard, c) }()
	go every(h.Context(), func() { _, _ = c.Write([]byte("probe")) })
	asked := time.Now()
	return func(when string) {
		h.Helper()
		now := time.Now()
		eventually(h, "probes "+when, patience, func() bool { n, _ := received.since(now); return n >= 5 })
		h.Logf("%s the connection lives, its longest pause was %s", when, received.pause(asked).Round(time.Millisecond))
		asked = now
	}
}

// pause is the longest time between two packets since a moment.
func (a *tap) pause(since time.Time) (longest time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := slices.DeleteFunc(slices.Clone(a.at), func(at time.Time) bool { return at.Before(since) })
	for i := 1; i < len(at); i++ {
		longest = max(longest, at[i].Sub(at[i-1]))
	}
	return longest
}
