//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/test/bench/vm"
)

// The node that is a VM.
const (
	smartNode   = "ovn-smartnic"
	smartLabel  = "ovn-offload.io/lab-vm"
	vfResource  = "ovn-offload.io/vf"
	smartWithin = 5 * time.Minute
)

// smart is the node with the SmartNIC, added to the lab that all tests share.
type smart struct {
	ns      string
	objects dynamic.Interface
	pods    map[string]*corev1.Pod // running, by name
}

// TestSmartNIC: a real kubelet, containerd and our agent on a node with a
// simulated SmartNIC, in one cluster with nodes that have none. The steps go on
// from each other.
func TestSmartNIC(t *testing.T) {
	if !*smartNIC {
		t.Skip("the node is slow: make e2e-smartnic")
	}
	start := time.Now()
	t.Cleanup(func() {
		console, err := os.ReadFile(filepath.Join(workdir(), "machines", smartNode, "log/console.log"))
		if err == nil {
			err = vm.Healthy(console)
		}
		if err != nil {
			t.Error(err)
		}
		if *keep && t.Failed() {
			return
		}
		if err := labCommand(t.Output(), "remove", smartNode); err != nil {
			t.Errorf("removing the node: %v", err)
		}
	})
	if err := labCommand(t.Output(), "up", "--families="+*families, "--vm-nodes=1"); err != nil {
		t.Fatalf("adding the node: %v", err)
	}
	t.Logf("the node was added in %s", time.Since(start).Round(time.Second))
	client, err := dynamic.NewForConfig(cluster.config)
	if err != nil {
		t.Fatal(err)
	}
	s := &smart{ns: namespace(t), objects: client, pods: map[string]*corev1.Pod{}}
	for _, step := range []struct {
		name string
		do   func(*testing.T)
	}{
		{"the kubelet has the VFs", func(t *testing.T) { s.wantAllocatable(t, 4) }},
		{"pods on VFs and on veths", s.start},
		{"they reach each other", s.reach},
	} {
		begin := time.Now()
		if !t.Run(step.name, step.do) {
			return
		}
		t.Logf("%s: %s", step.name, time.Since(begin).Round(time.Second))
	}
}

func (s *smart) wantAllocatable(t *testing.T, want int64) {
	t.Helper()
	eventually(t, smartWithin, fmt.Sprintf("%d %s allocatable", want, vfResource), func() (bool, string) {
		node, err := cluster.client.CoreV1().Nodes().Get(t.Context(), smartNode, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		got := node.Status.Allocatable[vfResource]
		return got.Value() == want, got.String()
	})
}

// status waits until the node's report is as it should be.
func (s *smart) status(t *testing.T, what string, ok func(v1alpha1.NodeOffloadStatus) bool) v1alpha1.NodeOffloadStatus {
	t.Helper()
	var report *v1alpha1.NodeOffload
	eventually(t, smartWithin, what, func() (bool, string) {
		u, err := s.objects.Resource(v1alpha1.NodeOffloads()).Get(t.Context(), smartNode, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		if report, err = v1alpha1.Decode[v1alpha1.NodeOffload](u); err != nil {
			return false, err.Error()
		}
		return ok(report.Status), fmt.Sprintf("%+v", report.Status)
	})
	return report.Status
}

// used gives the device of each pod, as the report has it.
func used(status v1alpha1.NodeOffloadStatus) map[string]string {
	devices := map[string]string{}
	for _, v := range status.UsedVFs {
		_, pod, _ := strings.Cut(v.Pod, "/")
		devices[pod] = v.Device
	}
	return devices
}

// vfPod is on the node that has VFs, by the scheduler's choice.
func (s *smart) vfPod(name string, vfs string) *corev1.Pod {
	pod := podObject(s.ns, name, "")
	pod.Spec.NodeSelector = map[string]string{smartLabel: ""}
	pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{vfResource: resource.MustParse(vfs)}
	return pod
}

// started makes pods at once and waits until all run.
func (s *smart) started(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	begin := time.Now()
	for _, pod := range pods {
		create(t, pod)
	}
	for _, pod := range pods {
		s.pods[pod.Name] = waitPodWithin(t, smartWithin, s.ns+"/"+pod.Name, "Running", isRunning)
		t.Logf("pod %s runs after %s", pod.Name, time.Since(begin).Round(100*time.Millisecond))
	}
}

// representor is the port of br-int that a pod has.
func (s *smart) representor(t *testing.T, name string) string {
	t.Helper()
	id := "external_ids:iface-id=" + s.ns + "_" + name
	out := mustOnNode(t, smartNode, "ovs-vsctl", "--bare", "--columns=name", "find", "Interface", id)
	return strings.TrimSpace(out)
}

func (s *smart) start(t *testing.T) {
	s.started(t, s.vfPod("a", "1"), s.vfPod("b", "1"), podObject(s.ns, "plain", smartNode), podObject(s.ns, "far", nodes[1]))
	status := s.status(t, "two VFs used", func(n v1alpha1.NodeOffloadStatus) bool { return n.VFs.Used == 2 })
	if status.VFs.Free != 2 || status.Offload != v1alpha1.OffloadOff {
		t.Errorf("%+v", status)
	}
	devices := used(status)
	if devices["a"] == devices["b"] || devices["a"] == "" || devices["b"] == "" {
		t.Errorf("devices %v", devices)
	}
	for _, name := range []string{"a", "b", "plain"} {
		port := s.representor(t, name)
		link, err := onNode(smartNode, "cat", "/sys/class/net/"+port+"/phys_port_name")
		if isVF := strings.HasPrefix(link, "pf0vf"); isVF != (devices[name] != "") || port == "" {
			t.Errorf("the port %q of %s has phys_port_name %q, %v", port, name, link, err)
		}
	}
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
		for _, addr := range addresses(t, to) {
			command = append(command, addr.String())
			ttls = append(ttls, map[bool]string{true: "ttl=64", false: "ttl=63"}[to.Spec.NodeName == from.Spec.NodeName])
		}
	}
	out, err := inPod(from.Namespace, name, command...)
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
				if addr, err := netip.ParseAddr(source); err != nil || !hasAddress(t, from, addr.Unmap()) {
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
