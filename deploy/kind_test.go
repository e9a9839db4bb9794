package deploy

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestKindValues_AreAcceptedByChart: those of a cluster without datapath are refused.
func TestKindValues_AreAcceptedByChart(t *testing.T) {
	out, err := exec.Command("kind/up", "values", "172.18.0.9", "netdev").Output()
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict(out, &values); err != nil {
		t.Fatal(err)
	}
	var config corev1.ConfigMap
	if err := yaml.Unmarshal(renderAll(t, values)["10-config.yaml"], &config); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"k8s_apiserver": "https://172.18.0.9:6443", "ovn_nb": "ssl:172.18.0.9:6641", "ovn_sb": "ssl:172.18.0.9:6642", "datapath": "netdev",
	} {
		if config.Data[key] != want {
			t.Errorf("%s: %q, want %q", key, config.Data[key], want)
		}
	}
	image, err := exec.Command("kind/up", "image").Output()
	if err != nil {
		t.Fatal(err)
	}
	if want := "image: " + strings.TrimSpace(string(image)) + "\n"; !strings.Contains(string(renderAll(t, values)["60-ovs-node.yaml"]), want) {
		t.Errorf("the chart does not use the image that is built, %q", want)
	}
	if out, err := exec.Command("kind/up", "values", "172.18.0.9").CombinedOutput(); err == nil {
		t.Errorf("values without a datapath pass: %s", out)
	}
}

// TestKindCluster_HasNoOtherNetwork: neither kindnet nor kube-proxy.
func TestKindCluster_HasNoOtherNetwork(t *testing.T) {
	data, err := os.ReadFile("kind/cluster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cluster struct {
		Networking struct {
			DisableDefaultCNI bool
			KubeProxyMode     string
		}
	}
	if err := yaml.Unmarshal(data, &cluster); err != nil {
		t.Fatal(err)
	}
	if !cluster.Networking.DisableDefaultCNI || cluster.Networking.KubeProxyMode != "none" {
		t.Errorf("networking of kind: %+v", cluster.Networking)
	}
}
