package preflight

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/node/gateway"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

func uplink(f Facts) []Finding {
	g := f.Gateway
	switch {
	case g.Problem != nil:
		return []Finding{fail("Set nodes.gatewayInterface to the NIC with the node's address, in a group of its own if only some nodes differ.",
			"There is no uplink: %s.", g.Problem)}
	case g.NextHopProblem != nil:
		return []Finding{warn("Set nodes.gatewayNextHop to the router in the uplink's network, or give the uplink a default route.",
			"The uplink is %s with %s, but %s.", cmp.Or(g.NIC, g.Bridge), addresses(g.Addresses), g.NextHopProblem)}
	case g.TakenOver:
		return pass("the agent has taken %s over: bridge %s has %s", g.NIC, g.Bridge, addresses(g.Addresses))
	case g.NIC == "":
		return pass("Open vSwitch bridge %s of the host stays as it is", g.Bridge)
	}
	return pass("%s with %s will be a port of bridge %s", g.NIC, addresses(g.Addresses), g.Bridge)
}

func addresses(prefixes []netip.Prefix) string {
	texts := make([]string, len(prefixes))
	for i, p := range prefixes {
		texts[i] = p.String()
	}
	return strings.Join(texts, " and ")
}

func nic(f Facts) []Finding {
	n := f.NIC
	what := strings.Join(slices.DeleteFunc([]string{n.Product, known("driver", n.Driver), known("firmware", n.Firmware)},
		func(s string) bool { return s == "" }), ", ")
	switch {
	case what == "" && f.Gateway.NIC == "":
		return pass("unknown: there is no NIC to look at")
	case n.TotalVFs == 0 && n.Mode != "switchdev":
		return pass("%s: no SR-IOV, so pods use veth pairs", what)
	case n.Limit != "" && n.Mode == "switchdev":
		return []Finding{warn("A pod that asks for a VF gets one, and its traffic stays in software: docs/offload-status.md has what this NIC can do.",
			"%s: %s.", what, n.Limit)}
	case n.Limit != "":
		return []Finding{warn("Expect pods on veth pairs, or look in docs/offload-status.md for what this NIC can do.",
			"%s: %s.", what, n.Limit)}
	case n.Mode != "switchdev":
		return []Finding{warn("Create an OffloadPolicy if pods are to use VFs.", "%s: %d VFs are possible; the NIC is in %s mode.", what, n.TotalVFs, n.Mode)}
	}
	if !f.Kernel.IOMMU {
		return pass("%s: switchdev mode, %d VFs are possible, without an IOMMU none for virtual machines", what, n.TotalVFs)
	}
	return pass("%s: switchdev mode, %d VFs are possible", what, n.TotalVFs)
}

func known(what, value string) string {
	if value == "" {
		return ""
	}
	return what + " " + value
}

// commonMTU is that of a pod on an Ethernet of 1500 with Geneve over IPv6.
const commonMTU = 1422

func mtu(f Facts) []Finding {
	g := f.Gateway
	switch {
	case g.Problem != nil || g.MTU == 0 && g.MTUProblem == nil:
		return pass("not known before the uplink is")
	case f.Datapath == gateway.DatapathUserspace && errors.Is(g.MTUProblem, reconcile.ErrNotReady):
		return []Finding{warn("Give the address to a bridge of Open vSwitch when it runs: the agent waits for it.", "Tunnels have no end yet: %s.", g.MTUProblem)}
	case g.MTUProblem != nil:
		return []Finding{fail("Raise the MTU of the uplink and of its switch, or lower nodes.mtu.", "Pods would have no MTU: %s.", g.MTUProblem)}
	case g.MTU < commonMTU:
		return []Finding{warn("Raise the MTU of the uplink and of its switch to 1500 or more.", "Pods have an MTU of only %d on an underlay of %d.", g.MTU, g.Underlay)}
	}
	return pass("pods have %d, the underlay has %d", g.MTU, g.Underlay)
}

// neededPort is one that a component listens at.
type neededPort struct {
	protocol string
	number   int
	use      string
	// everywhere: on each node, and not only where the control plane runs.
	everywhere bool
	// ours are the names of the processes that may have it, cut off after 15 bytes as the kernel does.
	ours []string
}

const agentProcess, controllerProcess = "ovn-offload-age", "ovn-offload-con"

func portsInUse() []neededPort {
	databases := []string{"ovsdb-server"}
	return []neededPort{
		{"udp", 6081, "Geneve tunnels", true, []string{kernelProcess, "ovs-vswitchd"}},
		{"tcp", 6641, "the Northbound database", false, databases},
		{"tcp", 6642, "the Southbound database", false, databases},
		{"tcp", 6643, "members of the Northbound database", false, databases},
		{"tcp", 6644, "members of the Southbound database", false, databases},
		{"tcp", 9410, "health of the agent", true, []string{agentProcess}},
		{"tcp", 9411, "health of the controller", false, []string{controllerProcess}},
		{"tcp", 9412, "metrics of the agent", true, []string{agentProcess}},
		{"tcp", 9413, "metrics of the controller", false, []string{controllerProcess}},
	}
}

// kernelProcess is the Listener's Process of a socket of the kernel.
const kernelProcess = "kernel"

func ports(f Facts) []Finding {
	var found []Finding
	for _, p := range portsInUse() {
		i := slices.IndexFunc(f.Listeners, func(l Listener) bool { return l.Protocol == p.protocol && l.Port == p.number })
		if i < 0 || slices.Contains(p.ours, f.Listeners[i].Process) {
			continue
		}
		process := f.Listeners[i].Process
		message := fmt.Sprintf("%s port %d, for %s, is in use by %s.", strings.ToUpper(p.protocol), p.number, p.use, process)
		do := fmt.Sprintf("Stop the process, or give it another port (ss -lnp 'sport = %d').", p.number)
		switch {
		case process == "":
			message = fmt.Sprintf("%s port %d, for %s, is in use by a process that cannot be seen.", strings.ToUpper(p.protocol), p.number, p.use)
			found = append(found, warn(do, "%s", message))
		case p.everywhere:
			found = append(found, fail(do, "%s", message))
		default:
			found = append(found, warn(do+" Only nodes of the control plane need the port.", "%s", message))
		}
	}
	if len(found) == 0 {
		return pass("UDP 6081 and TCP 6641-6644, 9410-9413 are free or ours")
	}
	return found
}

func names(f Facts) []Finding {
	var found []Finding
	for _, link := range f.Others.Links {
		found = append(found, fail("Remove or rename the device.", "Device %s has a name that the network needs.", link))
	}
	if len(found) > 0 {
		return found
	}
	if g := f.Gateway; g.NIC != "" && g.Bridge != "br"+g.NIC {
		return pass("br%s is too long for a device: the bridge is %s", g.NIC, g.Bridge)
	}
	return pass("no other device has a name that the network needs")
}

func networkService(f Facts) []Finding {
	n := f.Network
	if n.Service == "" {
		return pass("neither NetworkManager nor systemd-networkd manages the uplink")
	}
	by := n.Service
	if n.Netplan {
		by += " (netplan)"
	}
	return []Finding{warn("Leave the uplink's addresses as they are while the network is installed; the page says how to change one.",
		"%s manages the uplink. The bridge has the uplink's addresses after the installation.", by)}
}

func dhcp(f Facts) []Finding {
	if len(f.Network.Leases) == 0 {
		return pass("the uplink's addresses have no end")
	}
	var texts []string
	for _, prefix := range slices.SortedFunc(maps.Keys(f.Network.Leases), netip.Prefix.Compare) {
		texts = append(texts, fmt.Sprintf("%s (%s left)", prefix, f.Network.Leases[prefix].Round(time.Second)))
	}
	return []Finding{warn("Reserve the address for the NIC at the DHCP server.",
		"The uplink has addresses that end: %s.", strings.Join(texts, ", "))}
}

// kube-proxy raises the table of connections to these numbers (conntrack.maxPerCore and conntrack.min of its
// configuration).
const connectionsPerCPU, leastConnections = 32768, 131072

func connections(f Facts) []Finding {
	want := max(leastConnections, connectionsPerCPU*f.Kernel.CPUs)
	switch {
	case f.Datapath == gateway.DatapathUserspace:
		return pass("the userspace datapath has a table of its own")
	case f.Kernel.Connections == 0:
		return pass("the kernel's table of connections is not there yet")
	case f.Kernel.Connections < want:
		return []Finding{warn(fmt.Sprintf("Set net.netfilter.nf_conntrack_max = %d in a file of /etc/sysctl.d.", want),
			"The kernel tracks %d connections at most. kube-proxy would set %d on %d processors, which a boot without kube-proxy ends.",
			f.Kernel.Connections, want, f.Kernel.CPUs)}
	}
	return pass("the kernel tracks %d connections at most", f.Kernel.Connections)
}

func rpFilter(f Facts) []Finding {
	if f.Datapath == gateway.DatapathUserspace && f.AllRPFilter == "2" {
		return []Finding{fail("Set the sysctl to 0 or 1.",
			"net.ipv4.conf.all.rp_filter is 2: with the userspace datapath the kernel would answer on the uplink, too.")}
	}
	return pass("net.ipv4.conf.all.rp_filter is %s", f.AllRPFilter)
}
