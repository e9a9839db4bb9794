//go:build apiserver

package apiserver

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/ovnv1"
)

// setQuota sets how many attachments the pods of a namespace may have.
func setQuota(t *testing.T, ns, value string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, contract.MaxAttachmentsKey, value)
	if _, err := cluster.client.CoreV1().Namespaces().Patch(t.Context(), ns, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func waitQuotaEvent(t *testing.T, ns, pod, want string) {
	t.Helper()
	wantEvent(t, ns, "AttachmentQuotaExceeded", pod, want)
}

// TestQuota_PodsBeyondItWait: two attachments are those of the first pods. A third pod waits, over a restart of the
// controller too, and starts when one is gone. A value that is no number gives nothing, and takes nothing from pods
// that run. A namespace without the quota has as many as it wants.
func TestQuota_PodsBeyondItWait(t *testing.T) {
	t.Parallel()
	ns, free := namespace(t), namespace(t)
	for _, namespace := range []string{ns, free} {
		apply(t, nadResource, networkOf(namespace, "flat", `"topology": "layer2", "subnets": "10.207.0.0/24"`))
	}
	setQuota(t, ns, "2")
	for _, name := range []string{"a", "b"} {
		asksFor(t, ns, name, "flat")
		waitAddresses(t, ns, name, ns+"/flat")
	}
	asksFor(t, ns, "c", "flat")
	waitQuotaEvent(t, ns, "c", "fewer are left of the 2 that namespace "+ns+" may have")
	asksFor(t, free, "c", "flat, flat, flat") // the control: three
	waitAddresses(t, free, "c", free+"/flat", free+"/flat/1", free+"/flat/2")
	addressed(t, ns, "plain", nodes[1]) // without attachments
	restartController(t)
	asksFor(t, ns, "d", "flat")
	waitQuotaEvent(t, ns, "d", "fewer are left")
	wantNoAddresses(t, ns, "c", ns+"/flat")

	deletePod(t, ns, "a")
	waitAddresses(t, ns, "c", ns+"/flat")
	wantNoAddresses(t, ns, "d", ns+"/flat")
	setQuota(t, ns, "many")
	asksFor(t, ns, "e", "flat")
	waitQuotaEvent(t, ns, "e", `"many", which is no number`)
	waitAddresses(t, ns, "b", ns+"/flat")
	wantNoAddresses(t, ns, "d", ns+"/flat")
	setQuota(t, ns, "4")
	for _, name := range []string{"d", "e"} {
		waitAddresses(t, ns, name, ns+"/flat")
	}
}

// limitNetworks makes a quota of one NetworkAttachmentDefinition and one UserDefinedNetwork, and waits for its
// status.
func limitNetworks(t *testing.T, ns string) {
	t.Helper()
	const each = `{count/network-attachment-definitions.k8s.cni.cncf.io: "1", count/userdefinednetworks.k8s.ovn.org: "1"}`
	quotas := corev1.SchemeGroupVersion.WithResource("resourcequotas")
	apply(t, quotas, fmt.Sprintf("apiVersion: v1\nkind: ResourceQuota\nmetadata: {namespace: %s, name: networks}\nspec: {hard: %s}", ns, each))
	eventually(t, "the quota has a status", func() (bool, string) {
		u, err := objectsOf(quotas, ns).Get(t.Context(), "networks", metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		used, _, _ := unstructured.NestedStringMap(u.Object, "status", "used")
		return len(used) == 2, fmt.Sprint(used)
	})
}

// TestResourceQuota_CountsNetworks: Kubernetes refuses NetworkAttachmentDefinitions and UserDefinedNetworks beyond
// its quota, counts those that are made from a UserDefinedNetwork, and these come when there is room. Another
// namespace has no quota.
func TestResourceQuota_CountsNetworks(t *testing.T) {
	t.Parallel()
	ns, free := namespace(t), namespace(t)
	limitNetworks(t, ns)
	const spec = "{topology: Layer2, layer2: {role: Secondary, subnets: [10.208.0.0/24]}}"
	nad := func(ns, name string, dry ...string) error {
		made := object(networkOf(ns, name, `"topology": "layer2"`))
		_, err := objectsOf(nadResource, ns).Create(t.Context(), made, metav1.CreateOptions{DryRun: dry})
		return err
	}
	for _, namespace := range []string{ns, free} {
		if err := nad(namespace, "first"); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the API server knows the quota and the first NAD", func() (bool, string) {
		err := nad(ns, "second", metav1.DryRunAll)
		return err != nil, "a second NAD would be created"
	})
	for _, namespace := range []string{ns, free} {
		if err := userDefined(t, namespace, "red", spec); err != nil {
			t.Fatal(err)
		}
	}
	for what, err := range map[string]error{"NAD": nad(ns, "second"), "UserDefinedNetwork": userDefined(t, ns, "blue", spec)} {
		if err == nil || !strings.Contains(err.Error(), "exceeded quota: networks") {
			t.Errorf("a second %s: %v", what, err)
		}
	}
	if err := nad(free, "second"); err != nil {
		t.Error(err)
	}
	waitNames(t, objectsOf(nadResource, free), "first red second")
	networks := objectsOf(ovnv1.UserDefinedNetworks(), ns)
	waitCondition(t, networks, "red", "NetworkCreated", "exceeded quota: networks")
	waitNames(t, objectsOf(nadResource, ns), "first")
	deleteObject(t, objectsOf(nadResource, ns), "first")
	waitNames(t, objectsOf(nadResource, ns), "red")
	waitCondition(t, networks, "red", "NetworkCreated", "has been created")
}
