//go:build e2e

package world

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/ovn-offload/ovn-offload/test/testbed"
)

// Nodes are the cluster's first three.
var Nodes = []string{"ovn-control-plane", "ovn-worker", "ovn-worker2"}

// OnNode runs a command in the namespaces of a node, or on the external host, and returns what it printed.
func OnNode(node string, command ...string) (string, error) {
	var out bytes.Buffer
	if node == Outside {
		err := cluster.RunExternal(&out, command...)
		return out.String(), err
	}
	err := cluster.Run(&out, node, command...)
	return out.String(), err
}

// MustOnNode is OnNode for a command that has to succeed; a client has time to repeat a lost packet.
func MustOnNode(t *testing.T, node string, command ...string) string {
	t.Helper()
	out, err := OnNode(node, Patiently(command)...)
	if err != nil {
		t.Fatalf("%v on %s: %v: %s", command, node, err, out)
	}
	return out
}

// execWithin bounds a command in a pod.
const execWithin = 2 * time.Minute

// InPod runs a command in a pod's container and returns what it printed.
func InPod(ns, name string, command ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), execWithin)
	defer cancel()
	run := byAPI
	if cluster.InContainer != nil {
		run = byNode
	}
	var out, messages bytes.Buffer
	err := run(ctx, types.NamespacedName{Namespace: ns, Name: name}, command, &out, &messages)
	if err != nil {
		err = fmt.Errorf("%w: %s", err, messages.String())
	}
	return out.String(), err
}

// MustInPod is InPod for a command that has to succeed; a client has time to repeat a lost packet.
func MustInPod(t *testing.T, pod *corev1.Pod, command ...string) string {
	t.Helper()
	out, err := InPod(pod.Namespace, pod.Name, Patiently(command)...)
	if err != nil {
		t.Fatalf("%v in %s on %s: %v: %s", command, pod.Name, pod.Spec.NodeName, err, out)
	}
	return out
}

// byNode runs a command in a pod's container from the lab's node.
func byNode(ctx context.Context, of types.NamespacedName, command []string, out, messages io.Writer) error {
	pod, err := cluster.Client.CoreV1().Pods(of.Namespace).Get(ctx, of.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range pod.Status.ContainerStatuses {
		if id, ok := strings.CutPrefix(c.ContainerID, "containerd://"); ok && c.Name == container {
			return cluster.InContainer(ctx, testbed.Container{Node: pod.Spec.NodeName, ID: id}, command, out, messages)
		}
	}
	return fmt.Errorf("pod %s has no container %s that runs", of, container)
}

// byAPI runs a command in a pod's container as kubectl exec does.
func byAPI(ctx context.Context, of types.NamespacedName, command []string, out, messages io.Writer) error {
	options := &corev1.PodExecOptions{Container: container, Command: command, Stdout: true, Stderr: true}
	request := cluster.Client.CoreV1().RESTClient().Post().Resource("pods").Namespace(of.Namespace).Name(of.Name).
		SubResource("exec").VersionedParams(options, scheme.ParameterCodec)
	executor, err := remotecommand.NewWebSocketExecutor(cluster.Config, "GET", request.URL().String())
	if err != nil {
		return err
	}
	return executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: out, Stderr: messages})
}

// NodeAddresses are those of a node or of the external host, IPv4 first.
func NodeAddresses(t *testing.T, machine string) []netip.Addr {
	t.Helper()
	link := "eth0"
	if machine != Outside {
		link = "breth0"
	}
	var v4, v6 []netip.Addr
	out := MustOnNode(t, machine, "ip", "-o", "addr", "show", "dev", link, "scope", "global")
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		prefix := netip.MustParsePrefix(fields[3])
		switch {
		case strings.Contains(line, "deprecated") || prefix.Addr().IsLinkLocalUnicast():
		case prefix.Addr().Is4():
			v4 = append(v4, prefix.Addr())
		default:
			v6 = append(v6, prefix.Addr())
		}
	}
	return append(v4, v6...)
}

// InternalIP is the first internal address that a node's status has.
func InternalIP(t *testing.T, name string) netip.Addr {
	t.Helper()
	node, err := cluster.Client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			return netip.MustParseAddr(address.Address)
		}
	}
	t.Fatalf("node %s has no address", name)
	return netip.Addr{}
}
