package preflight

import (
	"path/filepath"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/node/cnifiles"
)

func cni(f Facts) []Finding {
	var found []Finding
	for _, file := range f.Others.CNIFiles {
		if cnifiles.IsBeforeOurs(filepath.Base(file)) {
			found = append(found, warn("Remove the file when the other network is removed: until then new pods get the other network.",
				"The container runtime reads %s of another network first.", file))
			continue
		}
		found = append(found, warn("Remove the file when the other network is removed.",
			"%s is of another network; new pods get this network.", file))
	}
	if len(found) == 0 {
		return pass("no other network has a file for the container runtime")
	}
	return found
}

func ownAddresses(f Facts) []Finding {
	var found []Finding
	for _, conflict := range f.Others.Masquerade {
		found = append(found, fail("Set network.masqueradeCIDRs to a range that no node and no other network uses, such as 198.18.0.0/17.",
			"Pods would not reach an address of the node: %s.", conflict))
	}
	if len(found) == 0 {
		return pass("no other program has an address of the masquerade subnets")
	}
	return found
}

func kubeProxy(f Facts) []Finding {
	if len(f.Others.KubeProxy) == 0 {
		return pass("no trace of kube-proxy")
	}
	return []Finding{warn("Delete the DaemonSet kube-proxy in kube-system, and restart the node or run kube-proxy --cleanup.",
		"kube-proxy serves Services on this node, too (%s).", strings.Join(f.Others.KubeProxy, ", "))}
}

func otherOVS(f Facts) []Finding {
	switch {
	case f.Others.OVN:
		return []Finding{fail("Remove the other network first, or follow its page of the migration.",
			"An ovn-controller of another network runs on this node.")}
	case f.Others.OVS && !f.HostOVS:
		return []Finding{fail("Set nodes.openvswitch to false for this node, or stop the host's Open vSwitch.",
			"The host runs its own Open vSwitch; a second one would take its database.")}
	case !f.Others.OVS && f.HostOVS:
		return []Finding{fail("Start the host's Open vSwitch, or set nodes.openvswitch to true.",
			"The host is to bring its own Open vSwitch, and none runs.")}
	case f.HostOVS && f.Others.KeepsPorts && f.Gateway.NIC != "":
		return []Finding{warn("Let it remove transient ports at boot, as docs/agent.md#between-boot-and-agent says.",
			"The host's Open vSwitch keeps the uplink as a port at a boot: the node has no network before the agent starts.")}
	case f.HostOVS:
		return pass("the host's Open vSwitch runs")
	}
	return pass("no other Open vSwitch or OVN runs")
}
