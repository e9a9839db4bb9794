//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/testbed"
)

var (
	kind     = flag.String("cluster", "lab", "cluster to test: lab, or kind for that of deploy/kind/up and deploy/kind/tools")
	labName  = flag.String("lab", "e2e", "name of the lab; brought up when it is not there")
	smartNIC = flag.Bool("smartnic", false, "add a node that is a virtual machine with a SmartNIC, for TestSmartNIC_KubeletGivesVFsToPods")
	keep     = flag.Bool("keep", false, "leave the lab running")
	families = flag.String("families", "dual", "address families of the lab: ipv4, dual, ipv6")
	upFlags  = flag.String("up", "", "further flags of lab up, with spaces between: --control-planes=3 --pod-cidr=10.244.0.0/21")
)

const (
	image     = "lab-tools:dev"
	system    = "ovn-kubernetes"
	echoPort  = 8080
	podWithin = 2 * time.Minute
	// soon is what a busy machine may need for a thing that takes a second.
	soon = 40 * time.Second
	// flowsWithin is when each answer knows a flow, or knows it no longer: an agent rests up to a minute between
	// two readings of the datapath, where a flow ends ten seconds after its last packet.
	flowsWithin = time.Minute + 10*time.Second + soon
)

var nodes = []string{"ovn-control-plane", "ovn-worker", "ovn-worker2"}

// cluster is what all tests share.
var cluster struct {
	testbed.Cluster
	client kubernetes.Interface
	config *rest.Config
	root   string // of the repository
}

func theLab() testbed.Lab { return testbed.Lab{Root: cluster.root, Name: *labName} }

// onlyInLab skips a test that asks more of the machine than the verbs of testbed.Cluster.
func onlyInLab(t *testing.T, why string) {
	t.Helper()
	if *kind != "lab" {
		t.Skip("only in the lab: " + why)
	}
}

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runAll(m *testing.M) (int, error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return 1, err
	}
	cluster.root = root
	switch *kind {
	case "kind":
		if err := choosePortable(); err != nil {
			return 1, err
		}
		dir, err := os.MkdirTemp("", "e2e")
		if err != nil {
			return 1, err
		}
		defer os.RemoveAll(dir)
		if cluster.Cluster, err = testbed.NewKind("ovn", dir); err != nil {
			return 1, err
		}
	case "lab":
		cluster.Cluster = theLab()
		if err := skipFaults(); err != nil {
			return 1, err
		}
		if !*keep {
			defer labCommand(os.Stdout, "down")
		}
		if err := labUp(os.Stdout); err != nil {
			return 1, fmt.Errorf("bringing up the lab: %w", err)
		}
	default:
		return 1, fmt.Errorf("-cluster=%s: want lab or kind", *kind)
	}
	_, kubeconfig := cluster.Kubectl()
	cluster.config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return 1, err
	}
	cluster.config.QPS = -1
	cluster.client, err = kubernetes.NewForConfig(cluster.config)
	if err != nil {
		return 1, err
	}
	world.Join(cluster.client)
	return m.Run(), nil
}

// sixes says of each of the lab's families whether it is IPv6, in the order in which
// pods have addresses.
func sixes() []bool {
	return map[string][]bool{"ipv4": {false}, "dual": {false, true}, "ipv6": {true}}[*families]
}

// labCommand runs a verb of the lab's own command.
func labCommand(out io.Writer, verb string, args ...string) error {
	return theLab().Command(out, verb, args...)
}

// labUp brings the lab up, or repairs it.
func labUp(out io.Writer, args ...string) error {
	if *upgradeFrom != "" {
		args = append(args, "--product="+*upgradeFrom)
	} else if !withMultus() {
		args = append(args, "--set=networks.native=true")
	}
	return labCommand(out, "up", slices.Concat([]string{"--families=" + *families}, strings.Fields(*upFlags), args)...)
}

// withMultus says that Multus asks for the pods' interfaces on further networks.
func withMultus() bool { return strings.Contains(*upFlags, "--multus") }

// onNode runs a command in a node's namespaces, `outside` included.
func onNode(node string, command ...string) (string, error) {
	var out bytes.Buffer
	if node == outside {
		err := cluster.RunExternal(&out, command...)
		return out.String(), err
	}
	err := cluster.Run(&out, node, command...)
	return out.String(), err
}

func mustOnNode(t *testing.T, node string, command ...string) string {
	t.Helper()
	out, err := onNode(node, patiently(command)...)
	if err != nil {
		t.Fatalf("%v on %s: %v: %s", command, node, err, out)
	}
	return out
}

// restart kills a component with SIGKILL; what supervises it starts it again.
func restart(t *testing.T, component string) {
	t.Helper()
	if err := cluster.Restart(component); err != nil {
		t.Fatalf("restarting %s: %v", component, err)
	}
}

// namespace makes a namespace that ends with the test.
func namespace(t *testing.T) string {
	t.Helper()
	return labelledNamespace(t, nil)
}

// labelledNamespace is namespace with labels from the beginning on.
func labelledNamespace(t *testing.T, labels map[string]string) string {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-", Labels: labels}}
	made, err := cluster.client.CoreV1().Namespaces().Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			report(t, made.Name)
		}
		cluster.client.CoreV1().Namespaces().Delete(context.Background(), made.Name, metav1.DeleteOptions{})
	})
	return made.Name
}

// report prints what one wants to see of a failed test.
func report(t *testing.T, ns string) {
	pods, _ := cluster.client.CoreV1().Pods(ns).List(context.Background(), metav1.ListOptions{})
	for _, pod := range pods.Items {
		t.Logf("pod %s on %s: %s %v %v", pod.Name, pod.Spec.NodeName, pod.Status.Phase, pod.Status.PodIPs, pod.Annotations)
	}
	events, _ := cluster.client.CoreV1().Events(ns).List(context.Background(), metav1.ListOptions{})
	for _, event := range events.Items {
		if event.Type != corev1.EventTypeNormal {
			t.Logf("event %s %s: %s", event.InvolvedObject.Name, event.Reason, event.Message)
		}
	}
}

// podObject is a pod of the tools image, on a node of its own choice when node is "".
func podObject(ns, name, node string, command ...string) *corev1.Pod {
	if len(command) == 0 {
		command = []string{"probe", "serve", fmt.Sprint(echoPort)}
	}
	grace := int64(0)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			NodeName:                      node,
			TerminationGracePeriodSeconds: &grace,
			RestartPolicy:                 corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name: "main", Image: image, ImagePullPolicy: corev1.PullNever, Command: command,
				SecurityContext: &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_RAW", "NET_ADMIN"}}},
			}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		},
	}
}

func create(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if _, err := cluster.client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// running makes a pod and waits until it answers.
func running(t *testing.T, ns, name, node string) *corev1.Pod {
	t.Helper()
	create(t, podObject(ns, name, node))
	return listening(t, waitPod(t, ns, name, "Running", isRunning))
}

func deletePod(t *testing.T, ns, name string) {
	t.Helper()
	if err := cluster.client.CoreV1().Pods(ns).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// listening waits until a pod's process, which runs, listens.
func listening(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	mustInPod(t, pod, "probe", "await", fmt.Sprint("127.0.0.1:", echoPort))
	return pod
}

func isRunning(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning && len(pod.Status.PodIPs) > 0
}

// waitPod waits until a pod is ok, in a way that lasts: it looks five times a second.
func waitPod(t *testing.T, ns, name, what string, ok func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	return waitPodWithin(t, podWithin, ns+"/"+name, what, ok)
}

// waitPodWithin is for pods on slow nodes; pod is namespace/name.
func waitPodWithin(t *testing.T, within time.Duration, pod, what string, ok func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	ns, name, _ := strings.Cut(pod, "/")
	var last *corev1.Pod
	eventually(t, within, "pod "+pod+" is "+what, func() (bool, string) {
		now, err := cluster.client.CoreV1().Pods(ns).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		last = now
		return ok(now), fmt.Sprintf("%+v", now)
	})
	return last
}

// inPod runs a command in a pod's container and returns what it printed.
func inPod(ns, name string, command ...string) (string, error) {
	var out bytes.Buffer
	err := printing(&out, ns, name, command...)
	return out.String(), err
}

// printing runs a command in a pod's container, which prints to out.
func printing(out io.Writer, ns, name string, command ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var messages bytes.Buffer
	run := byAPI
	if *kind == "lab" {
		run = byNode
	}
	if err := run(ctx, types.NamespacedName{Namespace: ns, Name: name}, command, out, &messages); err != nil {
		return fmt.Errorf("%w: %s", err, messages.String())
	}
	return nil
}

// byNode runs a command in a pod's container from the lab's node.
func byNode(ctx context.Context, of types.NamespacedName, command []string, out, messages io.Writer) error {
	pod, err := cluster.client.CoreV1().Pods(of.Namespace).Get(ctx, of.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range pod.Status.ContainerStatuses {
		if id, ok := strings.CutPrefix(c.ContainerID, "containerd://"); ok && c.Name == "main" {
			return theLab().RunInContainer(ctx, testbed.Container{Node: pod.Spec.NodeName, ID: id}, command, out, messages)
		}
	}
	return fmt.Errorf("pod %s has no container main that runs", of)
}

// byAPI runs a command in a pod's container as kubectl exec does.
func byAPI(ctx context.Context, of types.NamespacedName, command []string, out, messages io.Writer) error {
	request := cluster.client.CoreV1().RESTClient().Post().Resource("pods").Namespace(of.Namespace).Name(of.Name).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: "main", Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	executor, err := remotecommand.NewWebSocketExecutor(cluster.config, "GET", request.URL().String())
	if err != nil {
		return err
	}
	return executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: out, Stderr: messages})
}

func mustInPod(t *testing.T, pod *corev1.Pod, command ...string) string {
	t.Helper()
	out, err := inPod(pod.Namespace, pod.Name, patiently(command)...)
	if err != nil {
		t.Fatalf("%v in %s on %s: %v: %s", command, pod.Name, pod.Spec.NodeName, err, out)
	}
	return out
}

// patience is how many seconds a client waits: longer than a busy machine needs, and longPatience longer than
// one needs that lost three SYNs.
const patience, longPatience = "5", "20"

// patiently gives a dial that is to succeed the time in which a first packet that a busy
// machine has lost is repeated.
func patiently(command []string) []string {
	if len(command) < 4 || command[0] != "probe" || command[1] != "dial" || command[2] == "sctp" {
		return command
	}
	arguments := []string{"0", longPatience}
	if given := len(command) - 4; given < len(arguments) {
		return slices.Concat(command, arguments[given:])
	}
	return command
}

// eventually is the one poller of these tests: it ends with the condition, so that a long time
// costs a test nothing that passes.
func eventually(t *testing.T, within time.Duration, what string, ok func() (bool, string)) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		good, seen := ok()
		if good {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s not yet: %s; seen: %s", within, what, seen)
		}
		time.Sleep(200 * time.Millisecond)
	}
}
