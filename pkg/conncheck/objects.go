package conncheck

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/ovn-offload/ovn-offload/pkg/conncheck/probe"
)

// Namespace is that of the test. Label marks it.
const (
	Namespace = "ovn-offload-test"
	Label     = "ovn-offload.io/test"
)

// PodKey is the label of a test's pods, with their names.
const PodKey = "ovn-offload.io/test-pod"

const (
	pairKey     = "ovn-offload.io/test-pair"
	hostPort    = 18480
	servicePort = 80
	portName    = "web"
)

// Place is where and from what the pods are made: two nodes, and an image with ovn-offload-agent. Resource is the extended
// resource by which pods client, same and other ask for a VF, but not on a node that lacks it; empty: none does.
type Place struct {
	NodeA, NodeB, Image, Resource string
	Lacks                         []string
}

// Objects are those of the test in the order in which they are made: policies are in force when their pods begin.
func Objects(at Place) []runtime.Object {
	objects := policies()
	for _, name := range []string{"same", "other", "denied", "allowed", "none"} {
		objects = append(objects, NewService(name, PodKey, name, func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeNodePort }))
	}
	objects = append(objects,
		NewService("self", PodKey, "client", nil),
		NewService("host", PodKey, "host-b", func(s *corev1.ServiceSpec) {
			for i := range s.Ports {
				s.Ports[i].TargetPort = intstr.FromInt32(hostPort)
			}
		}),
		NewService("headless", PodKey, "other", func(s *corev1.ServiceSpec) { s.ClusterIP = corev1.ClusterIPNone }),
		NewService("spread", pairKey, "true", nil),
		NewService("affinity", pairKey, "true", func(s *corev1.ServiceSpec) { s.SessionAffinity = corev1.ServiceAffinityClientIP }))
	local := corev1.ServiceInternalTrafficPolicyLocal
	within := func(s *corev1.ServiceSpec) { s.InternalTrafficPolicy = &local }
	objects = append(objects, NewService("near", pairKey, "true", within), NewService("far", PodKey, "other", within),
		NewService("gate", PodKey, "other", func(s *corev1.ServiceSpec) {
			s.Type, s.ExternalTrafficPolicy = corev1.ServiceTypeNodePort, corev1.ServiceExternalTrafficPolicyLocal
		}))
	for _, name := range []string{"client", "same", "caged", "outsider", "picky", "host-a"} {
		objects = append(objects, NewPod(name, at.NodeA, at))
	}
	for _, name := range []string{"other", "denied", "allowed", "blocked", "host-b"} {
		objects = append(objects, NewPod(name, at.NodeB, at))
	}
	return objects
}

// Needed are objects of the test without the pods that cases do not need. Pods that ask or are asked are needed, also by a
// service; pod client, which says which families pods have; and pod outsider, whose address the policy of pod blocked has.
func Needed(objects []runtime.Object, cases []Case) []runtime.Object {
	var services []*corev1.Service
	for _, object := range objects {
		if s, is := object.(*corev1.Service); is {
			services = append(services, s)
		}
	}
	names := map[string]bool{"client": true}
	selectors := []labels.Selector{}
	for _, c := range cases {
		kind, to, _ := strings.Cut(c.To, "/")
		names[c.From] = true
		if kind == "pod" {
			names[to] = true
			continue
		}
		to, _, _ = strings.Cut(to, "@")
		for _, s := range services {
			if s.Name == to {
				selectors = append(selectors, labels.SelectorFromSet(s.Spec.Selector))
			}
		}
	}
	names["outsider"] = names["outsider"] || names["blocked"]
	return slices.DeleteFunc(slices.Clone(objects), func(object runtime.Object) bool {
		p, is := object.(*corev1.Pod)
		return is && !names[p.Name] && !slices.ContainsFunc(selectors, func(s labels.Selector) bool { return s.Matches(labels.Set(p.Labels)) })
	})
}

// NewPod is a pod of a test that answers. One whose name begins with host- is in the network of its node.
func NewPod(name, node string, at Place) *corev1.Pod {
	port := probe.DefaultPort
	if strings.HasPrefix(name, "host-") {
		port = hostPort
	}
	p := namespace(nil).Pod(name, node, at.Image, "ovn-offload-agent", "probe", "serve", "--name="+name, fmt.Sprintf("--port=%d", port))
	p.Labels = map[string]string{PodKey: name}
	switch name {
	case "host-a", "host-b":
		p.Spec.HostNetwork = true
	case "same", "other":
		p.Labels[pairKey] = "true"
	}
	c := &p.Spec.Containers[0]
	c.Ports = []corev1.ContainerPort{{Name: portName, ContainerPort: int32(port), Protocol: corev1.ProtocolTCP}}
	// A policy that denies the node's own packets does not matter to it, and it runs no more commands when the cases begin.
	c.StartupProbe = &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"bash", "-c", fmt.Sprintf("exec 3<>/dev/tcp/127.0.0.1/%d", port)}}},
		PeriodSeconds: 2, TimeoutSeconds: 30, FailureThreshold: 100,
	}
	c.SecurityContext.Capabilities.Add = []corev1.Capability{"NET_RAW"}
	if at.Resource != "" && !slices.Contains(at.Lacks, node) && slices.Contains([]string{"client", "same", "other"}, name) {
		c.Resources.Limits = corev1.ResourceList{corev1.ResourceName(at.Resource): quantity.MustParse("1")}
	}
	return p
}

// NewService is a Service of the pods with a label, in both families where the cluster has them.
func NewService(name, key, value string, change func(*corev1.ServiceSpec)) *corev1.Service {
	both := corev1.IPFamilyPolicyPreferDualStack
	s := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: Namespace},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{key: value}, IPFamilyPolicy: &both},
	}
	for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP} {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{
			Name: portNames()[protocol], Protocol: protocol, Port: servicePort, TargetPort: intstr.FromInt32(probe.DefaultPort),
		})
	}
	if change != nil {
		change(&s.Spec)
	}
	return s
}

func portNames() map[corev1.Protocol]string {
	return map[corev1.Protocol]string{corev1.ProtocolTCP: "tcp", corev1.ProtocolUDP: "udp", corev1.ProtocolSCTP: "sctp"}
}

// policies deny all but what the table expects. That of pod blocked follows when the address of pod outsider is known.
func policies() []runtime.Object {
	named := intstr.FromString(portName)
	of := func(name string) metav1.LabelSelector {
		return metav1.LabelSelector{MatchLabels: map[string]string{PodKey: name}}
	}
	client, other := of("client"), of("other")
	return []runtime.Object{
		NewPolicy("denied", networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}}),
		NewPolicy("blocked", networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}}),
		NewPolicy("caged", networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}}),
		NewPolicy("allowed", networkingv1.NetworkPolicySpec{
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{
				From: []networkingv1.NetworkPolicyPeer{{PodSelector: &client}}, Ports: []networkingv1.NetworkPolicyPort{{Port: &named}},
			}},
		}),
		NewPolicy("picky", networkingv1.NetworkPolicySpec{
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
			Egress:      []networkingv1.NetworkPolicyEgressRule{{To: []networkingv1.NetworkPolicyPeer{{PodSelector: &other}}}},
		}),
	}
}

// BlockPolicy admits all addresses to pod blocked but those of pod outsider.
func BlockPolicy(env Env) runtime.Object {
	spec := networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}}
	for family, all := range map[int]string{4: "0.0.0.0/0", 6: "::/0"} {
		outsider, known := env.Pods["outsider"][family]
		if !known {
			continue
		}
		spec.Ingress = append(spec.Ingress, networkingv1.NetworkPolicyIngressRule{From: []networkingv1.NetworkPolicyPeer{{
			IPBlock: &networkingv1.IPBlock{CIDR: all, Except: []string{fmt.Sprintf("%s/%d", outsider, outsider.BitLen())}},
		}}})
	}
	p := NewPolicy("blocked", spec)
	p.Name = "blocked-but-outsider"
	return p
}

// NewPolicy is a policy of one pod of a test.
func NewPolicy(of string, spec networkingv1.NetworkPolicySpec) *networkingv1.NetworkPolicy {
	spec.PodSelector.MatchLabels = map[string]string{PodKey: of}
	return &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: of, Namespace: Namespace}, Spec: spec,
	}
}
