package deploy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"sigs.k8s.io/yaml"

	"github.com/ovn-offload/ovn-offload/pkg/node/preflight"
)

// with is Example with further values, in YAML.
func with(t *testing.T, text string) map[string]any {
	t.Helper()
	values := Example()
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// TestRender_NamesPathOfWrongValue: each error says which value is wrong, or which one is missing.
func TestRender_NamesPathOfWrongValue(t *testing.T) {
	for text, want := range map[string]string{
		"logLevel: loud":                       "/logLevel",
		"nodes: {mut: 1400}":                   "mut",
		"nodes: {mtu: large}":                  "/nodes/mtu",
		"nodes: {datapath: dpdk}":              "/nodes/datapath",
		"network: {podCIDRs: [10.244.0.0/16]}": "/network/podCIDRs/0",
		"network: {serviceCIDRs: [10.96.0.0]}": "/network/serviceCIDRs/0",
		"paths: {cniBin: opt/cni/bin}":         "/paths/cniBin",
		"image: {digest: latest}":              "/image/digest",
		"nodeGroups: [{name: nic}]":            "/nodeGroups/0",
		"nodeGroups: [{name: nic, label: {key: a, value: b}, settings: {mtu: 1, mtus: 2}}]": "mtus",
		"apiServer: 192.0.2.10":                "/apiServer",
		"updateStrategy: {type: Recreate}":     "/updateStrategy/type",
		"updateStrategy: {maxUnavailable: 0%}": "/updateStrategy/maxUnavailable",
		"updateStrategy: {maxUnavailable: 0}":  "/updateStrategy/maxUnavailable",
		`apiServer: ""`:                        "set apiServer to the URL of the API server",
		`databases: {address: ""}`:             "set databases.address to the address of the control-plane node",
	} {
		if _, err := Render(with(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	dpus := "controlPlane: {enabled: false}\ndpus: {enabled: true}\n"
	for text, want := range map[string]string{
		dpus: "set network.podCIDRs to the value of the hosts' cluster",
		dpus + "network: {podCIDRs: [10.244.0.0/16/24]}": "set network.serviceCIDRs to the value of the hosts' cluster",
	} {
		if _, err := Render(with(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a cluster of DPUs: %v, want %q", err, want)
		}
	}
}

// TestRender_OnlyWhatIsEnabled: files are rendered for the parts that a cluster has.
func TestRender_OnlyWhatIsEnabled(t *testing.T) {
	const network = "network: {podCIDRs: [10.244.0.0/16/24], serviceCIDRs: [10.96.0.0/12]}\n"
	for text, want := range map[string]string{
		"namespace: {create: false}\ncrds: {install: false}":                                          "[10-config 20-rbac 21-admission 22-admission-everyone 23-network-admission 30-ovnkube-identity 40-ovnkube-db 50-ovnkube-master 60-ovs-node 70-ovnkube-node 75-leave]",
		"nodes: {openvswitch: false}\nopenshift: true":                                                "[00-namespace 10-config 15-crds 16-network-crds 17-udn-crds 18-ipamclaims 19-multi-networkpolicies 19-ovn4nfv-crds 20-rbac 21-admission 22-admission-everyone 23-network-admission 27-openshift 30-ovnkube-identity 40-ovnkube-db 50-ovnkube-master 70-ovnkube-node 75-leave]",
		network + "namespace: {create: false}\ncontrolPlane: {enabled: false}\ndpus: {enabled: true}": "[10-config 90-ovnkube-node-dpu]",
	} {
		rendered, err := Render(with(t, text))
		if err != nil {
			t.Fatal(err)
		}
		if hooks, err := Removal(with(t, text)); err != nil || (hooks != "") != strings.Contains(want, "40-ovnkube-db") {
			t.Errorf("%s: hooks of the removal: %d bytes, %v", text, len(hooks), err)
		}
		names := []string{}
		for name := range rendered {
			names = append(names, strings.TrimSuffix(name, ".yaml"))
		}
		slices.Sort(names)
		if got := fmt.Sprint(names); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

const groups = `
nodeGroups:
  - {name: cx6, label: {key: nic, value: cx6}, settings: {gatewayInterface: ens1f0np0, mtu: 8900}}
  - {name: far, label: {key: zone, value: far}, settings: {openvswitch: false, encapIP: 192.0.2.0/24}}
`

// TestNodeGroups_GiveEachNodeOneAgent: the first group whose label a node has, and each with its settings.
func TestNodeGroups_GiveEachNodeOneAgent(t *testing.T) {
	objects, err := decode(renderAll(t, with(t, groups)))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems(objects) {
		t.Error(p)
	}
	for _, node := range []struct {
		labels map[string]string
		want   string
	}{
		{nil, "[ovn-offload-cleanup ovnkube-node ovs-node]"},
		{map[string]string{"nic": "other"}, "[ovn-offload-cleanup ovnkube-node ovs-node]"},
		{map[string]string{"nic": "cx6"}, "[ovn-offload-cleanup-cx6 ovnkube-node-cx6 ovs-node-cx6]"},
		{map[string]string{"nic": "cx6", "zone": "far"}, "[ovn-offload-cleanup-cx6 ovnkube-node-cx6 ovs-node-cx6]"},
		{map[string]string{"zone": "far"}, "[ovn-offload-cleanup-far ovnkube-node-far]"},
		{map[string]string{"zone": "far", "k8s.ovn.org/dpu-host": ""}, "[]"},
	} {
		sets := []string{}
		each(objects, func(d *appsv1.DaemonSet) {
			pod := &corev1.Pod{Spec: d.Spec.Template.Spec}
			ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: node.labels}})
			if err != nil {
				t.Error(err)
			}
			if ok {
				sets = append(sets, d.Name)
			}
		})
		slices.Sort(sets)
		if got := fmt.Sprint(sets); got != node.want {
			t.Errorf("a node with %v has %s, want %s", node.labels, got, node.want)
		}
	}
	settings := map[string]map[string]string{}
	each(objects, func(c *corev1.ConfigMap) { settings[c.Name] = c.Data })
	for key, want := range map[string]string{
		"ovn-config-cx6/gateway_interface": "ens1f0np0", "ovn-config-cx6/mtu": "8900", "ovn-config-far/mtu": "0",
		"ovn-config-far/encap_ip": "192.0.2.0/24", "ovn-config/gateway_interface": "",
	} {
		name, key, _ := strings.Cut(key, "/")
		if got := settings[name][key]; got != want {
			t.Errorf("%s/%s: %q, want %q", name, key, got, want)
		}
	}
}

// TestSettings_ReplacePodsThatReadThem: a change of the log level restarts no Open vSwitch and no database.
func TestSettings_ReplacePodsThatReadThem(t *testing.T) {
	changed := func(text string) string {
		var names []string
		before, after := map[string]string{}, map[string]string{}
		for values, marks := range map[*map[string]string]map[string]any{&before: Example(), &after: with(t, text)} {
			objects, err := decode(renderAll(t, marks))
			if err != nil {
				t.Fatal(err)
			}
			each(objects, func(d *appsv1.Deployment) { (*values)[d.Name] = d.Spec.Template.Annotations["ovn-offload.io/settings"] })
			each(objects, func(d *appsv1.DaemonSet) { (*values)[d.Name] = d.Spec.Template.Annotations["ovn-offload.io/settings"] })
		}
		for name, mark := range before {
			if after[name] != mark {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return fmt.Sprint(names)
	}
	for text, want := range map[string]string{
		"logLevel: info":                        "[]",
		"logLevel: debug":                       "[ovnkube-identity ovnkube-master ovnkube-node]",
		"nodes: {mtu: 1400}":                    "[ovnkube-node]",
		"nodes: {gatewayInterface: eth1}":       "[ovnkube-node ovs-node]",
		"databases: {address: 192.0.2.11}":      "[ovnkube-db ovnkube-identity ovnkube-master ovnkube-node]",
		"network: {serviceCIDRs: [10.0.0.0/8]}": "[ovnkube-identity ovnkube-master ovnkube-node]",
	} {
		if got := changed(text); got != want {
			t.Errorf("%s replaces the pods of %s, want %s", text, got, want)
		}
	}
}

// TestPreflight_FirstInNodesPods: no daemon of a node starts before the checks, unless the values say so.
func TestPreflight_FirstInNodesPods(t *testing.T) {
	for text, want := range map[string]string{
		"preflight: {enabled: true}":    "[ovnkube-node preflight --host-ovs=false ovs-node preflight --host-ovs=false]",
		"preflight: {skip: [mtu, cni]}": "[ovnkube-node preflight --skip=mtu,cni ovs-node preflight --skip=mtu,cni]",
		"preflight: {enabled: false}":   "[ovnkube-node ovs-node]",
		"nodes: {openvswitch: false}":   "[ovnkube-node preflight --host-ovs=true]",
	} {
		rendered, err := Render(with(t, text))
		if err != nil {
			t.Fatal(err)
		}
		got := []string{}
		for _, file := range []string{"70-ovnkube-node.yaml", "60-ovs-node.yaml"} {
			var set appsv1.DaemonSet
			if err := yaml.Unmarshal([]byte(rendered[file]), &set); err != nil {
				t.Fatal(err)
			}
			if set.Name != "" {
				got = append(got, set.Name)
			}
			for _, c := range set.Spec.Template.Spec.InitContainers {
				got = append(got, c.Name, c.Args[len(c.Args)-1])
			}
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestSchema_NamesChecksOfPreflight: a value with another name would be refused by the container only.
func TestSchema_NamesChecksOfPreflight(t *testing.T) {
	for _, name := range preflight.Names() {
		if _, err := Render(with(t, "preflight: {skip: ["+name+"]}")); err != nil {
			t.Error(err)
		}
	}
	if _, err := Render(with(t, "preflight: {skip: [kernels]}")); err == nil || !strings.Contains(err.Error(), "/preflight/skip/0") {
		t.Errorf("a check that there is not: %v", err)
	}
}
