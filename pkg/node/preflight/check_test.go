package preflight

import (
	"errors"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/gateway"
)

// fit is a node without findings.
func fit() Facts {
	f := Facts{
		Node: "n1", Datapath: gateway.DatapathSystem, AllRPFilter: "0",
		Kernel: Kernel{Release: "6.12.48+deb13-amd64", Modules: map[string]Module{}, CPUs: 8, Connections: 262144},
		Gateway: gateway.Outlook{
			Gateway: gateway.Gateway{NIC: "eth0", Bridge: "breth0"}, Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.10/24")},
			Underlay: 1500, MTU: 1442,
		},
		NIC: NIC{Driver: "mlx5_core", Firmware: "22.40.1000", Product: "ConnectX-6 Dx", TotalVFs: 16, Mode: "switchdev"},
	}
	for _, name := range append(datapathModules(), tcModules()...) {
		f.Kernel.Modules[name] = Available
	}
	return f
}

func TestCheck_FitNodePassesEachCheckOnce(t *testing.T) {
	report := Check(fit())
	if report.Verdict != Pass || report.Node != "n1" || len(report.Findings) != len(Names())-1 { // "unreadable" says nothing
		t.Errorf("%+v", report)
	}
	for _, f := range report.Findings {
		if f.Verdict != Pass || f.Do != "" || f.Message == "" {
			t.Errorf("%+v", f)
		}
	}
}

// unfit has a case for each finding: what differs from a fit node, the check, the verdict and a part of the message.
var unfit = []struct {
	name    string
	change  func(*Facts)
	check   string
	verdict Verdict
	message string
}{
	{"old kernel", func(f *Facts) { f.Kernel.Release = "4.18.0-553.el8" }, "kernel", Fail, "older than 5.2"},
	{"kernel without parents of netdevs", func(f *Facts) { f.Kernel.Release = "5.10.0-35-amd64" }, "kernel", Warn, "pods cannot use VFs"},
	{"kernel without a number", func(f *Facts) { f.Kernel.Release = "next" }, "kernel", Warn, `"next" cannot be read`},
	{"no openvswitch", func(f *Facts) { f.Kernel.Modules["openvswitch"] = Absent }, "modules", Fail, "no module openvswitch."},
	{"no list of modules", func(f *Facts) { f.Kernel.Modules = nil }, "modules", Warn, "openvswitch, geneve, nf_conntrack"},
	{"no CONFIG_NET_TC_SKB_EXT", func(f *Facts) { f.Kernel.Modules[skbExt] = Absent }, OffloadModules, Warn, "built without CONFIG_NET_TC_SKB_EXT"},
	{"no act_ct", func(f *Facts) { f.Kernel.Modules["act_ct"] = Absent }, "offload-modules", Warn, "no module act_ct"},
	{"gateway interface absent", func(f *Facts) { f.Gateway.Problem = errors.New("gateway interface ens1 is absent") }, "uplink", Fail, "gateway interface ens1 is absent"},
	{"default route elsewhere", func(f *Facts) {
		f.Gateway.NextHopProblem = errors.New("the IPv4 default route is on eno1, and not on gateway interface eth0")
	}, "uplink", Warn, "the IPv4 default route is on eno1"},
	{"NIC in legacy mode", func(f *Facts) { f.NIC.Mode = "legacy" }, "nic", Warn, "16 VFs are possible; the NIC is in legacy mode"},
	{"NIC with limits", func(f *Facts) { f.NIC.Limit = "conntrack is not offloaded" }, "nic", Warn, "firmware 22.40.1000: conntrack is not offloaded"},
	{"MTU larger than the underlay's", func(f *Facts) { f.Gateway.MTUProblem = errors.New("pod MTU 1500 and the tunnel's 58") }, "mtu", Fail, "pod MTU 1500"},
	{"no end of tunnels", func(f *Facts) { f.Gateway.MTUProblem = node.NotReady("no address in 10.74.0.0/24") }, "mtu", Fail, "no address in 10.74.0.0/24"},
	{"no end of tunnels before Open vSwitch", func(f *Facts) {
		f.Datapath, f.Gateway.MTUProblem = gateway.DatapathUserspace, node.NotReady("no address in 10.74.0.0/24")
	}, "mtu", Warn, "no end yet: no address in 10.74.0.0/24"},
	{"short underlay", func(f *Facts) { f.Gateway.Underlay, f.Gateway.MTU = 1400, 1342 }, "mtu", Warn, "only 1342"},
	{"foreign tunnel", func(f *Facts) { f.Listeners = []Listener{{"udp", 6081, "vtep"}} }, "ports", Fail, "UDP port 6081, for Geneve tunnels, is in use by vtep"},
	{"foreign metrics", func(f *Facts) { f.Listeners = []Listener{{"tcp", 9410, "exporter"}} }, "ports", Fail, "TCP port 9410"},
	{"foreign database", func(f *Facts) { f.Listeners = []Listener{{"tcp", 6641, "java"}} }, "ports", Warn, "TCP port 6641"},
	{"unseen process", func(f *Facts) { f.Listeners = []Listener{{"tcp", 9412, ""}} }, "ports", Warn, "a process that cannot be seen"},
	{"foreign br-int", func(f *Facts) { f.Others.Links = []string{"br-int (bridge)"} }, "names", Fail, "br-int (bridge)"},
	{"NodeLocal DNSCache", func(f *Facts) {
		f.Others.Masquerade = []string{"nodelocaldns (NodeLocal DNSCache) has 169.254.20.10, within the masquerade subnet 169.254.0.0/17"}
	}, "addresses", Fail, "an address of the node: nodelocaldns (NodeLocal DNSCache) has 169.254.20.10"},
	{"Calico's file first", func(f *Facts) { f.Others.CNIFiles = []string{"10-calico.conflist"} }, "cni", Warn, "reads 10-calico.conflist of another network first"},
	{"another file later", func(f *Facts) { f.Others.CNIFiles = []string{"87-podman-bridge.conflist"} }, "cni", Warn, "new pods get this network"},
	{"kube-proxy", func(f *Facts) { f.Others.KubeProxy = []string{"port 10256"} }, "kube-proxy", Warn, "(port 10256)"},
	{"NetworkManager", func(f *Facts) { f.Network.Service = "NetworkManager" }, "network-service", Warn, "NetworkManager manages the uplink"},
	{"netplan", func(f *Facts) { f.Network = Network{Service: "systemd-networkd", Netplan: true} }, "network-service", Warn, "systemd-networkd (netplan)"},
	{"lease", func(f *Facts) {
		f.Network.Leases = map[netip.Prefix]time.Duration{netip.MustParsePrefix("192.0.2.10/24"): time.Hour}
	}, "dhcp", Warn, "192.0.2.10/24 (1h0m0s left)"},
	{"loose filter with the userspace datapath", func(f *Facts) { f.Datapath, f.AllRPFilter = gateway.DatapathUserspace, "2" }, "rp-filter", Fail, "rp_filter is 2"},
	{"small table of connections", func(f *Facts) { f.Kernel.Connections = 262143 }, "conntrack", Warn, "kube-proxy would set 262144 on 8 processors"},
	{"small table and few processors", func(f *Facts) { f.Kernel.Connections, f.Kernel.CPUs = 65536, 2 }, "conntrack", Warn, "kube-proxy would set 131072 on 2 processors"},
	{"host's OVS", func(f *Facts) { f.Others.OVS = true }, "other-ovs", Fail, "The host runs its own Open vSwitch"},
	{"no host's OVS", func(f *Facts) { f.HostOVS = true }, "other-ovs", Fail, "none runs"},
	{"host's OVS keeps the uplink", func(f *Facts) { f.HostOVS, f.Others.OVS, f.Others.KeepsPorts = true, true, true }, "other-ovs", Warn, "no network before the agent starts"},
	{"another OVN", func(f *Facts) { f.Others.OVN = true }, "other-ovs", Fail, "ovn-controller of another network"},
	{"not observed", func(f *Facts) { f.Unreadable = []string{"open /proc/1/fd: permission denied"} }, "unreadable", Warn, "permission denied"},
}

func TestCheck_NamesWhatIsUnfit(t *testing.T) {
	for _, tt := range unfit {
		f := fit()
		tt.change(&f)
		report := Check(f)
		i := slices.IndexFunc(report.Findings, func(f Finding) bool { return f.Verdict != Pass })
		if i < 0 {
			t.Errorf("%s: passes", tt.name)
			continue
		}
		got := report.Findings[i]
		if got.Check != tt.check || got.Verdict != tt.verdict || report.Verdict != tt.verdict || !strings.Contains(got.Message, tt.message) {
			t.Errorf("%s: %+v", tt.name, got)
		}
		if !strings.HasSuffix(got.Do, ".") && !strings.HasSuffix(got.Do, ")") || got.Page != Page+"#"+tt.check {
			t.Errorf("%s: what to do: %+v", tt.name, got)
		}
		if rest := report.Without(tt.check); rest.Verdict != Pass {
			t.Errorf("%s: without the check: %+v", tt.name, rest)
		}
	}
}

// TestCheck_AllowsOwn: what the network itself has on a node is no finding.
func TestCheck_AllowsOwn(t *testing.T) {
	for name, change := range map[string]func(*Facts){
		"ports": func(f *Facts) {
			f.Listeners = []Listener{{"udp", 6081, "kernel"}, {"tcp", 6642, "ovsdb-server"}, {"tcp", 9410, "ovn-offload-age"}}
		},
		"taken over": func(f *Facts) { f.Gateway.TakenOver = true },
		"host's OVS": func(f *Facts) { f.HostOVS, f.Others.OVS = true, true },
		"a host's bridge": func(f *Facts) {
			f.Gateway = gateway.Outlook{Gateway: gateway.Gateway{Bridge: "br-ex"}, MTU: 1442}
			f.NIC = NIC{}
		},
		"a long name": func(f *Facts) { f.Gateway.NIC, f.Gateway.Bridge = "enP22p3s0f0np0", "brenP22p3b56b89" },
		"NIC without VFs": func(f *Facts) {
			f.NIC = NIC{Driver: "virtio_net", Limit: "no switchdev mode"}
			f.Kernel.Modules["act_ct"] = Absent
		},
		"userspace datapath":                    func(f *Facts) { f.Datapath, f.Kernel.Modules["openvswitch"] = gateway.DatapathUserspace, Absent },
		"loose filter":                          func(f *Facts) { f.AllRPFilter = "2" },
		"connections of the userspace datapath": func(f *Facts) { f.Datapath, f.Kernel.Connections = gateway.DatapathUserspace, 1000 },
		"no table of connections yet":           func(f *Facts) { f.Kernel.Connections = 0 },
	} {
		f := fit()
		change(&f)
		if report := Check(f); report.Verdict != Pass {
			t.Errorf("%s: %+v", name, report)
		}
	}
}

// TestCheck_SaysWhatPodsGet: in hardware where NIC and kernel can, by veth where one cannot, and nothing where a check fails, unless it is
// left out.
func TestCheck_SaysWhatPodsGet(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Facts)
		want   Pods
	}{
		"fit":               {func(*Facts) {}, Offload},
		"legacy mode":       {func(f *Facts) { f.NIC.Mode = "legacy" }, Offload},
		"no VFs":            {func(f *Facts) { f.NIC = NIC{Driver: "virtio_net"} }, Veth},
		"a NIC with limits": {func(f *Facts) { f.NIC.Limit = "no conntrack" }, VF},
		"limits, legacy":    {func(f *Facts) { f.NIC.Limit, f.NIC.Mode = "no conntrack", "legacy" }, Veth},
		"an old kernel":     {func(f *Facts) { f.Kernel.Release = "5.10.0" }, Veth},
		"no act_ct":         {func(f *Facts) { f.Kernel.Modules["act_ct"] = Absent }, VF},
		"another OVS":       {func(f *Facts) { f.Others.OVS = true }, No},
	} {
		f := fit()
		c.change(&f)
		if got := Check(f); got.Pods != c.want {
			t.Errorf("%s: %s, want %s", name, got.Pods, c.want)
		}
	}
	f := fit()
	f.Others.OVS = true
	if got := Check(f).Without("other-ovs"); got.Pods != Offload {
		t.Errorf("without the check that fails: %s", got.Pods)
	}
	for isOn, want := range map[bool]string{true: "16 VFs are possible", false: "without an IOMMU none for virtual machines"} {
		f := fit()
		f.Kernel.IOMMU = isOn
		if got := nic(f)[0]; got.Verdict != Pass || !strings.HasSuffix(got.Message, want) {
			t.Errorf("IOMMU %v: %+v", isOn, got)
		}
	}
}

// TestPage_HasSectionForEachCheck: users come there with the name of a check.
func TestPage_HasSectionForEachCheck(t *testing.T) {
	page, err := os.ReadFile("../../../" + Page)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Names() {
		if !strings.Contains(string(page), "\n## "+name+"\n") {
			t.Errorf("%s has no section %q", Page, name)
		}
	}
}

func TestReport_TextHasFailuresFirstAndWhatToDo(t *testing.T) {
	f := fit()
	f.Others.OVS, f.NIC.Mode = true, "legacy"
	report := Check(f)
	var text strings.Builder
	if err := report.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(text.String(), "\n")
	if lines[0] != "node n1: fail, pods: no" || !strings.HasPrefix(lines[1], "fail  other-ovs") || !strings.Contains(lines[2], "Set nodes.openvswitch to false") ||
		!strings.Contains(lines[2], "(docs/preflight.md#other-ovs)") || !strings.HasPrefix(lines[3], "warn  nic") {
		t.Errorf("%s", text.String())
	}
	if got := report.Failures(); strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, "preflight of node n1, check other-ovs: The host runs") {
		t.Errorf("failures: %s", got)
	}
}
