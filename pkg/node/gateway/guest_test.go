package gateway

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
	"github.com/ovn-offload/ovn-offload/pkg/node/nodetest"
	"github.com/ovn-offload/ovn-offload/pkg/openflow"
)

const geneve = 6081

// TestRealSwitch_HostOfDPUSendsNoGeneve: Geneve that the host of a DPU sends by its own PF, whose representor is on the
// gateway bridge, reaches the DPU and another node as long as the bridge has no flows against it, and then neither. Other
// UDP of the host arrives always.
func TestRealSwitch_HostOfDPUSendsNoGeneve(t *testing.T) {
	r := newRig(t)
	host := netdevtest.NewNS(t)
	ns := r.open(host)
	nodetest.Must(t, r.host.AddVeth(netdev.Veth{Name: "pf0hpf", MTU: 1500, Peer: netdev.Peer{Path: host, Name: "eth0"}}))
	nodetest.Must(t, r.host.SetLink("pf0hpf", netdev.Settings{State: netdev.Up}))
	// The userspace datapath leaves packets to the kernel, too: it must not answer ARP for the bridge.
	nodetest.Must(t, r.host.Sysctl("net/ipv4/conf/pf0hpf/arp_ignore", "8"))
	nodetest.Must(t, ns.SetLink("eth0", netdev.Settings{State: netdev.Up}))
	for _, addr := range []string{"172.18.0.9/16", "fc00:18::9/64"} {
		nodetest.Must(t, ns.ReplaceAddr("eth0", netip.MustParsePrefix(addr), netdev.AddrOptions{NoDAD: true}))
	}
	var guarded atomic.Bool
	r.eswitch = func() (Eswitch, error) {
		e := Eswitch{Functions: []string{"pf0hpf"}}
		if guarded.Load() {
			e.Guests = e.Functions
		}
		return e, nil
	}
	r.flows = socketTables{Tables: openflow.Tables{Log: slog.New(slog.DiscardHandler)}, dir: r.dir}
	s, _ := r.run(realNode())
	r.integrationBridge()
	select {
	case <-s.Done():
	case <-time.After(30 * time.Second):
		t.Fatalf("not set up after 30s: %v", s.Ready())
	}
	if out, err := exec.Command("ovs-vsctl", "--db="+r.ovsdb.Endpoint(), "add-port", "breth0", "pf0hpf").CombinedOutput(); err != nil {
		t.Fatalf("ovs-vsctl: %v: %s", err, out)
	}
	arrives := map[string]func() bool{}
	for target, at := range map[string]string{"172.18.0.3": r.node, "fc00:18::3": r.node, "172.18.0.1": r.outside, "fc00:18::1": r.outside} {
		arrives[target] = r.genevePath(host, at, target)
		eventually(t, "without the flows Geneve arrives at "+target, arrives[target])
	}
	guarded.Store(true)
	s.Mark()
	for target, arrives := range arrives {
		eventually(t, "the flows drop Geneve to "+target, func() bool { return !arrives() })
		for range 5 {
			if arrives() {
				t.Errorf("with the flows Geneve arrives at %s", target)
			}
		}
	}
}

// socketTables are the flow tables of the rig's ovs-vswitchd.
type socketTables struct {
	openflow.Tables
	dir string
}

func (s socketTables) socket(bridge string) string { return filepath.Join(s.dir, bridge+".mgmt") }

func (s socketTables) Replace(ctx context.Context, bridge string, flows []string) error {
	return s.Tables.Replace(ctx, s.socket(bridge), flows)
}

func (s socketTables) Dump(ctx context.Context, bridge, match string, flow func(string)) error {
	return s.Tables.Dump(ctx, s.socket(bridge), match, flow)
}

func (s socketTables) Watch(ctx context.Context, bridge string, changed func(string)) {
	s.Tables.Watch(ctx, s.socket(bridge), changed)
}

// genevePath gives a function that sends Geneve, and other UDP behind it until that has come: then it is known whether
// Geneve has.
func (r *rig) genevePath(from, to, address string) (arrives func() bool) {
	r.t.Helper()
	const other = 9999
	network := "udp6" // the standard library does not ask this namespace whether it has IPv6
	if netip.MustParseAddr(address).Is4() {
		network = "udp4"
	}
	listen := func(ns string, at *net.UDPAddr) (socket *net.UDPConn) {
		r.inside(ns, func() (err error) {
			socket, err = net.ListenUDP(network, at)
			return err
		})
		r.t.Cleanup(func() { socket.Close() })
		return socket
	}
	came := func(socket *net.UDPConn, wait time.Duration) bool {
		_ = socket.SetReadDeadline(time.Now().Add(wait))
		_, _, err := socket.ReadFromUDP(make([]byte, 100))
		return err == nil
	}
	sockets, sender := map[int]*net.UDPConn{}, listen(from, nil)
	for _, port := range []int{geneve, other} {
		sockets[port] = listen(to, &net.UDPAddr{IP: net.ParseIP(address), Port: port})
	}
	return func() bool {
		for _, socket := range sockets { // what came late
			for came(socket, time.Millisecond) {
			}
		}
		eventually(r.t, "other UDP arrives at "+address, func() bool {
			for _, port := range []int{geneve, other} {
				_, _ = sender.WriteToUDP([]byte("forged"), &net.UDPAddr{IP: net.ParseIP(address), Port: port})
			}
			return came(sockets[other], 200*time.Millisecond)
		})
		return came(sockets[geneve], 50*time.Millisecond)
	}
}
