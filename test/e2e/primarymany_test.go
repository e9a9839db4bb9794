//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/ovnv1"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// TestPrimaryNetworks_ManyLeaveNothing: many networks with one subnet, of both topologies, come and go at once with their
// namespaces, some with pods. The full tier has 300.
func TestPrimaryNetworks_ManyLeaveNothing(t *testing.T) {
	if !tier.IsFull() {
		t.Parallel()
	}
	count := tier.Pick(6, 300)
	layer3, layer2 := "{cidr: 10.57.0.0/16}", "10.57.0.0/16"
	if sixes()[0] {
		layer3, layer2 = "{cidr: 'fd57::/48'}", "'fd57::/64'"
	}
	began := time.Now()
	var namespaces []string
	for i := range count {
		ns := labelledNamespace(t, map[string]string{contract.PrimaryNetworkLabel: ""})
		namespaces = append(namespaces, ns)
		spec := "{topology: Layer2, layer2: {role: Primary, subnets: [" + layer2 + "]}}"
		if i%2 == 1 {
			spec = "{topology: Layer3, layer3: {role: Primary, subnets: [" + layer3 + "]}}"
		}
		if err := userDefined(t, ns, "main", spec); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 4 {
		create(t, podObject(namespaces[i], "pod", nodes[1+i%2]))
	}
	for _, ns := range namespaces {
		waitCondition(t, objectsOf(t, ovnv1.UserDefinedNetworks(), ns), "main", "NetworkAllocationSucceeded", "True")
	}
	for i := range 4 {
		waitPod(t, namespaces[i], "pod", "Running", isRunning)
	}
	t.Logf("%d networks after %s", count, time.Since(began).Round(time.Second))
	name := namespaces[0][:strings.LastIndex(namespaces[0], "-")]
	left := networkTraces(t, name)
	for _, trace := range []string{"NB Logical_Router:", "NB Static_MAC_Binding:", "SB Datapath_Binding:", nodes[1] + " zones:", nodes[2] + " annotations:"} {
		if !strings.Contains(left, trace) {
			t.Errorf("no %s while the networks are there: %s", trace, left)
		}
	}
	began = time.Now()
	for _, ns := range namespaces {
		if err := cluster.client.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, 5*time.Minute, "nothing is left of the networks", func() (bool, string) {
		left := networkTraces(t, name)
		return left == "", left
	})
	t.Logf("gone after %s", time.Since(began).Round(time.Second))
}

// networkTraces are how often names of networks of namespaces that begin with a text are in the databases, on nodes and in
// the annotations of Nodes.
func networkTraces(t *testing.T, namespace string) string {
	t.Helper()
	var left []string
	add := func(where, text string) {
		n := strings.Count(text, namespace) + strings.Count(text, strings.ReplaceAll(namespace, "-", "."))
		if n > 0 {
			left = append(left, fmt.Sprintf("%s: %d", where, n))
		}
	}
	for _, table := range []string{
		"Logical_Router", "Logical_Router_Port", "Logical_Router_Static_Route", "Logical_Router_Policy", "NAT", "Static_MAC_Binding",
		"Logical_Switch", "Logical_Switch_Port", "Load_Balancer", "Load_Balancer_Group", "Port_Group", "Address_Set",
	} {
		add("NB "+table, nbctl(t, "list", table))
	}
	for _, table := range []string{"Datapath_Binding", "Port_Binding"} {
		add("SB "+table, sbctl(t, "list", table))
	}
	for _, node := range nodes[:3] {
		add(node+" zones", mustOnNode(t, node, "ovs-vsctl", "--bare", "--columns=external_ids", "list", "Bridge"))
		add(node+" ports", mustOnNode(t, node, "ovs-vsctl", "--bare", "--columns=name,external_ids,options", "list", "Interface"))
		add(node+" links", mustOnNode(t, node, "ip", "-o", "link", "show"))
		object, err := cluster.client.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		add(node+" annotations", fmt.Sprint(object.Annotations))
	}
	return strings.Join(left, ", ")
}
