package deploy

import (
	"maps"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// dpuManifests are those of hosts with a DPU and of DPUs, with the settings that they read.
func dpuManifests(t *testing.T) map[string][]byte {
	t.Helper()
	values := Example()
	values["dpuHosts"], values["dpus"] = map[string]any{"enabled": true}, map[string]any{"enabled": true}
	files := renderAll(t, values)
	maps.DeleteFunc(files, func(name string, _ []byte) bool { return name != "10-config.yaml" && !strings.Contains(name, "dpu") })
	return files
}

// dpuProblems is everything that is wrong with the manifests of hosts and DPUs.
func dpuProblems(objects []runtime.Object) (found []string) {
	for _, check := range []func([]runtime.Object) []string{checkAccounts, checkRights, checkSettings, checkVolumes, checkPods, checkDPUPolicies, checkDPUPlaces} {
		found = append(found, check(objects)...)
	}
	return found
}

func checkDPUPolicies(objects []runtime.Object) (found []string) {
	bound := map[string]bool{}
	each(objects, func(o *admissionv1.ValidatingAdmissionPolicyBinding) {
		bound[o.Spec.PolicyName] = slices.Contains(o.Spec.ValidationActions, admissionv1.Deny)
	})
	each(objects, func(o *admissionv1.ValidatingAdmissionPolicy) {
		if !bound[o.Name] {
			found = append(found, "policy "+o.Name+" does not deny")
		}
		if o.Spec.FailurePolicy == nil || *o.Spec.FailurePolicy != admissionv1.Fail {
			found = append(found, "policy "+o.Name+" fails open")
		}
		for _, v := range o.Spec.Variables {
			if want, ok := written[o.Name]; ok && v.Name == "written" && v.Expression != "['"+want+"']" {
				found = append(found, "policy "+o.Name+" is about "+v.Expression)
			}
		}
		delete(bound, o.Name)
	})
	for name := range bound {
		found = append(found, "binding of "+name+", which there is not")
	}
	return found
}

// The one annotation of an object that each side may write.
var written = map[string]string{
	"ovn-dpu-own-pods": contract.DPUStatusKey, "ovnkube-dpu-host-own-pods": contract.DPUConnectionKey,
	"ovnkube-dpu-host-own-node": contract.ManagementPortKey,
}

// checkDPUPlaces holds each DaemonSet to its label.
func checkDPUPlaces(objects []runtime.Object) (found []string) {
	each(objects, func(d *appsv1.DaemonSet) {
		label := map[string]string{"ovnkube-node-dpu": contract.DPULabel, "ovnkube-node-dpu-host": contract.DPUHostLabel}[d.Name]
		if label == "" { // TestRoles_EachNodeHasOneAgentAndItsCleanup
			return
		}
		terms := d.Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		if len(terms) != 1 || terms[0].MatchExpressions[0].Key != label || terms[0].MatchExpressions[0].Operator != "Exists" {
			found = append(found, d.Name+": is not only where "+label+" is")
		}
	})
	return found
}

func TestDPUManifests_PassAllChecks(t *testing.T) {
	objects, err := decode(dpuManifests(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range dpuProblems(objects) {
		t.Error(p)
	}
	if n := len(workloads(objects)); n != 3 {
		t.Errorf("%d workloads", n)
	}
}

func TestDPUChecks_FindEachSpoiledManifest(t *testing.T) {
	for _, tc := range []spoiled{
		{"25-dpu-host-rbac.yaml", "verbs: [get, create, update]", "verbs: [delete]", "role ovn-dpu: right to delete leases"},
		{"25-dpu-host-rbac.yaml", "system:serviceaccounts:ovn-dpu", "system:authenticated", "subject Group system:authenticated"},
		{"26-dpu-host-admission.yaml", "[Deny]", "[Audit]", "does not deny"},
		{"26-dpu-host-admission.yaml", "failurePolicy: Fail", "failurePolicy: Ignore", "fails open"},
		{"26-dpu-host-admission.yaml", "['k8s.ovn.org/dpu.connection-status']", "['k8s.ovn.org/dpu.connection-details']", "is about"},
		{"26-dpu-host-admission.yaml", "metadata: {name: ovn-dpu-own-pods}\nspec:\n  policyName: ovn-dpu-own-pods", "metadata: {name: ovn-dpu-own-pods}\nspec:\n  policyName: other", "policy ovn-dpu-own-pods does not deny"},
		{"80-ovnkube-node-dpu-host.yaml", "key: k8s.ovn.org/dpu-host,", "key: k8s.ovn.org/dpu,", "is not only where"},
		{"90-ovnkube-node-dpu.yaml", "key: k8s.ovn.org/dpu,", "key: k8s.ovn.org/dpu-host,", "is not only where"},
		{"90-ovnkube-node-dpu.yaml", "name: state, mountPath", "name: stat, mountPath", "no volume stat"},
		{"10-config.yaml", "  mtu:", "  mtu_bytes:", "no setting ovn-dpu-config/mtu"},
	} {
		tc.check(t, dpuManifests(t), dpuProblems)
	}
}

// The DPU's agent sets up a node's bridges as the ordinary agent does. It lacks only flags for pods' devices on the node
// itself, and flags whose values do not depend on the DPU.
func TestDPUAgentFlags_LackNodeOnlyFlags(t *testing.T) {
	flags := func(files map[string][]byte, daemonSet string) (names []string) {
		objects, err := decode(files)
		if err != nil {
			t.Fatal(err)
		}
		each(objects, func(d *appsv1.DaemonSet) {
			for _, c := range d.Spec.Template.Spec.Containers {
				for _, arg := range c.Args {
					if name, _, _ := strings.Cut(arg, "="); d.Name == daemonSet && c.Name == "ovn-offload-agent" {
						names = append(names, name)
					}
				}
			}
		})
		return names
	}
	known := flags(dpuManifests(t), "ovnkube-node-dpu")
	missing := slices.DeleteFunc(flags(manifests(t), "ovnkube-node"), func(name string) bool { return slices.Contains(known, name) })
	if want := []string{"--node-name", "--uplink-forwarding", "--encap-ip", "--datapath", "--vf-pools", "--vf-resources", "--management-vf", "--gateway-vf", "--systemd-units", "--healthz-address"}; !slices.Equal(missing, want) {
		t.Errorf("the DPU's agent lacks %v, and not just %v", missing, want)
	}
}

// TestRoles_EachNodeHasOneAgentAndItsCleanup: where a Node gets another role, the former agent ends at once, Open vSwitch
// stays until the clean-up has removed the label, and only then the next agent comes.
func TestRoles_EachNodeHasOneAgentAndItsCleanup(t *testing.T) {
	objects, err := decode(renderAll(t, with(t, "dpuHosts: {enabled: true}\ndpus: {enabled: true}")))
	if err != nil {
		t.Fatal(err)
	}
	for labels, want := range map[string]string{
		"":                         "ovnkube-node ovs-node",
		"set-up=full":              "ovnkube-node ovs-node",
		"dpu-host set-up=full":     "ovn-offload-leave ovs-node",
		"dpu set-up=full":          "ovn-offload-leave ovs-node",
		"dpu-host dpu set-up=full": "ovn-offload-leave ovs-node",
		"dpu-host":                 "ovnkube-node-dpu-host",
		"dpu-host set-up=host":     "ovnkube-node-dpu-host",
		"set-up=host":              "ovn-offload-leave-dpu-host",
		"dpu set-up=host":          "ovn-offload-leave-dpu-host",
		"dpu":                      "ovnkube-node-dpu",
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}
		for label := range strings.FieldsSeq(labels) {
			key, value, isSetUp := strings.Cut(label, "=")
			if key = "k8s.ovn.org/" + key; isSetUp {
				key = contract.SetUpLabel
			}
			node.Labels[key] = value
		}
		var sets []string
		each(objects, func(d *appsv1.DaemonSet) {
			ok, err := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: d.Spec.Template.Spec}).Match(node)
			if err != nil {
				t.Error(err)
			}
			if ok && d.Name != "ovn-offload-cleanup" {
				sets = append(sets, d.Name)
			}
		})
		slices.Sort(sets)
		if got := strings.Join(sets, " "); got != want {
			t.Errorf("a node with %q has %s, want %s", labels, got, want)
		}
	}
}
