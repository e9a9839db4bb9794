package deploy

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// The settings for kind are those of the manifests but for what docker decides.
func TestKindSettings_AreThoseOfManifests(t *testing.T) {
	setting := func(manifest []byte) map[string]string {
		t.Helper()
		var object corev1.ConfigMap
		if err := yaml.UnmarshalStrict(manifest, &object); err != nil {
			t.Fatal(err)
		}
		return object.Data
	}
	want := setting(manifests(t)["10-config.yaml"])
	out, err := exec.Command("kind/up", "settings", "172.18.0.9", "netdev").Output()
	if err != nil {
		t.Fatal(err)
	}
	got := setting(out)
	for key, value := range map[string]string{
		"k8s_apiserver": "https://172.18.0.9:6443", "ovn_nb": "ssl:172.18.0.9:6641", "ovn_sb": "ssl:172.18.0.9:6642", "datapath": "netdev",
	} {
		want[key] = value
	}
	for key := range want {
		if got[key] != want[key] {
			t.Errorf("%s: %q, want %q", key, got[key], want[key])
		}
	}
	if out, err := exec.Command("kind/up", "settings", "172.18.0.9").CombinedOutput(); err == nil {
		t.Errorf("settings without a datapath pass: %s", out)
	}
}

// The kind cluster has the networks that the manifests name.
func TestKindNetworks_AreThoseOfManifests(t *testing.T) {
	data, err := os.ReadFile("kind/cluster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cluster struct {
		Networking struct{ PodSubnet, ServiceSubnet string }
	}
	if err := yaml.Unmarshal(data, &cluster); err != nil {
		t.Fatal(err)
	}
	var config corev1.ConfigMap
	if err := yaml.Unmarshal(manifests(t)["10-config.yaml"], &config); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(config.Data["net_cidr"], cluster.Networking.PodSubnet+"/") {
		t.Errorf("pods: kind %s, manifests %s", cluster.Networking.PodSubnet, config.Data["net_cidr"])
	}
	if config.Data["svc_cidr"] != cluster.Networking.ServiceSubnet {
		t.Errorf("services: kind %s, manifests %s", cluster.Networking.ServiceSubnet, config.Data["svc_cidr"])
	}
}
