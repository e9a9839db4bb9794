//go:build e2e

package world

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

const (
	// EchoPort is where a pod serves.
	EchoPort = 8080
	// PodWithin bounds how long a pod takes to start or to end.
	PodWithin = 2 * time.Minute

	image     = "lab-tools:dev"
	container = "main"
)

// Option changes a pod that Pod describes.
type Option func(*corev1.Pod)

// Pod describes a pod of the tools image, on a node of the scheduler's choice when node is "". The pod's label app is
// its name. Its process is a server at EchoPort that answers TCP and UDP with the client's address. Run makes the pod.
func Pod(ns, name, node string, options ...Option) *corev1.Pod {
	grace := int64(0)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{"app": name},
			Annotations: map[string]string{}},
		Spec: corev1.PodSpec{
			NodeName:                      node,
			TerminationGracePeriodSeconds: &grace,
			RestartPolicy:                 corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name: container, Image: image, ImagePullPolicy: corev1.PullNever,
				Command: []string{"probe", "serve", fmt.Sprint(EchoPort)},
				SecurityContext: &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_RAW",
					"NET_ADMIN"}}},
			}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		},
	}
	for _, change := range options {
		change(pod)
	}
	return pod
}

// Command gives the pod another process than the server.
func Command(words ...string) Option {
	return func(pod *corev1.Pod) { pod.Spec.Containers[0].Command = words }
}

// Named has the server answer with the pod's name, too.
func Named() Option { return NamedAs("") }

// NamedAs has the server answer with a name, too; the pod's own for "".
func NamedAs(name string) Option {
	return func(pod *corev1.Pod) {
		if name == "" {
			name = pod.Name
		}
		pod.Spec.Containers[0].Command = append(pod.Spec.Containers[0].Command, name)
	}
}

// Behind has the server answer with the pod's name, and gives the pod the label app that the services of its name
// select.
func Behind(app string) Option {
	return func(pod *corev1.Pod) {
		Named()(pod)
		pod.Labels["app"] = app
	}
}

// Labels adds labels.
func Labels(labels map[string]string) Option {
	return func(pod *corev1.Pod) { maps.Copy(pod.Labels, labels) }
}

// OnNetworks gives the pod interfaces on further networks: the value of k8s.v1.cni.cncf.io/networks.
func OnNetworks(networks string) Option {
	return func(pod *corev1.Pod) { pod.Annotations[contract.NetworksKey] = networks }
}

// hostPorts counts the ports of nodes that OnHost has given.
var hostPorts atomic.Int32

// OnHost has the server serve in its node's own network, at a port that no other pod of OnHost has.
func OnHost() Option { return OnHostAt(0) }

// OnHostAt is OnHost with a port; 0: any.
func OnHostAt(port int32) Option {
	return func(pod *corev1.Pod) {
		if port == 0 {
			port = OutsidePort + hostPorts.Add(1)
		}
		process := &pod.Spec.Containers[0]
		if serves(pod) > 0 {
			process.Command[2] = fmt.Sprint(port)
		}
		process.Ports = []corev1.ContainerPort{{ContainerPort: port}}
		pod.Spec.HostNetwork = true
	}
}

// HostPorts gives the pod ports of its node that lead to EchoPort.
func HostPorts(ports ...corev1.ContainerPort) Option {
	return func(pod *corev1.Pod) {
		for i := range ports {
			ports[i].ContainerPort = EchoPort
		}
		pod.Spec.Containers[0].Ports = ports
	}
}

// Unprivileged takes all capabilities from the pod.
func Unprivileged() Option {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers[0].SecurityContext.Capabilities = &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}
	}
}

// Create creates pods and does not wait for them.
func Create(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		if _, err := cluster.Client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod,
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// Run creates pods at once, waits until all run and their servers listen, and returns them. The pods that were passed
// have their status, too.
func Run(t *testing.T, pods ...*corev1.Pod) []*corev1.Pod {
	t.Helper()
	Create(t, pods...)
	for _, pod := range pods {
		*pod = *Running(t, pod.Namespace, pod.Name)
	}
	return pods
}

// RunOnEachNode makes a pod on each node, with the node's name behind a prefix, in the order of Nodes.
func RunOnEachNode(t *testing.T, ns, prefix string, options ...Option) []*corev1.Pod {
	t.Helper()
	return Run(t, onEachNode(ns, prefix, options...)...)
}

func onEachNode(ns, prefix string, options ...Option) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, node := range Nodes {
		pods = append(pods, Pod(ns, prefix+node, node, options...))
	}
	return pods
}

// Running waits until a pod that has been created runs, and until its server listens.
func Running(t *testing.T, ns, name string) *corev1.Pod {
	t.Helper()
	pod := WaitPod(t, ns, name, "Running", IsRunning)
	if port := serves(pod); port > 0 {
		Listening(t, pod, port)
	}
	return pod
}

// serves is the port of a pod whose process is a server of TCP; 0 for another process.
func serves(pod *corev1.Pod) int {
	command := pod.Spec.Containers[0].Command
	if len(command) < 3 || command[0] != "probe" || command[1] != "serve" && command[1] != "serve-http" {
		return 0
	}
	port, _ := strconv.Atoi(command[2])
	return port
}

// Listening waits until a process of a pod that runs listens at a TCP port.
func Listening(t *testing.T, pod *corev1.Pod, port int) {
	t.Helper()
	MustInPod(t, pod, "probe", "await", fmt.Sprint("127.0.0.1:", port))
}

// IsRunning says whether a pod runs and has an address.
func IsRunning(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning && len(pod.Status.PodIPs) > 0
}

// WaitPod waits for a state of a pod that lasts: it looks five times a second.
func WaitPod(t *testing.T, ns, name, what string, ok func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	return WaitPodWithin(t, PodWithin, ns+"/"+name, what, ok)
}

// WaitPodWithin is WaitPod for pods on slow nodes; pod is namespace/name.
func WaitPodWithin(t *testing.T, within time.Duration, pod, what string, ok func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	ns, name, _ := strings.Cut(pod, "/")
	var last *corev1.Pod
	Eventually(t, within, "pod "+pod+" is "+what, func() (bool, string) {
		now, err := cluster.Client.CoreV1().Pods(ns).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		last = now
		return ok(now), fmt.Sprintf("%+v", now)
	})
	return last
}

// Ended waits until the process of a pod has ended.
func Ended(t *testing.T, ns, name string) *corev1.Pod {
	t.Helper()
	return WaitPod(t, ns, name, "ended", func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	})
}

// DeletePod deletes a pod and does not wait for its end.
func DeletePod(t *testing.T, ns, name string) {
	t.Helper()
	if err := cluster.Client.CoreV1().Pods(ns).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// LabelPod changes labels of a pod: a JSON object, null for a label that goes.
func LabelPod(t *testing.T, pod *corev1.Pod, labels string) {
	t.Helper()
	patch := []byte(`{"metadata":{"labels":` + labels + `}}`)
	if _, err := cluster.Client.CoreV1().Pods(pod.Namespace).Patch(t.Context(), pod.Name, types.MergePatchType, patch,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// Addresses are those of a pod's status, in the order of the lab's families.
func Addresses(pod *corev1.Pod) []netip.Addr {
	var addrs []netip.Addr
	for _, ip := range pod.Status.PodIPs {
		addrs = append(addrs, netip.MustParseAddr(ip.IP))
	}
	return addrs
}

// HasAddress says whether an address is one of a pod's.
func HasAddress(pod *corev1.Pod, addr netip.Addr) bool { return slices.Contains(Addresses(pod), addr) }

// Port is where the server of a pod serves: EchoPort, or the port of OnHost.
func Port(pod *corev1.Pod) uint16 {
	if pod.Spec.HostNetwork {
		return uint16(pod.Spec.Containers[0].Ports[0].ContainerPort)
	}
	return EchoPort
}

// Endpoints are the addresses of pods, each with the port at which its pod serves.
func Endpoints(pods ...*corev1.Pod) (all []netip.AddrPort) {
	for _, pod := range pods {
		for _, addr := range Addresses(pod) {
			all = append(all, netip.AddrPortFrom(addr, Port(pod)))
		}
	}
	return all
}

// OfFamily is the first address of a list that has the family of another one; the zero one without such.
func OfFamily(addrs []netip.Addr, like netip.Addr) netip.Addr {
	for _, addr := range addrs {
		if addr.Is4() == like.Is4() {
			return addr
		}
	}
	return netip.Addr{}
}
