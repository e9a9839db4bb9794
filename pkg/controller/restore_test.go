package controller

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// TestRestore_BackupIsBroughtUpToDate: from an older copy of the database the controller
// makes what a fresh one would make, however and whenever it is put back.
func TestRestore_BackupIsBroughtUpToDate(t *testing.T) {
	for name, restore := range map[string]func(*testing.T, *world, []byte){
		"file":        func(_ *testing.T, w *world, backup []byte) { w.server.Replace(backup) },
		"transaction": func(_ *testing.T, w *world, backup []byte) { w.server.Restore(backup) },
		"no leader": func(t *testing.T, w *world, backup []byte) {
			w.stop()
			w.server.Replace(backup)
			if got := w.ports(); !slices.Equal(got, []string{"d_again", "d_gone", "d_stays"}) {
				t.Fatalf("the backup has the ports %v", got)
			}
			w.startAndLead()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, gatewayNode("n1", 2), gatewayNode("n2", 3), testPod("stays", "n1"), testPod("gone", "n1"), testPod("again", "n2"),
				testService("web", "10.96.0.10"), testSlice("web", "n1"), denyAll("d", "old"))
			w.eventually("all of it", func() bool {
				return len(w.ports()) == 3 && w.has("10.244.1.10:8080") && w.has("172.18.0.3") && w.hasRow("Port_Group", "Pod/d/again")
			})
			backup := w.server.Backup()
			w.grow()
			w.eventually("the changes", func() bool {
				return slices.Equal(w.ports(), []string{"d_again", "d_new", "d_stays"}) && w.has("172.18.0.4")
			})
			restore(t, w, backup)
			w.endsAs(newWorld(t, w.objects()...))
			if got := w.ports(); !slices.Equal(got, []string{"d_again", "d_new", "d_stays"}) || !w.has("10.96.0.10:81") {
				t.Errorf("ports %v, services:\n%s", got, strings.Join(w.balancers(), "\n"))
			}
		})
	}
}

// grow changes something of each kind: another node, pods that come, go and are
// made again, another port of the service, another policy.
func (w *world) grow() {
	ctx, core := w.t.Context(), w.client.CoreV1()
	do := func(_ any, err error) {
		w.t.Helper()
		if err != nil {
			w.t.Fatal(err)
		}
	}
	do(core.Nodes().Create(ctx, gatewayNode("n3", 4), metav1.CreateOptions{}))
	do(nil, core.Pods("d").Delete(ctx, "gone", metav1.DeleteOptions{}))
	do(nil, core.Pods("d").Delete(ctx, "again", metav1.DeleteOptions{}))
	do(nil, core.Nodes().Delete(ctx, "n2", metav1.DeleteOptions{}))
	again := testPod("again", "n3")
	again.UID = "again-2"
	do(core.Pods("d").Create(ctx, again, metav1.CreateOptions{}))
	do(core.Pods("d").Create(ctx, testPod("new", "n1"), metav1.CreateOptions{}))
	service := testService("web", "10.96.0.10")
	service.Spec.Ports[0].Port = 81
	do(core.Services("d").Update(ctx, service, metav1.UpdateOptions{}))
	do(nil, w.client.NetworkingV1().NetworkPolicies("d").Delete(ctx, "old", metav1.DeleteOptions{}))
	do(w.client.NetworkingV1().NetworkPolicies("d").Create(ctx, denyAll("d", "new"), metav1.CreateOptions{}))
}

func (w *world) annotation(pod string) string {
	w.t.Helper()
	object, err := w.client.CoreV1().Pods("d").Get(w.t.Context(), pod, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return object.Annotations[contract.PodNetworksKey]
}

// replaced lists the pods that have an Event about their annotation.
func (w *world) replaced() (pods []string) {
	list, err := w.client.EventsV1().Events("d").List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, event := range list.Items {
		if event.Reason == "AnnotationReplaced" {
			pods = append(pods, event.Regarding.Name)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(pods)))
}

// TestRestore_RunningPodKeepsItsAddress: a leader that starts with an older copy of the
// database does not take it for that of a pod which is long gone.
func TestRestore_RunningPodKeepsItsAddress(t *testing.T) {
	w := newWorld(t, testNode("n1"), testPod("gone", "n1"))
	w.eventually("a port", func() bool { return len(w.ports()) == 1 })
	backup, network := w.server.Backup(), w.annotation("gone")
	if err := w.client.CoreV1().Pods("d").Delete(t.Context(), "gone", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("no port", func() bool { return len(w.ports()) == 0 })
	if err := createPod(t, w, "later"); err != nil { // with its port, what went before it is done
		t.Fatal(err)
	}
	w.eventually("the other's port", func() bool { return len(w.ports()) == 1 })
	runs := testPod("runs", "n1")
	runs.Annotations = map[string]string{contract.PodNetworksKey: network}
	runs.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.244.0.4"}}}
	if _, err := w.client.CoreV1().Pods("d").Create(t.Context(), runs, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("both ports", func() bool { return slices.Equal(w.ports(), []string{"d_later", "d_runs"}) })
	w.stop()
	w.server.Replace(backup)
	w.startAndLead()
	w.eventually("both ports again", func() bool { return slices.Equal(w.ports(), []string{"d_later", "d_runs"}) })
	if got := w.annotation("runs"); got != network || !strings.Contains(network, "10.244.0.4/24") || len(w.replaced()) > 0 {
		t.Errorf("the pod that runs with\n%s\nhas\n%s\nEvents of %v", network, got, w.replaced())
	}
}

// TestRestore_ConflictingRowIsDeletedDespiteGuard: where so much of a backup is gone that the
// pass is stopped, the row with the address of a pod that runs goes all the same.
func TestRestore_ConflictingRowIsDeletedDespiteGuard(t *testing.T) {
	w := fortyPods(t)
	runs := testPod("runs", "n1")
	runs.Annotations = map[string]string{contract.PodNetworksKey: w.annotation("p7")}
	network, err := contract.ParsePodNetwork(runs.Annotations[contract.PodNetworksKey], contract.DefaultNetwork)
	if err != nil {
		t.Fatal(err)
	}
	runs.Status.PodIPs = []corev1.PodIP{{IP: network.Addresses[0].Addr().String()}}
	w.loseForty()
	if _, err := w.client.CoreV1().Pods("d").Create(t.Context(), runs, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.eventually("the guard's log message", func() bool { return strings.Contains(w.logs.String(), "mass-delete guard") })
	w.eventually("it makes way", func() bool { return slices.Contains(w.ports(), "d_runs") && !slices.Contains(w.ports(), "d_p7") })
	if got := len(w.ports()); got != 40 {
		t.Errorf("%d ports, want the other 39 and the new one", got)
	}
}

// TestLeader_LateAnnotationOfFormerLeaderIsNoticed: a leader does not know of what the one before
// it was just writing, and gives the address to another pod. That is noticed when
// it comes, whether the pod has had its turn or not: one of them has another address,
// in no row are both, and an Event tells.
func TestLeader_LateAnnotationOfFormerLeaderIsNoticed(t *testing.T) {
	w := newWorld(t, testNode("n1"), testPod("first", "n1"), testPod("second", "n1"))
	w.eventually("two ports", func() bool { return len(w.ports()) == 2 })
	first, second := w.annotation("first"), w.annotation("second")
	rows := w.server.Dump("Logical_Switch_Port", "name", "addresses")
	late := strings.ReplaceAll(second, `"`, `\"`)
	patch := []byte(`{"metadata":{"annotations":{"` + contract.PodNetworksKey + `":"` + late + `"}}}`)
	if _, err := w.client.CoreV1().Pods("d").Patch(t.Context(), "first", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	third := testPod("third", "n1")
	third.Annotations = map[string]string{contract.PodNetworksKey: second}
	if _, err := w.client.CoreV1().Pods("d").Create(t.Context(), third, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("Events of both", func() bool { return slices.Equal(w.replaced(), []string{"first", "third"}) })
	w.eventually("a third port", func() bool { return len(w.ports()) == 3 })
	w.eventually("the first one's annotation", func() bool { return w.annotation("first") == first })
	if w.annotation("second") != second || w.annotation("third") == second {
		t.Errorf("the second has %s, the third %s", w.annotation("second"), w.annotation("third"))
	}
	after := w.server.Dump("Logical_Switch_Port", "name", "addresses")
	for row := range strings.Lines(rows) {
		if !strings.Contains(after, row) {
			t.Errorf("there was the row %s, now there are\n%s", row, after)
		}
	}
	if strings.Count(after, "10.244.0.4") != 1 || strings.Count(after, "10.244.0.5") != 1 || strings.Count(after, "10.244.0.6") != 1 {
		t.Errorf("an address is in two rows or none:\n%s", after)
	}
}
