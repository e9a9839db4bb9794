package kube

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// TestPodsByNAD_GrowsLinearly: index functions run under the lock of the pods' store, so a pod with eight times the networks may
// cost eight times the time, and not 64 times.
func TestPodsByNAD_GrowsLinearly(t *testing.T) {
	index := podsByNAD()[byNAD]
	took := func(n int) (best time.Duration) {
		values := map[string]map[string]string{contract.DefaultNetwork: {"role": string(contract.RoleLocked)}}
		for i := range n {
			values[fmt.Sprint("ns/nad", i)] = map[string]string{}
		}
		text, _ := json.Marshal(values)
		pod := newPod("a", "n")
		pod.Annotations = map[string]string{contract.PodNetworksKey: string(text)}
		for range 3 {
			began := time.Now()
			keys := index(pod)
			if d := time.Since(began); best == 0 || d < best {
				best = d
			}
			if len(keys) != n {
				t.Fatalf("%d keys of %d networks", len(keys), n)
			}
		}
		return best
	}
	if half, full := took(4000), took(32000); full > 24*half {
		t.Errorf("4,000 networks take %s, 32,000 take %s", half, full)
	}
}

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

// TestParseClaim_ListIsLimited: what a status has beyond the addresses of an interface is not read.
func TestParseClaim_ListIsLimited(t *testing.T) {
	for n, want := range map[int]bool{contract.MaxAskedAddresses: true, contract.MaxAskedAddresses + 1: false} {
		var ips []any
		for i := range n {
			ips = append(ips, fmt.Sprintf("10.1.0.%d/24", i+1))
		}
		claim, err := parseClaim(&unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"ips": ips}}})
		if read := err == nil && len(claim.Addresses) == n; read != want || !want && len(claim.Addresses) > 0 {
			t.Errorf("%d addresses: %d are read, %v", n, len(claim.Addresses), err)
		}
	}
}

// repeated is a list of n elements with commas between.
func repeated(form string, n int) (list string) {
	for i := range n {
		list += fmt.Sprintf(form, i) + ","
	}
	return list[:max(0, len(list)-1)]
}
