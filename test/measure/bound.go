package main

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
)

const (
	system = "ovn-kubernetes"
	// boundNetwork gives each node room for 8,187 pods.
	boundNetwork = "10.128.0.0/16/19"
)

// connected is the metric of a controller that follows the Northbound database.
var connected = regexp.MustCompile(`(?m)^ovn_offload_ovsdb_connected{database="OVN_Northbound"[^}]*} 1$`)

// boundPods creates thousands of pods that are bound to a node without kubelet or
// agent, and waits until all are annotated and in the Northbound database. It does
// so twice: with the node there, where the API server's time to create the pods
// counts, and with the node coming last, where it does not. The nodes get large
// subnets from a second pod network in the controller's configuration, and the
// annotation that an agent would write from here. All of that stays in the lab:
// this is the last measurement in it.
func (b *bench) boundPods(ctx context.Context) error {
	if err := b.addNetwork(ctx); err != nil {
		return err
	}
	if err := b.boundTo(ctx, "node-first", "10.128.0.0/19", true); err != nil {
		return err
	}
	fmt.Println()
	if err := b.boundTo(ctx, "node-last", "10.128.32.0/19", false); err != nil {
		return err
	}
	fmt.Println()
	return b.bareWrites(ctx, "node-first")
}

// bareWrites annotates as many pods with nothing behind it: what the API server
// needs for that alone. The pods are on their node's network, so that the
// controller leaves them alone.
func (b *bench) bareWrites(ctx context.Context, node string) error {
	w, err := watchPods(ctx, b.client)
	if err != nil {
		return err
	}
	defer w.stop()
	w.hostNetwork = true
	if err := w.createMany(ctx, "bare", node, b.bound); err != nil {
		return err
	}
	pods, err := b.client.CoreV1().Pods(w.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if err := b.settled(ctx); err != nil {
		return err
	}
	before, err := b.costs()
	if err != nil {
		return err
	}
	annotation := map[string]string{contract.PodNetworksKey: `{"default":{"ip_addresses":["10.128.32.4/19"],"mac_address":"0a:58:0a:80:20:04",` +
		`"gateway_ips":["10.128.32.1"],"ip_address":"10.128.32.4/19","gateway_ip":"10.128.32.1","role":"primary"}}`}
	network, err := b.asController()
	if err != nil {
		return err
	}
	writer := kube.NewWriter(apitest.Client(network))
	start := time.Now()
	group, writing := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for i := range pods.Items {
		group.Go(func() error { return writer.AnnotatePod(writing, &pods.Items[i], annotation) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	t := newTable(fmt.Sprintf("%d annotations written, and nothing done with them: seconds", b.bound), "s")
	t.add("all written", time.Since(start).Seconds())
	t.print()
	return b.printCosts(before)
}

func (b *bench) boundTo(ctx context.Context, node, subnet string, nodeFirst bool) error {
	w, err := watchPods(ctx, b.client)
	if err != nil {
		return err
	}
	defer w.stop()
	addNode := func() error { return b.addNode(ctx, node, subnet) }
	addPods := func() error { return w.createMany(ctx, "bound", node, b.bound) }
	steps := []func() error{addNode, addPods}
	if !nodeFirst {
		steps = []func() error{addPods, addNode}
	}
	if err := steps[0](); err != nil {
		return err
	}
	if err := b.settled(ctx); err != nil {
		return err
	}
	before, err := b.costs()
	if err != nil {
		return err
	}
	start := time.Now()
	if err := steps[1](); err != nil {
		return err
	}
	t := newTable(fmt.Sprintf("%d pods, %s: seconds until", b.bound, node), "s")
	if nodeFirst {
		t.add("all created", time.Since(start).Seconds())
	}
	if err := w.wait(ctx, func(t *podTimes) bool { return !t.annotated.IsZero() }); err != nil {
		return err
	}
	t.add("all annotated, seen by a watch", time.Since(start).Seconds())
	if err := b.waitPorts(ctx, w.namespace); err != nil {
		return err
	}
	t.add("**all annotated and in NB**", time.Since(start).Seconds())
	if _, err := b.lab.Exec(ctx, b.nodes[0], "ovn-nbctl", "--wait=sb", "sync"); err != nil {
		return err
	}
	t.add("all in SB, by northd", time.Since(start).Seconds())
	t.print()
	return b.printCosts(before)
}

// addNetwork gives the controller a pod network with large subnets.
func (b *bench) addNetwork(ctx context.Context) error {
	config, err := b.client.CoreV1().ConfigMaps(system).Get(ctx, "ovn-config", metav1.GetOptions{})
	if err != nil {
		return err
	}
	config.Data["net_cidr"] += "," + boundNetwork
	if _, err := b.client.CoreV1().ConfigMaps(system).Update(ctx, config, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if err := b.lab.Restart(ctx, "controller"); err != nil {
		return err
	}
	// Connected to the database it leads.
	return b.eventually(ctx, func() (bool, error) {
		text, err := b.lab.Exec(ctx, b.nodes[0], "curl", "-s", "http://127.0.0.1:9411/metrics")
		return err == nil && connected.MatchString(text), nil
	})
}

func (b *bench) addNode(ctx context.Context, name, subnet string) error {
	subnets, err := json.Marshal(map[string][]string{contract.DefaultNetwork: {subnet}})
	if err != nil {
		return err
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
			contract.NodeSubnetsKey: string(subnets), contract.NodeChassisIDKey: "no-chassis-" + name,
		}},
		Spec: corev1.NodeSpec{Unschedulable: true},
	}
	network, err := b.asController()
	if err != nil {
		return err
	}
	_, err = network.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	return err
}

// asController is a client that may write the annotations of the network, too.
func (b *bench) asController() (kubernetes.Interface, error) {
	cfg, err := b.lab.REST()
	if err != nil {
		return nil, err
	}
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + system + ":ovnkube-master", Groups: []string{"system:masters"}}
	return kubernetes.NewForConfig(cfg)
}

// settled waits until what was done before is in the flows.
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
