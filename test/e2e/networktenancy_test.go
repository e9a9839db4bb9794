//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/ovnv1"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// TestTenancy_NetworksOfOthers: pods of another namespace are on no network whose owner does not name the namespace: not by the name
// of a NetworkAttachmentDefinition, not by a network of the same name, and not by one that had the name first. Pods of the
// owner reach each other meanwhile.
func TestTenancy_NetworksOfOthers(t *testing.T) {
	world.Test(t, world.Networks, world.Core, world.Strict)
	shop, guests, evil := world.Namespace(t), world.Namespace(t), world.Namespace(t)
	wide := "wide-" + shop[len(shop)-5:]
	flat := func(in, name, network, subnet string) string {
		return strings.Replace(networkOf(in, name, fmt.Sprintf(`"topology": "layer2", "role": "secondary", "subnets": %q`, subnet)), in+"."+name+`"`, network+`"`, 1)
	}
	define := func(name, subnet string) {
		t.Helper()
		if err := userDefined(t, shop, name, fmt.Sprintf("{topology: Layer2, layer2: {role: Secondary, subnets: [%s]}}", subnet)); err != nil {
			t.Fatal(err)
		}
		waitCondition(t, objectsOf(t, ovnv1.UserDefinedNetworks(), shop), name, "NetworkCreated", "True")
	}
	define("backend", "10.75.0.0/24")
	clusterUserDefined(t, wide, fmt.Sprintf("{namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [%s, %s]}]}, "+
		"network: {topology: Layer2, layer2: {role: Secondary, subnets: [10.76.0.0/24]}}}", shop, guests))
	apply(t, flat(evil, "copy", shop+"_backend", "10.75.0.0/24")+flat(evil, "early", shop+"_later", "10.77.0.0/24"))

	for name, networks := range map[string]string{"names-it": shop + "/backend", "unselected": shop + "/" + wide, "copies-it": "copy"} {
		wish{evil, name, nodes[1], networks}.create(t)
	}
	static := func(name, ip string) string { return "[" + selected(name, fmt.Sprintf(`"ips": [%q]`, ip)) + "]" }
	pods := allOnNetworks(t, wish{shop, "db", nodes[1], "backend," + wide}, wish{shop, "client", nodes[2], "backend"}, wish{guests, "guest", nodes[2], wide},
		wish{evil, "early1", nodes[1], static("early", "10.77.0.10")}, wish{evil, "early2", nodes[2], static("early", "10.77.0.20")})
	world.FromPod(pods["client"]).AnsweredOnceBy(t, addressOn(t, pods["db"], shop+"/backend").String(), "db")
	world.FromPod(pods["guest"]).AnsweredOnceBy(t, addressOn(t, pods["db"], shop+"/"+wide).String(), "db")
	for name, text := range map[string]string{
		"names-it": "belongs to UserDefinedNetwork backend of namespace " + shop, "unselected": "does not select namespace " + evil, "copies-it": "is reserved for UserDefinedNetwork",
	} {
		wantEvent(t, evil, "NetworkNotFound", name, text)
	}

	world.FromPod(pods["early1"]).AnsweredOnceBy(t, "10.77.0.20", "early2")
	define("later", "10.77.0.0/24")
	wantEvent(t, evil, "InvalidConfig", "early", "is reserved for UserDefinedNetwork "+shop+"/later")
	late := allOnNetworks(t, wish{shop, "late1", nodes[1], static("later", "10.77.0.110")}, wish{shop, "late2", nodes[2], static("later", "10.77.0.120")})
	world.FromPod(late["late1"]).AnsweredOnceBy(t, "10.77.0.120", "late2")
	world.FromPod(pods["early1"]).Unanswered(t, "10.77.0.110")
	world.FromPod(pods["early2"]).Unanswered(t, "10.77.0.110")
	for _, name := range []string{"names-it", "unselected", "copies-it"} {
		if has := world.WaitPod(t, evil, name, "there", func(*corev1.Pod) bool { return true }).Annotations[contract.PodNetworksKey]; strings.Contains(has, "10.7") {
			t.Errorf("pod %s has %s", name, has)
		}
	}
}
