//go:build apiserver

package apiserver

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
)

// networkOf is a NetworkAttachmentDefinition of a network with its name. The lab's physical network is the nodes'
// own.
func networkOf(ns, name, fields string) string {
	return fmt.Sprintf(`
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {namespace: %[1]s, name: %[2]s}
spec:
  config: '{"cniVersion": "1.0.0", "name": "%[1]s.%[2]s", "type": "ovn-k8s-cni-overlay", "netAttachDefName": "%[1]s/%[2]s", %[3]s}'
`, ns, name, fields)
}

// selected is one element of the annotation k8s.v1.cni.cncf.io/networks, with further fields.
func selected(name, fields string) string {
	if fields != "" {
		fields = ", " + fields
	}
	return fmt.Sprintf(`{"name": %q%s}`, name, fields)
}

// TestNetworks_BadDefinitions: what is wrong with a NAD or with what a pod asks for is in an Event. There are no
// rows, and other networks and pods are not concerned.
func TestNetworks_BadDefinitions(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	apply(t, nadResource, networkOf(ns, "good", `"topology": "layer2", "subnets": "10.220.0.0/24"`))
	switches := func(name string) string {
		of := fmt.Sprintf("external_ids:\"k8s.ovn.org/network\"=%q", ns+"."+name)
		return strings.TrimSpace(nbctl(t, "--bare", "--columns=name", "find", "Logical_Switch", of))
	}
	eventually(t, "the good network has a switch", func() (bool, string) { return switches("good") != "", "no row" })
	for name, bad := range map[string][2]string{
		"reserved":    {strings.Replace(networkOf(ns, "reserved", `"topology": "layer2"`), `"`+ns+`.reserved"`, `"default"`, 1), "is reserved"},
		"elsewhere":   {strings.Replace(networkOf(ns, "elsewhere", `"topology": "layer2"`), `"`+ns+`/elsewhere"`, `"`+ns+`/good"`, 1), "netAttachDefName is"},
		"overlapping": {networkOf(ns, "overlapping", `"topology": "layer2", "subnets": "10.220.0.0/24,10.220.0.128/25"`), "overlap"},
		"cluster":     {networkOf(ns, "cluster", `"topology": "layer2", "subnets": "10.244.0.0/16"`), "overlap"},
		"broken":      {networkOf(ns, "broken", `"topology": "layer2", "mtu": "many"`), "spec.config"},
	} {
		apply(t, nadResource, bad[0])
		wantEvent(t, ns, "InvalidConfig", name, bad[1])
		if rows := switches(name); rows != "" {
			t.Errorf("NAD %s has rows: %s", name, rows)
		}
	}
	for name, asks := range map[string][2]string{
		"json":      {`[{"name": "good"`, contract.NetworksKey},
		"twice":     {`[{"name":"good","default-route":["10.220.0.1"]},{"name":"good","default-route":["10.220.0.2"]}]`, "the second of its family"},
		"interface": {`good@eth0`, "is taken already"},
	} {
		asksFor(t, ns, name, asks[0])
		wantEvent(t, ns, "NetworkNotFound", name, asks[1])
	}
	asksFor(t, ns, "fine", "good")
	waitAddresses(t, ns, "fine", ns+"/good")
}

// TestIPAMClaim_SaysWhyItHasNoAddress: the second claim of a network with one address gets it when the first claim
// is gone. A claim with an address in its status waits for this one. No claim can be for another network later. A claim for
// a network that does not exist has a condition as well, and the first one says that it has an
// address.
func TestIPAMClaim_SaysWhyItHasNoAddress(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	apply(t, nadResource, networkOf(ns, "tiny", `"topology": "layer2", "subnets": "10.76.0.0/30", "excludeSubnets": "10.76.0.2/32", "allowPersistentIPs": true`))
	claims := objectsOf(kube.IPAMClaims(), ns)
	for name, network := range map[string]string{"first": "tiny", "second": "tiny", "lost": "nowhere"} {
		apply(t, kube.IPAMClaims(), fmt.Sprintf("apiVersion: k8s.cni.cncf.io/v1alpha1\nkind: IPAMClaim\nmetadata: {namespace: %[1]s, name: %[2]s}\n"+
			"spec: {network: %[1]s.%[3]s, interface: net1}\n", ns, name, network))
	}
	claim := func(name, network string) {
		asksFor(t, ns, name, "["+selected(network, fmt.Sprintf(`"ipam-claim-reference": %q`, name))+"]")
	}
	says := func(claim, want string) {
		t.Helper()
		waitCondition(t, claims, claim, "IPsAllocated", want)
	}
	claim("first", "tiny")
	waitAddresses(t, ns, "first", ns+"/tiny")
	says("first", "True SuccessfulAllocation")
	claim("second", "tiny")
	says("second", "False SubnetExhausted no address left in subnets [10.76.0.0/30]")
	claim("lost", "nowhere")
	says("lost", "False InternalError")
	deletePod(t, ns, "first")
	deleteObject(t, claims, "first")
	waitAddresses(t, ns, "second", ns+"/tiny")
	says("second", "True SuccessfulAllocation")
	wantNoAddresses(t, ns, "lost", ns+"/nowhere")
	patch := func(name, text string, subresources ...string) error {
		_, err := claims.Patch(t.Context(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{}, subresources...)
		return err
	}
	if err := patch("second", `{"spec":{"network":"other"}}`); !apierrors.IsInvalid(err) {
		t.Errorf("the claim is for another network now: %v", err)
	}
	if err := patch("lost", `{"metadata":{"labels":{"a":"b"}}}`); err != nil {
		t.Error(err)
	}
	apply(t, kube.IPAMClaims(), fmt.Sprintf("apiVersion: k8s.cni.cncf.io/v1alpha1\nkind: IPAMClaim\nmetadata: {namespace: %[1]s, name: restored}\n"+
		"spec: {network: %[1]s.tiny, interface: net1}\n", ns))
	if err := patch("restored", `{"status":{"ips":["10.76.0.1/30"]}}`, "status"); err != nil {
		t.Fatal(err)
	}
	claim("restored", "tiny")
	says("restored", "False IPAddressConflict")
	deletePod(t, ns, "second")
	deleteObject(t, claims, "second")
	waitAddresses(t, ns, "restored", ns+"/tiny")
	says("restored", "True SuccessfulAllocation")
}

// namespaceSubnet gives a namespace subnets, until the test ends. It waits for a condition.
func namespaceSubnet(t *testing.T, ns, name string, subnets []string, want string) {
	t.Helper()
	objects := objectsOf(v1alpha1.NamespaceSubnets(), "")
	text := fmt.Sprintf("apiVersion: ovn-offload.io/v1alpha1\nkind: NamespaceSubnet\nmetadata: {name: %s}\nspec:\n"+
		"  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}\n  subnets: ['%s']\n  snat: true\n", name, ns, strings.Join(subnets, "', '"))
	if _, err := objects.Create(t.Context(), object(text), metav1.CreateOptions{FieldValidation: "Strict"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = objects.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	waitCondition(t, objects, name, "Accepted", want)
}

// wantIn checks whether all addresses of a pod are in the subnets.
func wantIn(t *testing.T, pod *corev1.Pod, subnets []string, want bool) {
	t.Helper()
	for _, addr := range addresses(t, pod) {
		in := slices.ContainsFunc(subnets, func(text string) bool { return netip.MustParsePrefix(text).Contains(addr) })
		if in != want {
			t.Errorf("pod %s has %s, in %v: want %t", pod.Name, addr, subnets, want)
		}
	}
}

// TestNamespaceSubnet_FullAndRefused: a pod beyond the addresses of the subnet waits and says so, though its node
// has addresses. It starts when another one goes. A subnet that overlaps another is refused by its condition and an
// Event.
func TestNamespaceSubnet_FullAndRefused(t *testing.T) {
	t.Parallel()
	ns, others := namespace(t), namespace(t)
	suffix, subnets := ns[len(ns)-5:], []string{"10.211.0.0/29", "fd00:211::/125"}
	namespaceSubnet(t, ns, "full-"+suffix, subnets, "True SubnetAccepted")
	for _, name := range []string{"a", "b", "c"} {
		wantIn(t, addressed(t, ns, name, nodes[1]), subnets, true)
	}
	create(t, podObject(ns, "d", nodes[2]))
	wantEvent(t, ns, "NetworkFailed", "d", "no address left in NamespaceSubnet full-"+suffix)
	wantIn(t, addressed(t, others, "plain", nodes[2]), subnets, false)
	deletePod(t, ns, "b")
	wantIn(t, waitAddresses(t, ns, "d", contract.DefaultNetwork), subnets, true)

	for name, wrong := range map[string][]string{"overlaps": subnets, "cluster": {"10.244.9.0/24", "fd00:10:244:9::/64"}} {
		name += "-" + suffix
		namespaceSubnet(t, ns, name, wrong, "False SubnetRefused subnet ")
		wantEvent(t, "default", "SubnetRefused", name, "overlaps")
	}
}
