//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/test/bench/vm"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// The node in a VM, with its NIC of four VFs, and a NIC without any set-up.
const (
	smartNode   = "ovn-smartnic"
	smartLabel  = "lab.test/vm"
	ownNIC      = "0000:01:00.0"
	bareNIC     = "0000:02:00.0"
	vfResource  = "ovn-offload.io/vf"
	smartWithin = 10 * time.Minute
)

// smart is the node with the SmartNIC, added to the lab that all tests share.
type smart struct {
	ns      string
	objects dynamic.Interface
	pods    map[string]*corev1.Pod // running, by name
}

// TestSmartNIC_KubeletGivesVFsToPods: a real kubelet, containerd and our agent on a node with a
// simulated SmartNIC, in one cluster with nodes that have none. The steps go on
// from each other.
func TestSmartNIC_KubeletGivesVFsToPods(t *testing.T) {
	world.Test(t, world.Node, world.Disruptive)
	if !*smartNIC {
		t.Skip("the node is slow: make e2e-smartnic")
	}
	start := time.Now()
	t.Cleanup(func() {
		console, err := os.ReadFile(filepath.Join(theLab().Workdir(), "machines", smartNode, "log/console.log"))
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
	if err := labUp(t.Output(), "--vm-nodes=1"); err != nil {
		t.Fatalf("adding the node: %v", err)
	}
	t.Logf("the node was added in %s", time.Since(start).Round(time.Second))
	client, err := dynamic.NewForConfig(cluster.config)
	if err != nil {
		t.Fatal(err)
	}
	s := &smart{ns: world.Namespace(t), objects: client, pods: map[string]*corev1.Pod{}}
	for _, step := range []struct {
		name string
		do   func(*testing.T)
	}{
		{"the kubelet has the VFs", func(t *testing.T) { s.wantDevices(t, 4, 4) }},
		{"pods on VFs and on veths", s.start},
		{"they reach each other", s.reach},
		{"nothing is in hardware before there is a policy", s.software},
		{"the plugin says so", s.pluginSaysSoftware},
		{"with a policy it is", s.hardware},
		{"the plugin says that, too", s.pluginSaysHardware},
		{"lint", s.lints},
		{"a pod for which too few VFs are left", s.tooMany},
		{"a policy does not take VFs from pods", s.refused},
		{"kubelet and agent are killed", s.killed},
		{"VFs are detached", s.detached},
		{"a bare NIC, there and back", s.bare},
		{"the node gets another role and back", s.role},
		{"the chart is removed and installed again", s.removed},
	} {
		begin := time.Now()
		if !t.Run(step.name, step.do) {
			return
		}
		t.Logf("%s: %s", step.name, time.Since(begin).Round(time.Second))
	}
}

// wantDevices waits until the kubelet counts so many VFs, and so many of them for pods.
func (s *smart) wantDevices(t *testing.T, all, healthy int64) {
	t.Helper()
	world.Eventually(t, smartWithin, fmt.Sprintf("%d %s, %d of them allocatable", all, vfResource, healthy),
		func() (bool, string) {
			node, err := cluster.client.CoreV1().Nodes().Get(t.Context(), smartNode, metav1.GetOptions{})
			if err != nil {
				return false, err.Error()
			}
			capacity, allocatable := node.Status.Capacity[vfResource], node.Status.Allocatable[vfResource]
			return capacity.Value() == all && allocatable.Value() == healthy, capacity.String() + " " + allocatable.String()
		})
}

// status waits until the node's report is as it should be.
func (s *smart) status(t *testing.T, what string, ok func(v1alpha1.NodeOffloadStatus) bool) v1alpha1.NodeOffloadStatus {
	t.Helper()
	var report *v1alpha1.NodeOffload
	world.Eventually(t, smartWithin, what, func() (bool, string) {
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
	pod := world.Pod(s.ns, name, "")
	pod.Spec.NodeSelector = map[string]string{smartLabel: ""}
	pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{vfResource: resource.MustParse(vfs)}
	return pod
}

// started makes pods at once and waits until all run.
func (s *smart) started(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	begin := time.Now()
	for _, pod := range pods {
		world.Create(t, pod)
	}
	for _, pod := range pods {
		s.pods[pod.Name] = world.WaitPodWithin(t, smartWithin, s.ns+"/"+pod.Name, "Running", world.IsRunning)
		t.Logf("pod %s runs after %s", pod.Name, time.Since(begin).Round(100*time.Millisecond))
	}
}

func (s *smart) start(t *testing.T) {
	s.started(t, s.vfPod("a", "1"), s.vfPod("b", "1"), world.Pod(s.ns, "plain", smartNode), world.Pod(s.ns, "far", nodes[1]))
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
		link, err := world.OnNode(smartNode, "cat", "/sys/class/net/"+port+"/phys_port_name")
		if isVF := strings.HasPrefix(link, "pf0vf"); isVF != (devices[name] != "") || port == "" {
			t.Errorf("the port %q of %s has phys_port_name %q, %v", port, name, link, err)
		}
	}
}
