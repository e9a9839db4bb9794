package lint

import (
	"slices"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/offload/dpflow"
)

const vf = "resources: {limits: {ovn-offload.io/vf: 1}}"

func check(t *testing.T, manifest string) []string {
	t.Helper()
	objects, err := Decode(strings.NewReader(manifest), "shop")
	if err != nil {
		t.Fatal(err)
	}
	world, err := Read(objects)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, f := range Check(world, []string{"ovn-offload.io/vf"}) {
		loses := "first packets"
		if f.Loses {
			loses = "loses"
		}
		lines = append(lines, strings.Join([]string{f.Workload, f.Object, string(f.Reason), f.Detail, loses}, "|"))
	}
	return lines
}

func pod(name, spec string) string {
	return "\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", namespace: shop, labels: {app: " + name + "}}\nspec: {containers: [{name: c, " + spec + "}]}\n"
}

// TestCheck_EachFeatureAndItsControl: each manifest is there with the feature and without it.
func TestCheck_EachFeatureAndItsControl(t *testing.T) {
	service := func(protocol string) string {
		return "\n---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{port: 80, protocol: " + protocol + "}]}\n"
	}
	namespace := func(level string) string {
		return "\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop, annotations: {k8s.ovn.org/acl-logging: '{\"" + level + "\": \"info\"}'}}\n"
	}
	policy := "\n---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: in}\nspec: {podSelector: {matchLabels: {app: web}}, ingress: [{}]}\n"
	deployment := "\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, " + vf + "}]}}}\n"
	for name, c := range map[string]struct {
		manifest string
		want     []string
	}{
		"a pod on a VF":             {pod("web", vf), nil},
		"a pod without a VF":        {pod("web", "image: x") + service("UDP"), nil},
		"logged policy":             {pod("web", vf) + namespace("allow") + policy, []string{"pod/shop/web|netpol/shop/in|slow-path|controller|loses"}},
		"policy without a log":      {pod("web", vf) + policy, nil},
		"only denials are logged":   {pod("web", vf) + namespace("deny") + policy, nil},
		"logged policy of others":   {pod("db", vf) + namespace("allow") + policy, nil},
		"service of TCP":            {pod("web", vf) + service("TCP"), nil},
		"service of UDP":            {pod("web", vf) + service("UDP"), []string{"pod/shop/web|svc/shop/web|action|hash|first packets"}},
		"service of SCTP":           {deployment + service("SCTP"), []string{"deployment/shop/web|svc/shop/web|refused|NICs do not track SCTP|loses"}},
		"endpoint without a VF":     {pod("web", "image: x") + pod("client", vf) + service("TCP"), []string{"pod/shop/client|svc/shop/web|output|the endpoint has no VF|loses"}},
		"VF of an init container":   {"kind: Pod\nmetadata: {name: web}\nspec: {initContainers: [{name: i, " + vf + "}], containers: [{name: c}]}", []string{"pod/shop/web|pod/shop/web|port|the VF is asked for by init container i, which is no sidecar|loses"}},
		"VF of a sidecar":           {"kind: Pod\nmetadata: {name: web}\nspec: {initContainers: [{name: i, restartPolicy: Always, " + vf + "}], containers: [{name: c}]}", nil},
		"VF beside the network":     {"kind: Pod\nmetadata: {name: web}\nspec: {hostNetwork: true, containers: [{name: c, " + vf + "}]}", []string{"pod/shop/web|pod/shop/web|port|the pod has hostNetwork and a VF|loses"}},
		"a list, and another kind":  {"kind: List\napiVersion: v1\nitems: [{kind: ConfigMap, apiVersion: v1, metadata: {name: x}}]", nil},
		"a workload of a CronJob":   {"kind: CronJob\nmetadata: {name: web}\nspec: {jobTemplate: {spec: {template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, " + vf + "}]}}}}}" + service("SCTP"), []string{"cronjob/shop/web|svc/shop/web|refused|NICs do not track SCTP|loses"}},
		"a headless service of UDP": {pod("web", vf) + "\n---\nkind: Service\nmetadata: {name: web}\nspec: {clusterIP: None, selector: {app: web}, ports: [{port: 80, protocol: UDP}]}\n", nil},
	} {
		if got := check(t, c.manifest); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestCheck_ReasonsAreThoseOfTheClassifier: the datapath flows that the features make have the reasons of the findings.
func TestCheck_ReasonsAreThoseOfTheClassifier(t *testing.T) {
	on := offload.Settings{HWOffload: true}
	const match = "ufid:1, recirc_id(0),in_port(vf1),eth(),eth_type(0x0800),ipv4(frag=no), packets:9, bytes:900, used:1s, dp:ovs, actions:"
	for actions, want := range map[string]offload.Cause{
		"userspace(pid=0,controller(reason=7)),vf2": {Reason: offload.ReasonSlowPath, Detail: "controller"},
		"hash(sym_l4(0)),recirc(0x1)":               {Reason: offload.ReasonAction, Detail: "hash"},
	} {
		flow, err := dpflow.Parse(match + actions)
		if err != nil {
			t.Fatal(err)
		}
		got := offload.Classify(slices.Values([]dpflow.Flow{flow}), nil, on).Outside
		if len(got) != 1 || got[0].Reason != want.Reason || got[0].Detail != want.Detail {
			t.Errorf("%s: %+v, want %+v", actions, got, want)
		}
	}
}

// TestMerge_ManifestReplacesObjectsOfTheCluster with the same kind, namespace and name only.
func TestMerge_ManifestReplacesObjectsOfTheCluster(t *testing.T) {
	old, err := Decode(strings.NewReader(pod("web", "image: old")+pod("db", "image: old")), "shop")
	if err != nil {
		t.Fatal(err)
	}
	changed, err := Decode(strings.NewReader(pod("web", vf)), "shop")
	if err != nil {
		t.Fatal(err)
	}
	merged := Merge(old, changed)
	if len(merged) != 2 || merged[0].GetName() != "db" || merged[1].GetName() != "web" {
		t.Errorf("%v", merged)
	}
}
