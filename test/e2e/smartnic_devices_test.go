//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// policy makes an OffloadPolicy for one of the node's NICs, or changes it.
func (s *smart) policy(t *testing.T, name, nic string, vfs int) {
	t.Helper()
	text := fmt.Sprintf(`{"apiVersion": %q, "kind": "OffloadPolicy", "metadata": {"name": %q}, "spec": {
		"nodeSelector": {"matchLabels": {%q: ""}}, "pfSelector": {"pciAddresses": [%q]}, "numVFs": %d}}`, v1alpha1.Version, name, smartLabel, nic, vfs)
	if out, err := kubectl(t, text, "apply", "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// wantPolicy waits for what becomes of a policy on a NIC.
func (s *smart) wantPolicy(t *testing.T, name, nic string, state v1alpha1.PolicyState, message string) {
	t.Helper()
	s.status(t, fmt.Sprintf("%s %s on %s", name, state, nic), func(n v1alpha1.NodeOffloadStatus) bool {
		return slices.ContainsFunc(n.Policies, func(r v1alpha1.PolicyResult) bool {
			return r.Policy == name && r.Device == nic && r.State == state && strings.Contains(r.Message, message)
		})
	})
}

func (s *smart) tooMany(t *testing.T) {
	world.Create(t, s.vfPod("many", "3")) // two are left
	world.WaitPodWithin(t, smartWithin, s.ns+"/many", "Pending for want of VFs", func(pod *corev1.Pod) bool {
		return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && strings.Contains(c.Message, "Insufficient "+vfResource)
		})
	})
	s.deleted(t, "many")
}

func (s *smart) refused(t *testing.T) {
	s.policy(t, "own", ownNIC, 2)
	s.wantPolicy(t, "own", ownNIC, v1alpha1.PolicyDrainNeeded, "pod "+s.ns+"/")
	s.policy(t, "own", ownNIC, 4)
	s.wantPolicy(t, "own", ownNIC, v1alpha1.PolicyApplied, "")
}

// deleted does not wait: the API forgets pods without a grace period at once.
func (s *smart) deleted(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := cluster.client.CoreV1().Pods(s.ns).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		delete(s.pods, name)
	}
}

// killed: what kubelet and agent have in memory is not needed to give each VF once,
// and the next pod gets a VF whose DEL has not come.
func (s *smart) killed(t *testing.T) {
	restart(t, "kubelet@"+smartNode)
	restart(t, "agent@"+smartNode)
	s.started(t, s.vfPod("c", "1"))
	restart(t, "agent@"+smartNode)
	s.deleted(t, "b")
	restart(t, "kubelet@"+smartNode)
	s.started(t, s.vfPod("d", "1"), s.vfPod("e", "1"))
	status := s.status(t, "four VFs used", func(n v1alpha1.NodeOffloadStatus) bool { return n.VFs.Used == 4 })
	owner := map[string]string{}
	for name, device := range used(status) {
		if owner[device] != "" || s.pods[name] == nil {
			t.Errorf("%s belongs to %q and %q", device, owner[device], name)
		}
		owner[device] = name
	}
	s.talks(t, "a", "c", "d", "e")
	s.talks(t, "d", "far")
	s.talks(t, "e", "far")
}

// detached: VFs are free when their pods are gone, with the DELs of the kubelet and without.
func (s *smart) detached(t *testing.T) {
	s.deleted(t, "a", "c")
	s.wantFree(t, 2)
	restart(t, "agent@"+smartNode)
	s.deleted(t, "d", "e")
	restart(t, "kubelet@"+smartNode)
	s.wantFree(t, 4)
	netdevs := world.MustOnNode(t, smartNode, "sh", "-c",
		"for vf in /sys/bus/pci/devices/"+ownNIC+"/virtfn*; do ls $vf/net; done")
	if n := len(strings.Fields(netdevs)); n != 4 {
		t.Errorf("detached VFs: %s", netdevs)
	}
}

func (s *smart) wantFree(t *testing.T, free int) {
	t.Helper()
	begin := time.Now()
	s.status(t, fmt.Sprintf("%d VFs free", free), func(n v1alpha1.NodeOffloadStatus) bool {
		return n.VFs.Free == free && n.VFs.Used == 4-free && len(n.UsedVFs) == 4-free
	})
	t.Logf("%d VFs are free after %s", free, time.Since(begin).Round(100*time.Millisecond))
}

// bare: a policy makes VFs on the NIC without VFs, and the kubelet counts them. Without the policies the former state is
// restored.
func (s *smart) bare(t *testing.T) {
	isBare := func(n v1alpha1.NodeOffloadStatus) bool {
		d := n.Devices[1]
		return d.Name == bareNIC && d.Mode == "legacy" && d.VFs.Total == 0 && d.HWTCOffload == "off"
	}
	s.status(t, "a bare NIC", isBare)
	s.policy(t, "bare", bareNIC, 2)
	s.wantPolicy(t, "bare", bareNIC, v1alpha1.PolicyApplied, "")
	s.status(t, "a NIC with VFs", func(n v1alpha1.NodeOffloadStatus) bool {
		d := n.Devices[1]
		return d.Name == bareNIC && d.Mode == "switchdev" && d.VFs.Free == 2 && d.HWTCOffload == "on"
	})
	if out := world.MustOnNode(t, smartNode, "devlink", "dev", "eswitch", "show", "pci/"+bareNIC); !strings.Contains(out,
		"switchdev") {
		t.Error(out)
	}
	s.wantDevices(t, 6, 4) // its cable is not plugged in
	for _, name := range []string{"bare", "own"} {
		if err := s.objects.Resource(v1alpha1.OffloadPolicies()).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s.status(t, "the NIC bare again, and offload off", func(n v1alpha1.NodeOffloadStatus) bool {
		return isBare(n) && len(n.Policies) == 0 && n.Offload == v1alpha1.OffloadOff
	})
	s.wantDevices(t, 4, 4)
	if out := world.MustOnNode(t, smartNode, "ovs-vsctl", "--if-exists", "get", "Open_vSwitch", ".",
		"other_config:hw-offload"); strings.Contains(out, "true") {
		t.Errorf("hw-offload of OVS is %s", out)
	}
}
