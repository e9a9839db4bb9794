package controller

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// changeWatch counts what transactions change in address sets and logical ports.
type changeWatch struct {
	mu      sync.Mutex
	changes []string
}

func watchChanges(t *testing.T, socket string) *changeWatch {
	t.Helper()
	conn, err := net.Dial("unix", strings.TrimPrefix(socket, "unix:"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprint(conn, `{"id":1,"method":"monitor","params":["OVN_Northbound",null,{"Address_Set":{"columns":["addresses"]},`+
		`"Logical_Switch_Port":{"columns":["addresses","port_security"]}}]}`)
	decoder := json.NewDecoder(conn)
	conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	var first json.RawMessage
	if err := decoder.Decode(&first); err != nil {
		t.Fatal(err)
	}
	conn.SetReadDeadline(time.Time{})
	w := &changeWatch{}
	go func() {
		var message json.RawMessage
		for decoder.Decode(&message) == nil {
			w.mu.Lock()
			w.changes = append(w.changes, string(message))
			w.mu.Unlock()
		}
	}()
	return w
}

func (w *changeWatch) seen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.changes)
}

// TestForgedAnnotation_ChangesNoSetAndNoPort: address sets and ports are the same
// before, during and after an annotation that is forged, and after a restart with
// another plan, by which every annotation is written again. The value of another
// network stays.
func TestForgedAnnotation_ChangesNoSetAndNoPort(t *testing.T) {
	policy := denyAll("d", "peers")
	policy.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{
		From: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}}}
	w := newWorld(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "d"}}, testNode("n1"), testPod("a", "n1"), testPod("b", "n1"), policy)
	both := func() bool {
		sets := w.server.Dump("Address_Set", "addresses")
		return strings.Contains(sets, "10.244.0.4") && strings.Contains(sets, "10.244.0.5")
	}
	w.eventually("both in the set", func() bool {
		return both() && len(w.ports()) == 2 && w.annotation("a") != "" && w.annotation("b") != ""
	})
	ours := w.annotation("a")
	watch := watchChanges(t, w.server.Endpoint())
	for _, forged := range []string{strings.Replace(ours, `{"ip`, `{ "ip`, 1), "x", w.annotation("b"), "", strings.ReplaceAll(ours, "10.244.0.4", "10.244.0.77")} {
		w.forge("a", forged)
		w.eventually("the annotation is ours again", func() bool { return w.annotation("a") == ours })
		w.eventually("rest", w.settled)
	}
	other := strings.TrimSuffix(ours, "}") + `,"ns/other":{"mac_address":"0a:58:00:00:00:01"}}`
	w.forge("a", other)
	w.eventually("rest", w.settled)
	if got := w.annotation("a"); got != other {
		t.Errorf("the value of another network does not stay: %s", got)
	}
	w.stop()
	w.cluster = "10.244.0.0/16/24,10.245.0.0/16/24"
	w.startAndLead()
	w.eventually("the annotations of the other plan", func() bool {
		return strings.Contains(w.annotation("a"), "10.245.0.0/16") && strings.Contains(w.annotation("b"), "10.245.0.0/16")
	})
	w.eventually("rest", w.settled)
	if changes := watch.seen(); len(changes) > 0 {
		t.Errorf("sets or ports changed:\n%s", strings.Join(changes, "\n"))
	}
	if err := w.client.CoreV1().Pods("d").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the watch sees that a pod goes", func() bool { return len(watch.seen()) > 0 })
}

// forge writes a pod's annotation, as every user with the right to patch the pod can.
func (w *world) forge(pod, value string) {
	w.t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{contract.PodNetworksKey: value}}})
	if err == nil {
		_, err = w.client.CoreV1().Pods("d").Patch(w.t.Context(), pod, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}
