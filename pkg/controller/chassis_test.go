package controller

import (
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/ovsdbtest"
)

// southbound has of the real schema what a chassis needs here.
const southbound = `{"name": "OVN_Southbound", "version": "1.0.0", "tables": {
	"Chassis": {"isRoot": true, "columns": {"name": {"type": "string"}}},
	"Chassis_Private": {"isRoot": true, "columns": {"name": {"type": "string"}}}}}`

func TestChassis_OfDeletedNodeIsRemoved(t *testing.T) {
	sb := ovsdbtest.Start(t, []byte(southbound))
	for _, name := range []string{"chassis-n1", "chassis-n2", "foreign"} {
		sb.Transact(`{"op":"insert","table":"Chassis","row":{"name":"` + name + `"}},{"op":"insert","table":"Chassis_Private","row":{"name":"` + name + `"}}`)
	}
	chassis := func() string {
		return strings.Join(strings.Fields(sb.Dump("Chassis", "name")+sb.Dump("Chassis_Private", "name")), " ")
	}
	w := newWorld(t, testNode("n1"), testNode("n2"))
	w.stop()
	w.southbound = []string{sb.Endpoint()}
	w.start()
	gateways := func() string { return w.server.Dump("Gateway_Chassis", "chassis_name") }
	w.eventually("both nodes' rows", func() bool { return strings.Count(gateways(), "chassis-n") == 2 })
	if got, want := chassis(), "chassis-n1 chassis-n2 foreign chassis-n1 chassis-n2 foreign"; got != want {
		t.Fatalf("chassis of nodes that are there: %s, want %s", got, want)
	}
	// The Southbound database is down when the node is deleted: the node's rows stay until the database is up.
	sb.Kill()
	nodes := w.client.CoreV1().Nodes()
	if err := nodes.Delete(t.Context(), "n1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the refusal", func() bool { return strings.Contains(w.logs.String(), "chassis of Node/n1: removing") })
	if !strings.Contains(gateways(), "chassis-n1") {
		t.Error("the rows of the node went before its chassis")
	}
	sb.Restart()
	w.eventually("the chassis is gone", func() bool { return chassis() == "chassis-n2 foreign chassis-n2 foreign" })
	w.eventually("the rows are gone", func() bool { return !strings.Contains(gateways(), "chassis-n1") })

	reinstalled, err := nodes.Get(t.Context(), "n2", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	reinstalled.Annotations[contract.NodeChassisIDKey] = "chassis-new"
	if _, err := nodes.Update(t.Context(), reinstalled, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the old chassis is gone", func() bool { return chassis() == "foreign foreign" })
}

// TestChassis_SilentSouthboundHoldsUpNoPod: it takes connections and does not answer,
// at endpoints whose time-outs are longer together than the test waits.
func TestChassis_SilentSouthboundHoldsUpNoPod(t *testing.T) {
	silent, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	w := newWorld(t, testNode("n1"), testNode("n2"))
	w.stop()
	for range 10 {
		w.southbound = append(w.southbound, "unix:"+silent.Addr().String())
	}
	w.startAndLead()
	gateways := func() string { return w.server.Dump("Gateway_Chassis", "chassis_name") }
	w.eventually("both nodes' rows", func() bool { return strings.Count(gateways(), "chassis-n") == 2 })
	if err := w.client.CoreV1().Nodes().Delete(t.Context(), "n2", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	asked, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer asked.Close()
	if err := createPod(t, w, "a"); err != nil {
		t.Fatal(err)
	}
	w.eventually("a port", func() bool { return slices.Equal(w.ports(), []string{"d_a"}) })
	if !strings.Contains(gateways(), "chassis-n2") {
		t.Error("the rows of the node went before its chassis")
	}
}

// TestChassis_OfAnotherNodeIsRefused: a node that claims the chassis of another node, older or not, after a restart too,
// changes no rows of that node and gets an Event. When the other node is deleted, the chassis is free.
func TestChassis_OfAnotherNodeIsRefused(t *testing.T) {
	first, forger := gatewayNode("n2", 2), gatewayNode("n1", 1) // by name and age, the forger is first
	w := newWorld(t, first, testPod("a", "n2"))
	mine := func() []string {
		return slices.DeleteFunc(w.rows(), func(row string) bool {
			return !strings.Contains(row, "chassis-n2") && !strings.Contains(row, "rtoe-GR_n2")
		})
	}
	w.eventually("the first one's rows", func() bool { return len(w.ports()) == 1 && w.hasRow("Logical_Router ", "chassis=chassis-n2") })
	w.eventually("rest", w.settled)
	before := mine()
	claim := func(id string) {
		forger.Annotations[contract.NodeChassisIDKey] = id
		if _, err := w.client.CoreV1().Nodes().Update(t.Context(), forger, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.client.CoreV1().Nodes().Create(t.Context(), forger, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the other one's rows", func() bool { return w.hasRow("Logical_Router ", "chassis=chassis-n1") })
	got, err := w.client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	forger = got
	claim("chassis-n2")
	refused := func() bool { return !w.hasRow("Logical_Router ", "GR_n1") && w.hasRow("Logical_Switch ", "name=n1") }
	w.eventually("no gateway of the forger", refused)
	w.eventually("an Event", func() bool { return w.hasEventOf("ChassisTaken", "n1", "chassis id chassis-n2 is that of node n2") })
	w.stop()
	w.startAndLead()
	w.eventually("rest", w.settled)
	if after := mine(); !refused() || !slices.Equal(before, after) {
		t.Errorf("rows of the node before:\n%s\nafter:\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
	if err := w.client.CoreV1().Pods("d").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := w.client.CoreV1().Nodes().Delete(t.Context(), "n2", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the chassis is free", func() bool { return w.hasRow("Logical_Router ", "GR_n1", "chassis=chassis-n2") })
}

// hasEventOf says that an object has an Event with a text.
func (w *world) hasEventOf(reason, name, text string) bool {
	list, err := w.client.EventsV1().Events("").List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
		return e.Reason == reason && e.Regarding.Name == name && strings.Contains(e.Note, text)
	})
}

// TestPod_OnNodeWithoutSubnetGetsEvent: the Event of the pod has the node's error, and a pod on another node has none.
func TestPod_OnNodeWithoutSubnetGetsEvent(t *testing.T) {
	full, fine := testNode("n1"), testNode("n2")
	w := emptyWorld(t)
	w.cluster = "10.244.0.0/24/24"
	w.start()
	for _, node := range []string{"n2", "n1"} {
		object := fine
		if node == "n1" {
			object = full
		}
		if _, err := w.client.CoreV1().Nodes().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.eventually("a condition", func() bool {
			n, err := w.client.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
			return err == nil && len(n.Status.Conditions) > 0
		})
	}
	for name, node := range map[string]string{"without": "n1", "with": "n2"} {
		if _, err := w.client.CoreV1().Pods("d").Create(t.Context(), testPod(name, node), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w.eventually("the other pod's port", func() bool { return len(w.ports()) == 1 })
	w.eventually("an Event of the pod", func() bool {
		list, err := w.client.EventsV1().Events("d").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false
		}
		found := false
		for _, event := range list.Items {
			if event.Regarding.Name == "with" {
				t.Fatalf("Event for the pod with a network: %s", event.Note)
			}
			found = found || event.Regarding.Name == "without" && event.Reason == "NodeHasNoSubnet" && strings.Contains(event.Note, "no subnet left")
		}
		return found
	})
}

// TestNode_SubnetIsFreeWithoutRows: the subnet of a deleted node goes to a node that waits for one, after the deleted
// node's rows are gone.
func TestNode_SubnetIsFreeWithoutRows(t *testing.T) {
	w := emptyWorld(t, testNode("n1"))
	w.cluster = "10.244.0.0/24/24"
	w.startAndLead()
	switches := func() string { return strings.Join(strings.Fields(w.server.Dump("Logical_Switch", "name")), " ") }
	w.eventually("the first node's switch", func() bool { return strings.Contains(switches(), "n1") })
	if _, err := w.client.CoreV1().Nodes().Create(t.Context(), testNode("n2"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	exhausted := func() bool {
		n, err := w.client.CoreV1().Nodes().Get(t.Context(), "n2", metav1.GetOptions{})
		return err == nil && len(n.Status.Conditions) > 0 && n.Status.Conditions[0].Reason == reasonExhausted
	}
	w.eventually("a node without a subnet", exhausted)
	if err := w.client.CoreV1().Nodes().Delete(t.Context(), "n1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the second node's switch", func() bool { return strings.Contains(switches(), "n2") && !strings.Contains(switches(), "n1") })
	w.eventually("no condition", func() bool { return !exhausted() })
}
