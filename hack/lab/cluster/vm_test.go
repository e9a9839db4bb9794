package cluster

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// TestSplitForVMs_GivesEachNodeOneDaemonSet: of the agents' DaemonSet a node has one, and a VM the one
// with the kernel's datapath.
func TestSplitForVMs_GivesEachNodeOneDaemonSet(t *testing.T) {
	data, err := os.ReadFile("../../../deploy/manifests/70-ovnkube-node.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := yaml.Unmarshal(data, &object); err != nil {
		t.Fatal(err)
	}
	l := lab(t, func(c *Config) { c.VMNodes = 1 })
	sets, err := l.splitForVMs(object)
	if err != nil || len(sets) != 2 {
		t.Fatalf("%d DaemonSets, %v", len(sets), err)
	}
	host, vms := sets[0].(appsv1.DaemonSet), sets[1].(appsv1.DaemonSet)
	for name, c := range map[string]struct {
		set      appsv1.DaemonSet
		datapath string
		operator corev1.NodeSelectorOperator
	}{"ovnkube-node": {host, "", corev1.NodeSelectorOpDoesNotExist}, "ovnkube-node-vm": {vms, kernelDatapath, corev1.NodeSelectorOpExists}} {
		spec := c.set.Spec.Template.Spec
		terms := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		last := terms[0].MatchExpressions[len(terms[0].MatchExpressions)-1]
		if diff := cmp.Diff(corev1.NodeSelectorRequirement{Key: vmLabel, Operator: c.operator}, last); diff != "" || len(terms) != 1 {
			t.Errorf("%s: %d terms, %s", name, len(terms), diff)
		}
		for _, variable := range spec.Containers[0].Env {
			if variable.Name == "DATAPATH" && (variable.Value != c.datapath || (variable.ValueFrom == nil) != (c.datapath != "")) {
				t.Errorf("%s: %+v", name, variable)
			}
		}
		selector, err := metav1.LabelSelectorAsSelector(c.set.Spec.Selector)
		if err != nil || c.set.Name != name || !selector.Matches(labels.Set(c.set.Spec.Template.Labels)) {
			t.Errorf("%s: name %s, selector %s, %v", name, c.set.Name, selector, err)
		}
	}
	if got, had := vms.Spec.Template.Spec.Containers[0].LivenessProbe, host.Spec.Template.Spec.Containers[0].LivenessProbe; got.TimeoutSeconds <= had.TimeoutSeconds {
		t.Errorf("a VM's probe has %d s, another's %d s", got.TimeoutSeconds, had.TimeoutSeconds)
	}
	l.cfg.VMNodes = 0
	if sets, err := l.splitForVMs(object); err != nil || len(sets) != 1 {
		t.Errorf("%d DaemonSets without VMs, %v", len(sets), err)
	}
}
