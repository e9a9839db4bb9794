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
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// setQuota sets how many attachments the pods of a namespace may have.
func setQuota(t *testing.T, ns, value string) {
	t.Helper()
	if out, err := kubectl(t, "", "annotate", "--overwrite", "namespace", ns, contract.MaxAttachmentsKey+"="+value); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func waitQuotaEvent(t *testing.T, ns, pod, want string) {
	t.Helper()
	wantEvent(t, ns, "AttachmentQuotaExceeded", pod, want)
}

// wantPending looks at a pod that waits and has no port on further networks.
func wantPending(t *testing.T, ns, name string) {
	t.Helper()
	pod := waitPod(t, ns, name, "there", func(*corev1.Pod) bool { return true })
	if isRunning(pod) || strings.Contains(pod.Annotations[contract.PodNetworksKey], ns+"/flat") {
		t.Errorf("pod %s is %s and has %s", name, pod.Status.Phase, pod.Annotations[contract.PodNetworksKey])
	}
}

// TestQuota_PodsBeyondItWait: two attachments are those of the first pods. A third pod waits, in the full tier over a restart
// of the controller too, and starts when one is gone. A value that is no number gives nothing, and takes nothing from pods that
// run. A namespace without the quota has as many as it wants.
func TestQuota_PodsBeyondItWait(t *testing.T) {
	world.Test(t, world.Networks, tier.Pick(world.Beside, world.Disruptive))
	ns, free := namespace(t), namespace(t)
	for _, namespace := range []string{ns, free} {
		apply(t, networkOf(namespace, "flat", `"topology": "layer2", "subnets": "10.207.0.0/24"`))
	}
	setQuota(t, ns, "2")
	wish := func(ns, name, networks string) {
		pod := podObject(ns, name, nodes[1])
		pod.Annotations = map[string]string{contract.NetworksKey: networks}
		create(t, pod)
	}
	b := allRunning(t, onNetworksObject(ns, "a", nodes[1], "flat"), onNetworksObject(ns, "b", nodes[2], "flat"))[1]
	wish(ns, "c", "flat")
	waitQuotaEvent(t, ns, "c", "fewer are left of the 2 that namespace "+ns+" may have")
	onNetworks(t, free, "c", nodes[1], "flat, flat, flat") // the control: three
	running(t, ns, "plain", nodes[1])                      // without attachments
	if tier.IsFull() {
		restart(t, "controller")
	}
	wish(ns, "d", "flat")
	waitQuotaEvent(t, ns, "d", "fewer are left")
	wantPending(t, ns, "c")

	deletePod(t, ns, "a")
	c := listening(t, waitPod(t, ns, "c", "Running", isRunning))
	answersOn(t, c, "net1", furtherAddress(t, b, "flat"))
	wantPending(t, ns, "d")
	setQuota(t, ns, "many")
	wish(ns, "e", "flat")
	waitQuotaEvent(t, ns, "e", `"many", which is no number`)
	answersOn(t, b, "net1", furtherAddress(t, c, "flat"))
	wantPending(t, ns, "d")
	setQuota(t, ns, "4")
	for _, name := range []string{"d", "e"} {
		answersOn(t, b, "net1", furtherAddress(t, listening(t, waitPod(t, ns, name, "Running", isRunning)), "flat"))
	}
}

// TestResourceQuota_CountsNetworks: Kubernetes refuses NetworkAttachmentDefinitions and UserDefinedNetworks beyond its quota,
// counts those that are made from a UserDefinedNetwork, and these come when there is room. Another namespace has no quota.
func TestResourceQuota_CountsNetworks(t *testing.T) {
	world.Test(t, world.Networks)
	ns, free := namespace(t), namespace(t)
	apply(t, fmt.Sprintf(`
apiVersion: v1
kind: ResourceQuota
metadata: {namespace: %s, name: networks}
spec: {hard: {count/network-attachment-definitions.k8s.cni.cncf.io: "1", count/userdefinednetworks.k8s.ovn.org: "1"}}`, ns))
	eventually(t, soon, "the quota is in force", func() (bool, string) {
		out, err := kubectl(t, "", "-n", ns, "get", "resourcequota", "networks", "-o", "jsonpath={.status.used}")
		return err == nil && strings.Count(out, `":"0"`) == 2, out
	})
	const spec = "{topology: Layer2, layer2: {role: Secondary, subnets: [10.208.0.0/24]}}"
	nad := func(ns, name string) error {
		out, err := kubectl(t, networkOf(ns, name, `"topology": "layer2"`), "apply", "-f", "-")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	for _, namespace := range []string{ns, free} {
		if err := nad(namespace, "first"); err != nil {
			t.Fatal(err)
		}
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
	waitNames(t, objectsOf(t, nadResource, free), "first red second")
	networks := objectsOf(t, ovnv1.UserDefinedNetworks(), ns)
	waitCondition(t, networks, "red", "NetworkCreated", "exceeded quota: networks")
	waitNames(t, objectsOf(t, nadResource, ns), "first")
	kubectlDelete(t, ns, "network-attachment-definition", "first")
	waitNames(t, objectsOf(t, nadResource, ns), "red")
	waitCondition(t, networks, "red", "NetworkCreated", "has been created")
}
