package perf

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"

	"github.com/ovn-offload/ovn-offload/pkg/conncheck"
	"github.com/ovn-offload/ovn-offload/pkg/perf/load"
	"github.com/ovn-offload/ovn-offload/pkg/scratch"
)

// Name is that of the namespace of the pods. Label marks it.
const (
	Name  = "ovn-offload-perf"
	Label = "ovn-offload.io/perf"
)

// Namespace is that of the pods.
func Namespace(client dynamic.Interface) scratch.Namespace {
	return scratch.Namespace{Client: client, Name: Name, Label: Label, Purpose: "measurement"}
}

// Objects are the pods of some cases. Those whose name begins with vf ask for the place's resource.
func Objects(at conncheck.Place, cases []Case) []runtime.Object {
	var objects []runtime.Object
	for _, name := range pods(cases) {
		node := at.NodeA
		if strings.HasSuffix(name, "-b") {
			node = at.NodeB
		}
		p := Namespace(nil).Pod(name, node, at.Image, "ovn-offload-agent", "probe", "sink", "--address=$(POD_IP)")
		p.Labels = map[string]string{Label: name}
		p.Spec.HostNetwork = strings.HasPrefix(name, "host-")
		c := &p.Spec.Containers[0]
		c.Env = []corev1.EnvVar{{Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}}}
		c.StartupProbe = &corev1.Probe{ // unlike a readiness probe, it has ended when the load begins
			ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(load.Port)}},
			PeriodSeconds: 1, FailureThreshold: 60,
		}
		if strings.HasPrefix(name, "vf-") {
			c.Resources.Limits = corev1.ResourceList{corev1.ResourceName(at.Resource): quantity.MustParse("1")}
		}
		objects = append(objects, p)
	}
	return objects
}

// pods are the names of both ends of some cases, each once.
func pods(cases []Case) (names []string) {
	for _, c := range cases {
		names = append(names, c.From, c.To)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Fits says whether the nodes of a place have the resource as often as the cases need.
func Fits(at conncheck.Place, cases []Case, nodes []corev1.Node) error {
	need := map[string]int64{}
	for _, name := range pods(cases) {
		switch {
		case !strings.HasPrefix(name, "vf-"):
		case strings.HasSuffix(name, "-b"):
			need[at.NodeB]++
		default:
			need[at.NodeA]++
		}
	}
	for _, node := range nodes {
		has := node.Status.Allocatable[corev1.ResourceName(at.Resource)]
		if has.Value() < need[node.Name] {
			return fmt.Errorf("not enough of the resource: node %s has %d of %s, the measurement asks for %d", node.Name, has.Value(), at.Resource, need[node.Name])
		}
	}
	return nil
}
