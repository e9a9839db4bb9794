package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
)

// lookups asks the userspace datapath how often a packet passes its tables,
// while two pods ping each other. The kernel's datapath does not count that.
func (b *bench) lookups(ctx context.Context) error {
	w, err := watchPods(ctx, b.client)
	if err != nil {
		return err
	}
	defer w.close(ctx)
	for name, node := range map[string]string{"a": b.worker(), "b": b.worker(), "c": b.nodes[0]} {
		if err := w.create(ctx, name, node); err != nil {
			return err
		}
	}
	if err := w.waitReady(ctx); err != nil {
		return err
	}
	t := newTable("ping", "node", "packets", "passes a packet")
	for _, path := range []struct{ title, to string }{{"same node", "b"}, {"across nodes", "c"}} {
		for _, node := range b.nodes {
			if _, err := b.lab.Exec(ctx, node, "ovs-appctl", "dpif-netdev/pmd-stats-clear"); err != nil {
				fmt.Println("no userspace datapath here:", err)
				return w.clear(ctx)
			}
		}
		if err := b.ping(ctx, w, "a", path.to); err != nil {
			return err
		}
		for _, node := range b.nodes {
			text, err := b.lab.Exec(ctx, node, "ovs-appctl", "dpif-netdev/pmd-stats-show")
			if err != nil {
				return err
			}
			t.add(path.title, node, stat(text, "packets received"), stat(text, "avg. datapath passes per packet"))
		}
	}
	t.print()
	return w.clear(ctx)
}

// ping sends a thousand packets from one pod to another.
func (b *bench) ping(ctx context.Context, w *watched, from, to string) error {
	target, err := b.client.CoreV1().Pods(w.namespace).Get(ctx, to, metav1.GetOptions{})
	if err != nil {
		return err
	}
	request := b.client.CoreV1().RESTClient().Post().Resource("pods").Namespace(w.namespace).Name(from).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Command: []string{"ping", "-q", "-c1000", "-i0.002", target.Status.PodIP}, Stdout: true}, scheme.ParameterCodec)
	config, err := b.lab.REST()
	if err != nil {
		return err
	}
	executor, err := remotecommand.NewWebSocketExecutor(config, "GET", request.URL().String())
	if err != nil {
		return err
	}
	if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: io.Discard}); err != nil {
		return fmt.Errorf("ping from %s to %s: %w", from, to, err)
	}
	return nil
}

// stat is the first value with this name.
func stat(text, name string) string {
	_, rest, _ := strings.Cut(text, name+": ")
	value, _, _ := strings.Cut(rest, "\n")
	return value
}
