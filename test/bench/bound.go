package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/kube"
)

const (
	fakeNode   = "no-kubelet"
	fakeSubnet = "10.128.0.0/19"
	system     = "ovn-kubernetes"
)

// boundPods creates thousands of pods that are bound to a node without kubelet or
// agent, and waits until all are annotated and in the Northbound database. The
// node gets its large subnet from a second pod network in the controller's
// configuration, and the annotation that an agent would write from here. All of
// that stays in the lab: this is the last measurement in it.
func (b *bench) boundPods(ctx context.Context) error {
	if err := b.addFakeNode(ctx); err != nil {
		return err
	}
	before, err := b.costs()
	if err != nil {
		return err
	}
	w, err := watchPods(ctx, b.client)
	if err != nil {
		return err
	}
	defer w.close(ctx)
	start := time.Now()
	if err := w.createMany(ctx, "bound", fakeNode, b.bound); err != nil {
		return err
	}
	created := time.Since(start)
	if err := w.wait(ctx, func(t *podTimes) bool { return !t.annotated.IsZero() }); err != nil {
		return err
	}
	annotated := time.Since(start)
	if err := b.waitPorts(ctx, w.namespace); err != nil {
		return err
	}
	present := time.Since(start)
	if _, err := b.lab.Exec(ctx, b.nodes[0], "ovn-nbctl", "--wait=sb", "sync"); err != nil {
		return err
	}
	translated := time.Since(start)
	after, err := b.costs()
	if err != nil {
		return err
	}
	t := newTable(fmt.Sprintf("%d pods, from the first create call", b.bound), "s")
	t.add("created (the API server's own time)", created.Seconds())
	t.add("all annotated, seen by a watch", annotated.Seconds())
	t.add("**all annotated and in NB**", present.Seconds())
	t.add("northd has written all into SB", translated.Seconds())
	t.print()
	fmt.Println()
	t = newTable("process", "node", "CPU seconds", "RSS MB afterwards")
	for _, c := range components {
		for _, node := range b.nodes {
			if used, ok := after[[2]string{c.title, node}]; ok {
				t.add(c.title, node, (used.cpu - before[[2]string{c.title, node}].cpu).Seconds(), megabytes(used.resident))
			}
		}
	}
	t.print()
	return nil
}

// addFakeNode returns when the node's switch is in the database.
func (b *bench) addFakeNode(ctx context.Context) error {
	config, err := b.client.CoreV1().ConfigMaps(system).Get(ctx, "ovn-config", metav1.GetOptions{})
	if err != nil {
		return err
	}
	config.Data["net_cidr"] += ",10.128.0.0/16/19"
	if _, err := b.client.CoreV1().ConfigMaps(system).Update(ctx, config, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if err := b.lab.Restart(ctx, "controller"); err != nil {
		return err
	}
	subnets, err := json.Marshal(map[string][]string{kube.DefaultNetwork: {fakeSubnet}})
	if err != nil {
		return err
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fakeNode, Annotations: map[string]string{
		kube.NodeSubnetsKey: string(subnets), kube.NodeChassisIDKey: "00000000-0000-4000-8000-00000000beef",
	}}, Spec: corev1.NodeSpec{Unschedulable: true}}
	if _, err := b.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := b.eventually(ctx, func() (bool, error) {
		out, err := b.lab.Exec(ctx, b.nodes[0], "ovn-nbctl", "--bare", "--columns=name", "find", "Logical_Switch", "name="+fakeNode)
		return strings.TrimSpace(out) == fakeNode, err
	}); err != nil {
		return fmt.Errorf("waiting for the switch of %s: %w", fakeNode, err)
	}
	return b.settled(ctx)
}

// settled waits until the restarted controller has worked off its first pass.
func (b *bench) settled(ctx context.Context) error {
	_, err := b.lab.Exec(ctx, b.nodes[0], "ovn-nbctl", "--wait=hv", "--timeout=60", "sync")
	pause(ctx, 5*time.Second)
	return err
}

// waitPorts polls the database, cheaply compared with what is going on in it.
func (b *bench) waitPorts(ctx context.Context, namespace string) error {
	return b.eventually(ctx, func() (bool, error) {
		out, err := b.lab.Exec(ctx, b.nodes[0], "ovn-nbctl", "--bare", "--columns=name", "find", "Logical_Switch_Port", "external_ids:namespace="+namespace)
		return len(strings.Fields(out)) == b.bound, err
	})
}

func (b *bench) eventually(ctx context.Context, ok func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, podsWithin)
	defer cancel()
	for {
		if done, err := ok(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}
