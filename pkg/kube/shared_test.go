package kube

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func serviceWith(namespace, name string, labels map[string]string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
}

// TestSharedServices_AreTheAPIServerAndDNS: of any name, and what an administrator has named. A tenant's label shares nothing.
func TestSharedServices_AreTheAPIServerAndDNS(t *testing.T) {
	dns := map[string]string{"k8s-app": "kube-dns"}
	_, view, _ := startView(t, serviceWith("default", "kubernetes", nil), serviceWith("kube-system", "kube-dns-upstream", dns), serviceWith("kube-system", "coredns", dns),
		serviceWith("kube-system", "kube-dns", dns), serviceWith("kube-system", "metrics", map[string]string{"k8s-app": "metrics"}), serviceWith("tenant", "kube-dns", dns),
		serviceWith("openshift-dns", "dns-default", nil))
	keys := func() (keys []string) {
		for _, service := range view.SharedServices() {
			keys = append(keys, service.Namespace+"/"+service.Name)
		}
		return keys
	}
	want := []string{"default/kubernetes", "kube-system/kube-dns", "kube-system/coredns", "kube-system/kube-dns-upstream"}
	if got := keys(); !slices.Equal(got, want) {
		t.Errorf("shared %v, want %v", got, want)
	}
	view.FurtherShared = []string{"openshift-dns/dns-default", "absent/service", "kube-system/coredns"}
	want = []string{"default/kubernetes", "kube-system/kube-dns", "openshift-dns/dns-default", "kube-system/coredns", "kube-system/kube-dns-upstream"}
	if got := keys(); !slices.Equal(got, want) {
		t.Errorf("shared %v, want %v", got, want)
	}
	for key, want := range map[[2]string]bool{
		{"default", "kubernetes"}: true, {"kube-system", "coredns"}: true, {"openshift-dns", "dns-default"}: true,
		{"kube-system", "metrics"}: false, {"tenant", "kube-dns"}: false, {"kube-system", "absent"}: false,
	} {
		if got := view.isShared(key[0], key[1]); got != want {
			t.Errorf("%s is shared: %t", key, got)
		}
	}
}
