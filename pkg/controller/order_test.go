package controller

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// loggedBefore follows the database one transaction at a time, and gives how many rules
// were logged when the port appeared.
func loggedBefore(t *testing.T, socket, port string) <-chan int {
	t.Helper()
	conn, err := net.Dial("unix", strings.TrimPrefix(socket, "unix:"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprint(conn, `{"id":1,"method":"monitor","params":["OVN_Northbound",null,{"Logical_Switch_Port":{"columns":["name"]},"ACL":{"columns":["log"]}}]}`)
	type rows map[string]map[string]struct {
		New *struct {
			Name string
			Log  bool
		}
	}
	decoder := json.NewDecoder(conn)
	var first json.RawMessage
	if err := decoder.Decode(&first); err != nil {
		t.Fatal(err)
	}
	found := make(chan int, 1)
	go func() {
		logged := 0
		for {
			var m struct{ Params []json.RawMessage }
			if decoder.Decode(&m) != nil {
				return
			}
			var content rows
			if len(m.Params) == 2 {
				json.Unmarshal(m.Params[1], &content)
			}
			for _, row := range content["ACL"] {
				if row.New != nil && row.New.Log {
					logged++
				}
			}
			for _, row := range content["Logical_Switch_Port"] {
				if row.New != nil && row.New.Name == port {
					found <- logged
					return
				}
			}
		}
	}()
	return found
}

// TestOrder_PortOfNewPodGoesBeforeOthersPolicies: one annotation of a namespace
// changes the rules of its thousands of policies, and a pod of another namespace,
// with a policy of its own that is new as well, comes right after.
func TestOrder_PortOfNewPodGoesBeforeOthersPolicies(t *testing.T) {
	const policies = 3000
	many := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "many"}}
	objects := []runtime.Object{testNode("n1"), many, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "d"}}}
	for i := range policies {
		objects = append(objects, denyAll("many", fmt.Sprint("p", i)))
	}
	w := newWorld(t, objects...)
	w.eventually("the policies", func() bool { return strings.Count(w.server.Dump("Port_Group", "external_ids"), "many:p") == policies })
	found := loggedBefore(t, w.server.Endpoint(), "d_a")
	logged := many.DeepCopy()
	logged.Annotations = map[string]string{contract.ACLLoggingKey: `{"deny":"alert"}`}
	ctx := t.Context()
	if _, err := w.client.CoreV1().Namespaces().Update(ctx, logged, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.NetworkingV1().NetworkPolicies("d").Create(ctx, denyAll("d", "own"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.CoreV1().Pods("d").Create(ctx, testPod("a", "n1"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case before := <-found:
		t.Logf("%d of %d rules of other policies were changed before the port", before, policies)
		if before > policies/2 {
			t.Errorf("the port came after %d of %d rules of other policies", before, policies)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("no port")
	}
	w.eventually("the other policies", func() bool { return strings.Count(w.server.Dump("ACL", "_uuid", "severity"), "alert") == policies })
}
