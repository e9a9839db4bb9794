//go:build apiserver

package apiserver

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/ovn-offload/ovn-offload/deploy"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/kube/ovnv1"
)

const (
	system = deploy.Namespace
	// soon is what a busy machine may need for a thing that takes a second.
	soon = 40 * time.Second
)

// nadResource is that of NetworkAttachmentDefinitions.
var nadResource = kube.NADs()

// eventually is the one poller of these tests: it ends with the condition, so that a long time costs a test nothing
// that passes.
func eventually(t *testing.T, what string, ok func() (bool, string)) {
	t.Helper()
	for deadline := time.Now().Add(soon); ; time.Sleep(100 * time.Millisecond) {
		good, seen := ok()
		if good {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s not yet: %s; seen: %s; the logs are in %s", soon, what, seen, cluster.product.plane.logs)
		}
	}
}

// namespace makes a namespace that ends with the test.
func namespace(t *testing.T) string {
	t.Helper()
	return labelledNamespace(t, nil)
}

// labelledNamespace is namespace with labels from the beginning on.
func labelledNamespace(t *testing.T, labels map[string]string) string {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-", Labels: labels}}
	made, err := cluster.client.CoreV1().Namespaces().Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			report(t, made.Name)
		}
		cluster.client.CoreV1().Namespaces().Delete(context.Background(), made.Name, metav1.DeleteOptions{})
	})
	eventually(t, "the account of pods in "+made.Name, func() (bool, string) {
		_, err := cluster.client.CoreV1().ServiceAccounts(made.Name).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil, fmt.Sprint(err)
	})
	return made.Name
}

// report prints what one wants to see of a failed test.
func report(t *testing.T, ns string) {
	pods, _ := cluster.client.CoreV1().Pods(ns).List(context.Background(), metav1.ListOptions{})
	for _, pod := range pods.Items {
		t.Logf("pod %s on %s: %v", pod.Name, pod.Spec.NodeName, pod.Annotations)
	}
	events, _ := cluster.client.CoreV1().Events(ns).List(context.Background(), metav1.ListOptions{})
	for _, event := range events.Items {
		t.Logf("event %s %s: %s", event.InvolvedObject.Name, event.Reason, event.Message)
	}
}

// podObject is a pod of a node, or of none when node is "". It ends at once when it is deleted.
func podObject(ns, name, node string) *corev1.Pod {
	grace := int64(0)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			NodeName: node, TerminationGracePeriodSeconds: &grace, RestartPolicy: corev1.RestartPolicyNever,
			Containers:  []corev1.Container{{Name: "main", Image: "none"}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		},
	}
}

func create(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if _, err := cluster.client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// addressed makes a pod and waits for its addresses.
func addressed(t *testing.T, ns, name, node string) *corev1.Pod {
	t.Helper()
	create(t, podObject(ns, name, node))
	return waitAddresses(t, ns, name, contract.DefaultNetwork)
}

// asksFor makes a pod that asks for further networks.
func asksFor(t *testing.T, ns, name, networks string) {
	t.Helper()
	pod := podObject(ns, name, nodes[1])
	pod.Annotations = map[string]string{contract.NetworksKey: networks}
	create(t, pod)
}

func deletePod(t *testing.T, ns, name string) {
	t.Helper()
	if err := cluster.client.CoreV1().Pods(ns).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func getPod(t *testing.T, ns, name string) *corev1.Pod {
	t.Helper()
	pod, err := cluster.client.CoreV1().Pods(ns).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// waitAddresses waits until a pod has addresses on networks, by the keys of their attachments.
func waitAddresses(t *testing.T, ns, name string, keys ...string) (pod *corev1.Pod) {
	t.Helper()
	eventually(t, fmt.Sprintf("pod %s has addresses on %v", name, keys), func() (bool, string) {
		pod = getPod(t, ns, name)
		for _, key := range keys {
			network, err := contract.ParsePodNetwork(pod.Annotations[contract.PodNetworksKey], key)
			if err != nil || network == nil || len(network.Addresses) == 0 {
				return false, fmt.Sprint(pod.Annotations, err)
			}
		}
		return true, ""
	})
	return pod
}

// wantNoAddresses checks that a pod has nothing on a network. Call it when the pod has had an Event.
func wantNoAddresses(t *testing.T, ns, name, key string) {
	t.Helper()
	value := getPod(t, ns, name).Annotations[contract.PodNetworksKey]
	if network, err := contract.ParsePodNetwork(value, key); err != nil || network != nil {
		t.Errorf("pod %s has %s, %v", name, value, err)
	}
}

// addressesOn are those of an attachment of a pod.
func addressesOn(t *testing.T, pod *corev1.Pod, key string) (all []netip.Addr) {
	t.Helper()
	network, err := contract.ParsePodNetwork(pod.Annotations[contract.PodNetworksKey], key)
	if err != nil || network == nil {
		t.Fatalf("%s has nothing on %s: %v", pod.Name, key, err)
	}
	for _, prefix := range network.Addresses {
		all = append(all, prefix.Addr())
	}
	return all
}

// addresses are those of the default network.
func addresses(t *testing.T, pod *corev1.Pod) []netip.Addr {
	t.Helper()
	return addressesOn(t, pod, contract.DefaultNetwork)
}

// wantEvent waits for an Event of an object whose message contains a text.
func wantEvent(t *testing.T, ns, reason, object, text string) {
	t.Helper()
	eventually(t, "Event "+reason+" of "+object+": "+text, func() (bool, string) {
		events, err := cluster.client.CoreV1().Events(ns).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + object})
		if err != nil {
			return false, err.Error()
		}
		seen := ""
		for _, event := range events.Items {
			if event.Reason == reason && strings.Contains(event.Message, text) {
				return true, ""
			}
			seen += event.Reason + ": " + event.Message + "; "
		}
		return false, seen
	})
}

func objectsOf(resource schema.GroupVersionResource, ns string) dynamic.ResourceInterface {
	if ns == "" {
		return cluster.dynamic.Resource(resource)
	}
	return cluster.dynamic.Resource(resource).Namespace(ns)
}

// apply creates an object, or brings what its manifest says into one that exists.
func apply(t *testing.T, resource schema.GroupVersionResource, text string) {
	t.Helper()
	made := object(text)
	_, err := objectsOf(resource, made.GetNamespace()).Apply(t.Context(), made.GetName(), made, metav1.ApplyOptions{FieldManager: "test", Force: true})
	if err != nil {
		t.Fatal(err)
	}
}

func object(text string) *unstructured.Unstructured {
	made := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &made.Object); err != nil {
		panic(err)
	}
	return made
}

func deleteObject(t *testing.T, objects dynamic.ResourceInterface, name string) {
	t.Helper()
	if err := objects.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// waitCondition waits for a condition of an object, as "status reason message".
func waitCondition(t *testing.T, objects dynamic.ResourceInterface, name, condition, want string) {
	t.Helper()
	eventually(t, name+" "+condition+" "+want, func() (bool, string) {
		u, err := objects.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		var read ovnv1.UserDefinedNetwork // whose conditions are where other kinds have them
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"status": u.Object["status"]}, &read); err != nil {
			return false, err.Error()
		}
		found := meta.FindStatusCondition(read.Status.Conditions, condition)
		if found == nil {
			return false, "no condition"
		}
		text := strings.Join([]string{string(found.Status), found.Reason, found.Message}, " ")
		return strings.Contains(text, want), text
	})
}

// waitNames waits for the objects of a kind.
func waitNames(t *testing.T, objects dynamic.ResourceInterface, want string) {
	t.Helper()
	eventually(t, "objects "+want, func() (bool, string) {
		list, err := objects.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		var names []string
		for i := range list.Items {
			names = append(names, list.Items[i].GetName())
		}
		got := strings.Join(names, " ")
		return got == want, got
	})
}
