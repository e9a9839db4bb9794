package preflight

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ovn-offload/ovn-offload/pkg/node/gateway"
)

// Check gives a finding or more for each check, in the order of Names.
func Check(f Facts) Report {
	r := Report{
		Node: f.Node, TakenOver: f.Gateway.TakenOver, hasVFs: f.NIC.Mode == "switchdev",
		canOffload: f.NIC.Limit == "" && (f.NIC.TotalVFs > 0 || f.NIC.Mode == "switchdev"),
	}
	for _, c := range checks() {
		for _, finding := range c.find(f) {
			finding.Check, finding.Page = c.name, Page+"#"+c.name
			r.Findings = append(r.Findings, finding)
			r.Verdict = max(r.Verdict, finding.Verdict)
			r.hasVFs = r.hasVFs && (finding.Verdict == Pass || c.name != Kernels)
			r.canOffload = r.canOffload && (finding.Verdict == Pass || c.name != Kernels && c.name != OffloadModules)
		}
	}
	return r.withPods()
}

// Without leaves checks out.
func (r Report) Without(names ...string) Report {
	out := Report{Node: r.Node, TakenOver: r.TakenOver, canOffload: r.canOffload, hasVFs: r.hasVFs}
	for _, finding := range r.Findings {
		if !slices.Contains(names, finding.Check) {
			out.Findings = append(out.Findings, finding)
			out.Verdict = max(out.Verdict, finding.Verdict)
		}
	}
	return out.withPods()
}

// Names are those of all checks.
func Names() (names []string) {
	for _, c := range checks() {
		names = append(names, c.name)
	}
	return names
}

// Uplink is the check of the gateway interface. Kernels and OffloadModules are those of what VFs need.
const (
	Uplink         = "uplink"
	Kernels        = "kernel"
	OffloadModules = "offload-modules"
)

type check struct {
	name string
	find func(Facts) []Finding
}

func checks() []check {
	return []check{
		{Kernels, kernel}, {"modules", modules}, {OffloadModules, offloadModules},
		{Uplink, uplink}, {"nic", nic}, {"mtu", mtu}, {"ports", ports}, {"names", names}, {"addresses", ownAddresses},
		{"cni", cni}, {"kube-proxy", kubeProxy}, {"network-service", networkService}, {"dhcp", dhcp},
		{"rp-filter", rpFilter}, {"conntrack", connections}, {"other-ovs", otherOVS}, {"unreadable", unreadable},
	}
}

func pass(format string, args ...any) []Finding {
	return []Finding{{Verdict: Pass, Message: fmt.Sprintf(format, args...)}}
}

func warn(do, format string, args ...any) Finding {
	return Finding{Verdict: Warn, Message: fmt.Sprintf(format, args...), Do: do}
}

func fail(do, format string, args ...any) Finding {
	return Finding{Verdict: Fail, Message: fmt.Sprintf(format, args...), Do: do}
}

func kernel(f Facts) []Finding {
	running, err := version.ParseGeneric(f.Kernel.Release)
	switch {
	case err != nil:
		return []Finding{warn("Compare the kernel with docs/support.md.", "The version of kernel %q cannot be read.", f.Kernel.Release)}
	case running.LessThan(version.MajorMinor(5, 2)): // NAT in nftables' family inet
		return []Finding{fail("Install Linux 5.2 or newer, 5.14 or newer for VFs.", "Linux %s is older than 5.2.", f.Kernel.Release)}
	case running.LessThan(version.MajorMinor(5, 14)): // names the device of a netdev in a pod
		return []Finding{warn("Install Linux 5.14 or newer if pods are to use VFs.", "Linux %s is older than 5.14: pods cannot use VFs.", f.Kernel.Release)}
	}
	return pass("Linux %s", f.Kernel.Release)
}

func datapathModules() []string { return []string{"openvswitch", "geneve", "nf_conntrack"} }

func tcModules() []string {
	return []string{"cls_flower", "sch_ingress", "act_mirred", "act_tunnel_key", "act_pedit", "act_ct"}
}

// skbExt is the option by which a packet that misses a rule of TC goes on in the chain where it was (net/sched/Kconfig). Open vSwitch
// probes for it, and gives TC no flow that recirculates without it.
const skbExt = "CONFIG_NET_TC_SKB_EXT"

func modules(f Facts) []Finding {
	if f.Datapath == gateway.DatapathUserspace {
		return pass("the userspace datapath needs no modules")
	}
	var found []Finding
	if missing := having(f.Kernel, Absent, datapathModules()); len(missing) > 0 {
		found = append(found, fail("Install the package of the distribution with the kernel's further modules.",
			"The kernel has no module %s.", strings.Join(missing, ", ")))
	}
	if open := having(f.Kernel, Unknown, datapathModules()); len(open) > 0 {
		found = append(found, warn("Load the modules by hand, or make sure that they are built in.",
			"The host has no list of the kernel's modules: nothing is known about %s.", strings.Join(open, ", ")))
	}
	if len(found) == 0 {
		return pass("%s", strings.Join(datapathModules(), ", "))
	}
	return found
}

func offloadModules(f Facts) []Finding {
	if f.NIC.TotalVFs == 0 && f.NIC.Mode == "" {
		return pass("not needed: the uplink's NIC has no VFs")
	}
	if missing := having(f.Kernel, Absent, tcModules()); len(missing) > 0 {
		return []Finding{warn("Install the modules if traffic is to be offloaded.",
			"The kernel has no module %s: traffic cannot be offloaded.", strings.Join(missing, ", "))}
	}
	if f.Kernel.Modules[skbExt] == Absent {
		return []Finding{warn("Install a kernel with the option if traffic is to be offloaded.",
			"The kernel is built without %s: Open vSwitch keeps flows with connection tracking, as those of pods, out of the NIC.", skbExt)}
	}
	return pass("%s", strings.Join(tcModules(), ", "))
}

func having(k Kernel, state Module, names []string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return k.Modules[name] != state })
}

func unreadable(f Facts) []Finding {
	var found []Finding
	for _, problem := range f.Unreadable {
		found = append(found, warn("Run the command as root on the node, or in a privileged pod.", "Not observed: %s.", problem))
	}
	return found
}
