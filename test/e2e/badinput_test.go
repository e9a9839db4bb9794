//go:build e2e

package e2e

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// TestPod_SpoofedSourceIsDropped: port security drops packets whose source the pod does not
// own; the same packet with the pod's own source passes.
func TestPod_SpoofedSourceIsDropped(t *testing.T) {
	world.Test(t, world.Node, world.Core, world.Strict)
	ns := world.Namespace(t)
	pods := world.Run(t, world.Pod(ns, "spoofer", nodes[1]), world.Pod(ns, "victim", nodes[1]))
	spoofer, target := pods[0], world.Addresses(pods[1])[0].String()
	world.MustInPod(t, spoofer, "ping", "-c1", "-w5", target)
	world.MustInPod(t, spoofer, "ip", "address", "add", "10.244.250.250/32", "dev", "eth0")
	world.FromPod(spoofer).PingsFail(t, []string{"-I", "10.244.250.250", target}, []string{"-I", world.Addresses(spoofer)[0].String(), target})
	world.MustInPod(t, spoofer, "ip", "address", "delete", "10.244.250.250/32", "dev", "eth0")
	world.MustInPod(t, spoofer, "ping", "-c1", "-w5", target)
}

// TestPod_WaitsForFlows is the control of TestPod_FirstConnectionSucceeds: without flows a pod does
// not start, the error names the stage that is late, and with them it does.
func TestPod_WaitsForFlows(t *testing.T) {
	world.Test(t, world.Node, world.Disruptive)
	tier.Full(t, "it waits a minute for the time-out of an ADD")
	ns := world.Namespace(t)
	server := world.Run(t, world.Pod(ns, "server", nodes[2]))[0]
	signal := func(name string) { world.MustOnNode(t, nodes[1], "pkill", "-"+name, "-x", "ovn-controller") }
	signal("STOP")
	stopped := true
	defer func() {
		if stopped {
			signal("CONT")
		}
	}()
	target := netip.AddrPortFrom(world.Addresses(server)[0], world.EchoPort).String()
	world.Create(t, world.Pod(ns, "late", nodes[1], world.Command("probe", "dial", "tcp", target)))
	world.Eventually(t, 90*time.Second, "an Event names the stage", func() (bool, string) {
		events, err := cluster.client.CoreV1().Events(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		seen := ""
		for _, event := range events.Items {
			if event.InvolvedObject.Name == "late" {
				seen += event.Message + "; "
			}
		}
		return strings.Contains(seen, "ovn-installed"), seen
	})
	signal("CONT")
	stopped = false
	world.WaitPod(t, ns, "late", "Succeeded", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded })
}

// TestNorthbound_HungDelaysNewPodsOnly: while the Northbound database hangs, running pods
// go on and a new pod waits; it runs when the database answers again.
func TestNorthbound_HungDelaysNewPodsOnly(t *testing.T) {
	world.Test(t, world.Node, world.Core, world.Disruptive)
	ns := world.Namespace(t)
	began := time.Now()
	pods := world.Run(t, world.Pod(ns, "from", nodes[1]), world.Pod(ns, "to", nodes[2]))
	took := time.Since(began) // what a pod needs with a database, as busy as the machine is
	from, target := pods[0], world.Endpoints(pods[1])[0].String()
	signal := func(name string) {
		world.MustOnNode(t, nodes[0], "sh", "-c", "pkill -"+name+" -f '[o]vsdb-server --config-file=/run/ovn/ovnnb'")
	}
	signal("STOP")
	resumed := false
	defer func() {
		if !resumed {
			signal("CONT")
		}
	}()
	world.Create(t, world.Pod(ns, "late", nodes[1]))
	world.MustInPod(t, from, "probe", "dial", "tcp", target)
	world.WaitPod(t, ns, "late", "annotated",
		func(pod *corev1.Pod) bool { return pod.Annotations[contract.PodNetworksKey] != "" })
	time.Sleep(max(2*time.Second, 2*took))
	late, err := cluster.client.CoreV1().Pods(ns).Get(t.Context(), "late", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if late.Status.Phase != corev1.PodPending {
		t.Errorf("the pod is %s with no database to put its port into", late.Status.Phase)
	}
	signal("CONT")
	resumed = true
	world.WaitPod(t, ns, "late", "Running", world.IsRunning)
	world.MustInPod(t, from, "probe", "dial", "tcp", target)
}
