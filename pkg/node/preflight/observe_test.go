package preflight

import (
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
	"github.com/ovn-offload/ovn-offload/pkg/node/gateway"
	"github.com/ovn-offload/ovn-offload/pkg/node/nodetest"
)

// host writes files below a root. A text "-> X" is a link.
func host(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		nodetest.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			nodetest.Must(t, os.Symlink(target, path))
			continue
		}
		nodetest.Must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return root
}

// leased makes an uplink with an address that ends in an hour, and one that does not end.
func leased(t *testing.T) *netdev.NS {
	t.Helper()
	path := netdevtest.NewNS(t)
	h := netdevtest.Handle(t, path)
	for _, link := range []netlink.Link{&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0", MTU: 1500}, PeerName: "cable"}, &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br-int"}}} {
		nodetest.Must(t, h.LinkAdd(link))
	}
	eth0, err := h.LinkByName("eth0")
	nodetest.Must(t, err)
	nodetest.Must(t, h.LinkSetUp(eth0))
	for address, seconds := range map[string]int{"192.0.2.10/24": 3600, "198.51.100.10/24": 0} {
		addr, err := netlink.ParseAddr(address)
		nodetest.Must(t, err)
		addr.ValidLft, addr.PreferedLft = seconds, seconds
		nodetest.Must(t, h.AddrAdd(eth0, addr))
	}
	nodetest.Must(t, h.RouteAdd(&netlink.Route{LinkIndex: eth0.Attrs().Index, Gw: []byte{192, 0, 2, 1}, Protocol: unix.RTPROT_DHCP}))
	ns, err := netdev.Open(path)
	nodetest.Must(t, err)
	t.Cleanup(func() { _ = ns.Close() })
	return ns
}

const (
	socketHeader = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	idle         = " 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 "
	udp          = " 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 "
	rest         = " 1 0000000000000000 100 0 0 10 0\n"
)

// TestObserve_ReadsHost: a host with a lease, networkd, Calico, kube-proxy, its own OVS and a process at our port.
func TestObserve_ReadsHost(t *testing.T) {
	ns := leased(t)
	eth0, err := ns.Link("eth0")
	nodetest.Must(t, err)
	root := host(t, map[string]string{
		"etc/cni/net.d/10-calico.conflist": "{}", "etc/cni/net.d/calico-kubeconfig": "",
		"run/systemd/netif/links/" + strconv.Itoa(eth0.Index): "ADMIN_STATE=configured\nNETWORK_FILE=/run/systemd/network/10-netplan-eth0.network\n",
		"proc/sys/net/netfilter/nf_conntrack_max":             "65536\n",
		"proc/net/tcp": socketHeader + "   0: 00000000:24C2" + idle + "101" + rest + "   1: 00000000:2810" + idle + "102" + rest,
		"proc/net/udp": socketHeader + "   0: 00000000:17C1" + udp + "0" + rest,
		"proc/7/comm":  "exporter\n", "proc/7/cmdline": "exporter", "proc/7/fd/3": "-> socket:[101]",
		"proc/8/comm": "ovs-vswitchd\n", "proc/8/cmdline": "ovs-vswitchd\x00--pidfile\x00--detach", "proc/8/fd/0": "-> /dev/null",
		"proc/9/comm": "ovn-controller\n", "proc/9/cmdline": "ovn-controller\x00--unixctl=/run/ovn/ovn-controller.ctl", "proc/9/fd/0": "-> /dev/null",
	})
	cfg := gateway.Defaults()
	cfg.Node, cfg.Checkpoint, cfg.Network = "n1", filepath.Join(root, "node.json"), nodetest.Network("10.244.0.0/16")
	got, err := Observe(Config{Gateway: cfg, Root: root, Proc: filepath.Join(root, "proc"), ConfDir: filepath.Join(root, "etc/cni/net.d")},
		Host{NS: ns, NIC: func(link string) NIC { return NIC{Driver: "of " + link} }})
	nodetest.Must(t, err)
	slices.SortFunc(got.Listeners, func(a, b Listener) int { return a.Port - b.Port })
	leases := slices.Collect(maps.Keys(got.Network.Leases))
	got.Network.Leases = nil
	want := Facts{
		Node: "n1", Datapath: "system", AllRPFilter: got.AllRPFilter, Kernel: got.Kernel,
		Gateway: gateway.Outlook{
			Gateway: gateway.Gateway{Bridge: "breth0", NIC: "eth0"}, Addresses: got.Gateway.Addresses, Underlay: 1500, MTU: 1442,
		},
		NIC: NIC{Driver: "of eth0"}, Network: Network{Service: "systemd-networkd", Netplan: true},
		Listeners: []Listener{{"udp", 6081, "kernel"}, {"tcp", 9410, "exporter"}, {"tcp", 10256, ""}},
		Others:    Others{CNIFiles: []string{"10-calico.conflist"}, KubeProxy: []string{"port 10256"}, Links: []string{"br-int (bridge)"}, OVS: true},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(leases) != 1 || leases[0].String() != "192.0.2.10/24" {
		t.Errorf("leases: %v", leases)
	}
	if got.Kernel.Release == "" || got.Kernel.CPUs == 0 || got.Kernel.Connections != 65536 || len(got.Unreadable) != 0 {
		t.Errorf("kernel %q, unreadable %q", got.Kernel.Release, got.Unreadable)
	}
}

// TestObserve_AgentIsNoKubeProxy: both answer at port 10256.
func TestObserve_AgentIsNoKubeProxy(t *testing.T) {
	path := netdevtest.NewNS(t)
	ns, err := netdev.Open(path)
	nodetest.Must(t, err)
	defer ns.Close()
	for process, want := range map[string]int{"kube-proxy": 1, agentProcess: 0, "": 1} {
		o := &observer{facts: Facts{Listeners: []Listener{{"tcp", kubeProxyPort, process}}}}
		if got := o.kubeProxy(ns, gateway.State{}); len(got) != want {
			t.Errorf("port of %q: traces of kube-proxy: %q", process, got)
		}
	}
}

// TestObserve_KernelsConfiguration: an option is there or is not; without a configuration nothing is known.
func TestObserve_KernelsConfiguration(t *testing.T) {
	path := netdevtest.NewNS(t)
	ns, err := netdev.Open(path)
	nodetest.Must(t, err)
	defer ns.Close()
	release := (&observer{}).kernel(ns).Release
	for text, want := range map[string]Module{"\nCONFIG_NET_TC_SKB_EXT=y\n": Available, "\n# CONFIG_NET_TC_SKB_EXT is not set\n": Absent, "": Unknown} {
		files := map[string]string{"sys/class/iommu/dmar0": ""}
		if text != "" {
			files["boot/config-"+release] = text
		} else {
			delete(files, "sys/class/iommu/dmar0")
		}
		o := &observer{root: host(t, files)}
		if got := o.kernel(ns); got.Modules[skbExt] != want || got.IOMMU != (text != "") || len(o.facts.Unreadable) > 0 {
			t.Errorf("%q: %+v, %q", text, got, o.facts.Unreadable)
		}
	}
}

// TestObserve_TransientPortsOfHostsOVS: what distributions have, as it is set up there.
func TestObserve_TransientPortsOfHostsOVS(t *testing.T) {
	for file, tt := range map[string]struct {
		text string
		want bool
	}{
		"usr/lib/systemd/system/ovs-delete-transient-ports.service": {"[Unit]\n", true},
		"etc/default/openvswitch-switch":                            {"OVS_CTL_OPTS=\"--delete-transient-ports\"\n", true},
		"etc/sysconfig/openvswitch":                                 {"OPTIONS=\"\"\n", false},
		"etc/hostname":                                              {"worker\n", false},
	} {
		o := &observer{root: host(t, map[string]string{file: tt.text})}
		if got := o.removesTransientPorts(); got != tt.want || len(o.facts.Unreadable) > 0 {
			t.Errorf("%s: %t, %q", file, got, o.facts.Unreadable)
		}
	}
}
