package kube

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// TestPodsByNAD_NamesEachOnce, and nothing of a pod that asks for more than a pod may have.
func TestPodsByNAD_NamesEachOnce(t *testing.T) {
	for value, want := range map[string]int{"a,b,a,other/a": 3, "": 0, repeated("n%d", contract.MaxAttachments): 64, repeated("n%d", contract.MaxAttachments+1): 0} {
		pod := newPod("a", "n")
		pod.Annotations = map[string]string{contract.NetworksKey: value}
		if keys := podsByNAD()[byNAD](pod); len(keys) != want {
			t.Errorf("%.60s: %d keys, want %d", value, len(keys), want)
		}
	}
	for given, want := range map[string]string{
		`{"default":{"ip_addresses":["10.1.0.2/24"],"routes":[{"dest":"10.0.0.0/8","nextHop":"10.1.0.1"}]}}`: "[]",
		`{"default":{"role":"primary"},"ns/a":{},"ns/a/1":{}}`:                                               "[ns/a]",
		`{"ns/b":{}}`: "[ns/b]",
	} {
		pod := newPod("a", "n") // which no longer asks for what it has
		pod.Annotations = map[string]string{contract.PodNetworksKey: given}
		if keys := podsByNAD()[byNAD](pod); fmt.Sprint(keys) != want {
			t.Errorf("%s: keys %v, want %s", given, keys, want)
		}
	}
	asked := map[string]string{contract.NetworksKey: repeated("n%d", 1000)}
	if owners := AttachmentOwners(&corev1.Pod{ObjectMeta: newPod("a", "n").ObjectMeta}); len(owners) > 0 {
		t.Errorf("a pod without annotations has %v", owners)
	}
	pod := newPod("a", "n")
	pod.Annotations = asked
	if owners := AttachmentOwners(pod); len(owners) > 0 {
		t.Errorf("a pod that asks for 1,000 networks marks %d owners", len(owners))
	}
}

// repeated is a list of n elements with commas between.
func repeated(form string, n int) (list string) {
	for i := range n {
		list += fmt.Sprintf(form, i) + ","
	}
	return list[:max(0, len(list)-1)]
}
