//go:build e2e

package world

import (
	"context"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pods are those of a namespace of the shared world, each list in the order of Nodes.
type Pods struct {
	Namespace string
	Clients   []*corev1.Pod
	// Servers answer TCP, UDP and SCTP with their names: server-0 and so on. Each has the labels app=web and server=its
	// name; the first two have first=yes, the last two have last=yes.
	Servers []*corev1.Pod
}

// World is what the tests of a run share that run beside others. A test adds objects of its own and changes none that
// are there: its services select servers by labels, and its policies select no pod of the world, whose pods are their
// clients. What a policy selects is in a namespace of the test.
type World struct {
	Pods
	// Other is another namespace, whose pods' names begin with "other-".
	Other Pods
	// Hosts are in the networks of the nodes, in the order of Nodes.
	Hosts []*corev1.Pod
	// Machines are the nodes themselves as clients, in the order of Nodes, and External is the external host.
	Machines []Client
	External Client
}

// shared is made by the first test that asks for it.
var shared struct {
	sync.Mutex
	world      *World
	namespaces []string
}

// Shared gives the shared world, with the server of the external host. The first caller makes it.
func Shared(t *testing.T) *World {
	t.Helper()
	ServeOutside(t)
	shared.Lock()
	defer shared.Unlock()
	if shared.world == nil {
		shared.world = populate(t)
	}
	w := shared.world
	t.Cleanup(func() {
		if t.Failed() {
			report(t, w.Namespace)
			report(t, w.Other.Namespace)
		}
	})
	return w
}

// Leave ends the shared world. The run's end calls it.
func Leave() {
	for _, ns := range shared.namespaces {
		deleteNamespace(ns)
	}
}

// populate makes all pods of a shared world at once.
func populate(t *testing.T) *World {
	t.Helper()
	w := &World{Pods: describe(t, ""), Other: describe(t, "other-"), External: FromNode(Outside)}
	for i, node := range Nodes {
		w.Machines = append(w.Machines, FromNode(node))
		w.Hosts = append(w.Hosts, Pod(w.Namespace, fmt.Sprint("host-", i), node, OnHost()))
	}
	all := append([]*corev1.Pod{}, w.Hosts...)
	for _, pods := range []Pods{w.Pods, w.Other} {
		all = append(append(all, pods.Clients...), pods.Servers...)
	}
	Run(t, all...)
	for _, pods := range []Pods{w.Pods, w.Other} {
		for _, server := range pods.Servers {
			Listening(t, server, EchoPort)
		}
	}
	return w
}

// describe makes a namespace, and describes its pods.
func describe(t *testing.T, prefix string) Pods {
	t.Helper()
	ns, err := createNamespace(t.Context(), prefix+"world", nil)
	if err != nil {
		t.Fatal(err)
	}
	shared.namespaces = append(shared.namespaces, ns)
	pods := Pods{Namespace: ns}
	const serve = `probe serve-sctp "$1" "$2" & exec probe serve "$1" "$2"`
	for i, node := range Nodes {
		name := fmt.Sprint(prefix, "server-", i)
		labels := map[string]string{"app": "web", "server": name}
		if i < len(Nodes)-1 {
			labels["first"] = "yes"
		}
		if i > 0 {
			labels["last"] = "yes"
		}
		pods.Clients = append(pods.Clients, Pod(ns, fmt.Sprint(prefix, "client-", i), node))
		pods.Servers = append(pods.Servers, Pod(ns, name, node, Labels(labels),
			Command("sh", "-c", serve, "sh", fmt.Sprint(EchoPort), name)))
	}
	return pods
}

// Add runs further pods in the namespace, until the test ends.
func (p Pods) Add(t *testing.T, pods ...*corev1.Pod) []*corev1.Pod {
	t.Helper()
	for _, pod := range pods {
		t.Cleanup(func() {
			cluster.Client.CoreV1().Pods(p.Namespace).Delete(context.Background(), pod.Name, metav1.DeleteOptions{})
		})
	}
	return Run(t, pods...)
}
