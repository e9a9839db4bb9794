//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// representor is the port of br-int that a pod has.
func (s *smart) representor(t *testing.T, name string) string {
	t.Helper()
	id := "external_ids:iface-id=" + s.ns + "_" + name
	out := world.MustOnNode(t, smartNode, "ovs-vsctl", "--bare", "--columns=name", "find", "Interface", id)
	return strings.TrimSpace(out)
}

// talk is one command in a pod, because commands in pods are what takes the
// longest there. The first packets to an address wait for OVS.
const talk = `set -e
ip -d link show eth0
mtu=$(cat /sys/class/net/eth0/mtu)
for addr in "$@"; do
	case $addr in *:*) headers=48 target=[$addr]:8080 ;; *) headers=28 target=$addr:8080 ;; esac
	ping -c1 -w30 $addr >/dev/null
	ping -c1 -W5 -M do -s $((mtu - headers)) $addr | grep -o ttl=.. || exit 1
	if ping -c1 -W1 -M do -s $((mtu - headers + 1)) $addr; then exit 1; fi >/dev/null 2>&1
	tcp=$(probe dial tcp $target 300000 30) || exit 1
	udp=$(probe dial udp $target 1000 10) || exit 1
	echo from $tcp $udp
done`

// talks lets a pod reach others in each family: ping at the MTU, TCP, UDP. It is
// seen from its own address, and its eth0 is the device that is reported.
func (s *smart) talks(t *testing.T, name string, others ...string) {
	t.Helper()
	from := s.pods[name]
	command := []string{"sh", "-c", talk, "talk"}
	var ttls []string
	for _, other := range others {
		to := s.pods[other]
		for _, addr := range world.Addresses(to) {
			command = append(command, addr.String())
			ttls = append(ttls, map[bool]string{true: "ttl=64", false: "ttl=63"}[to.Spec.NodeName == from.Spec.NodeName])
		}
	}
	out, err := world.InPod(from.Namespace, name, command...)
	if err != nil {
		t.Errorf("%s to %v: %v: %s", name, others, err, out)
		return
	}
	status := s.status(t, "a report", func(v1alpha1.NodeOffloadStatus) bool { return true })
	_, link, _ := strings.Cut(out, "parentdev ")
	if device, _, _ := strings.Cut(link, " "); device != used(status)[name] || (device == "") != strings.Contains(out, "veth") {
		t.Errorf("%s is on %q, reported is %q: %s", name, device, used(status)[name], out)
	}
	var seen []string
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "ttl="):
			seen = append(seen, fields[0])
		case len(fields) == 3 && fields[0] == "from":
			for _, source := range fields[1:] {
				if addr, err := netip.ParseAddr(source); err != nil || !world.HasAddress(from, addr.Unmap()) {
					t.Errorf("%s was seen as %q", name, source)
				}
			}
		}
	}
	if !slices.Equal(seen, ttls) || strings.Count(out, "\nfrom ") != len(ttls) {
		t.Errorf("%s to %v: want %v: %s", name, others, ttls, out)
	}
}

// reach is the table of pods on a VF with the others, each way.
func (s *smart) reach(t *testing.T) {
	s.talks(t, "a", "b", "plain", "far")
	for _, other := range []string{"b", "plain", "far"} {
		s.talks(t, other, "a")
	}
}

// enough bytes to tell a stream from what else there is.
const enough = 100_000

// stream sends TCP from a to b until the agent's report of what a sends is as it
// should be. It also gives the bytes that came to a's representor meanwhile, for
// there software is.
func (s *smart) stream(t *testing.T, what string, ok func(offload.PortReport) bool) (port offload.PortReport, software uint64) {
	t.Helper()
	a, b, link, agent := s.pods["a"], s.pods["b"], s.representor(t, "a"), s.agent(t)
	before := s.received(t, link)
	world.MustInPod(t, b, "iperf3", "-s", "-D")
	const client = `iperf3 -c "$0" -t 600 -b 2M --connect-timeout 10000 </dev/null >/dev/null 2>&1 &`
	world.MustInPod(t, a, "sh", "-c", client, world.Addresses(b)[0].String())
	world.Eventually(t, smartWithin, what, func() (bool, string) {
		out, err := kubectl(t, "", "exec", "-n", system, agent, "-c", "ovn-offload-agent", "--", "sh", "-c", "exec ovn-offload-agent offload -o json 2>/dev/null")
		var report offload.Report
		if err == nil {
			err = json.Unmarshal([]byte(out), &report)
		}
		if at := slices.IndexFunc(report.Ports, func(p offload.PortReport) bool { return p.Name == link }); at >= 0 {
			port = report.Ports[at]
		}
		return err == nil && ok(port), fmt.Sprintf("%v: %s", err, out)
	})
	software = s.received(t, link) - before
	world.MustOnNode(t, smartNode, "pkill", "-x", "iperf3")
	t.Logf("%d of %d bytes in hardware, %d came to the representor", port.From.Hardware.Bytes, port.From.Sum().Bytes, software)
	return port, software
}

// received is how many bytes have come out of a link of the node.
func (s *smart) received(t *testing.T, link string) (bytes uint64) {
	t.Helper()
	text := world.MustOnNode(t, smartNode, "cat", "/sys/class/net/"+link+"/statistics/rx_bytes")
	if _, err := fmt.Sscan(text, &bytes); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return bytes
}

// agent is the pod of the node's.
func (s *smart) agent(t *testing.T) string {
	t.Helper()
	pods, err := cluster.client.CoreV1().Pods(system).List(t.Context(), metav1.ListOptions{
		LabelSelector: "app=ovnkube-node", FieldSelector: "spec.nodeName=" + smartNode,
	})
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("%d agents, %v", len(pods.Items), err)
	}
	return pods.Items[0].Name
}

// software is the control of hardware.
func (s *smart) software(t *testing.T) {
	port, software := s.stream(t, "a stream", func(p offload.PortReport) bool { return p.From.Sum().Bytes > enough })
	if port.From.Hardware.Bytes != 0 || software < enough {
		t.Errorf("%d bytes at the representor: %+v", software, port)
	}
	if len(port.Outside) == 0 || port.Outside[0].Reason != offload.ReasonOff {
		t.Errorf("the reason: %+v", port.Outside)
	}
}

// hardware: the policy asks for what the NIC is, and for the use of it.
func (s *smart) hardware(t *testing.T) {
	s.policy(t, "own", ownNIC, 4)
	s.wantPolicy(t, "own", ownNIC, v1alpha1.PolicyApplied, "")
	s.status(t, "offload on", func(n v1alpha1.NodeOffloadStatus) bool { return n.Offload == v1alpha1.OffloadOn })
	port, software := s.stream(t, "a stream in hardware", func(p offload.PortReport) bool {
		return p.From.Hardware.Bytes > enough && p.From.Hardware.Bytes >= p.From.Sum().Bytes/10*9
	})
	if software > port.From.Sum().Bytes/10 {
		t.Errorf("%d bytes at the representor: %+v", software, port)
	}
}
