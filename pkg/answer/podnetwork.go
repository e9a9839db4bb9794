package answer

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// interfacesOf are a pod's networks as the controller wrote them, and whether it has their interfaces.
func interfacesOf(pod *corev1.Pod) []PodInterface {
	networks := podNetworks(pod.Annotations[contract.PodNetworksKey])
	absent := absentOf(pod)
	var out []PodInterface
	for _, name := range slices.Sorted(maps.Keys(networks)) {
		n := networks[name]
		i := PodInterface{Network: name, MAC: n.MAC.String(), Absent: absent[name]}
		for _, a := range n.Addresses {
			i.Addresses = append(i.Addresses, a.String())
		}
		out = append(out, i)
	}
	return out
}

// row has the cells of a network.
func (i PodInterface) row() []string {
	row := []string{i.Network, strings.Join(i.Addresses, " "), i.MAC}
	if i.Absent {
		row = append(row, "no such interface")
	}
	return row
}

// absentOf are the networks, by their keys, that a running pod asks for and that its network-status does not have: whoever makes such
// interfaces writes it, the agent or Multus.
func absentOf(pod *corev1.Pod) map[string]bool {
	attachments, err := contract.Attachments(pod)
	if err != nil || pod.Status.Phase != corev1.PodRunning { // an Event names what is wrong
		return nil
	}
	var made []struct {
		Name string `json:"name"`
	}
	_ = json.Unmarshal([]byte(pod.Annotations[contract.NetworkStatusKey]), &made) // without one there are no interfaces
	count := map[string]int{}
	for _, m := range made {
		count[m.Name]++
	}
	absent := map[string]bool{}
	for _, a := range attachments {
		absent[a.Key()] = a.Index >= count[a.NAD]
	}
	return absent
}

// networkProblems are those of the pod's own interfaces: it waits for its address, or has no interface on a network that it asks for.
func (e *PodExplained) networkProblems(f *facts, events []Problem) (out []Problem) {
	of := Problem{Severity: SeverityDegraded, Objects: []string{"pod/" + e.Pod}}
	if e.Waits = e.waits(f, events); e.Waits != "" {
		of.Message, of.See = e.Waits, "cni-101"
		if strings.Contains(e.Waits, noLeader) {
			of.See = "control-plane-down"
		}
		out = append(out, of)
	}
	for _, i := range e.Networks {
		if i.Absent {
			of.See, of.Message = "networks", fmt.Sprintf("it has no interface on network %s: neither networks.native nor Multus has made one", i.Network)
			out = append(out, of)
		}
	}
	return out
}

// noLeader is why nothing gets an address.
const noLeader = "no controller leads"

// waits says why a pod that has a node has no address on the network yet; "": it has one, needs none, or has ended.
func (e *PodExplained) waits(f *facts, events []Problem) string {
	if e.HostNetwork || e.Node == "" || len(e.Networks) > 0 || e.Phase != string(corev1.PodPending) {
		return ""
	}
	const waits = "it waits for its address: "
	lease, ok := f.leases[f.namespace+"/"+leaderLease]
	switch since := f.expired(lease); {
	case ok && since > 0:
		return waits + noLeader + ", the Lease has ended " + age(since) + " ago"
	case len(events) > 0:
		return waits + events[0].Message
	case !ok:
		return waits + "nothing is known of the controller"
	}
	return waits + "the controller has not given it one, and has no Event that says why"
}
