package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// The label contract.SetUpLabel of a Node says in which mode an agent has set the node up. While the label is there,
// Open vSwitch stays on the node, whatever the role of the Node is. The agent writes the label before the first change
// of the node, and the clean-up removes the label after the last one.

// labelMode makes the loop that keeps the label.
func (n *parts) labelMode(mode string) *reconcile.Single {
	cfg := reconcile.Defaults("set-up-label")
	cfg.Logger, cfg.Registerer = n.Logger, n.metrics
	loop := reconcile.NewSingle(cfg, func(ctx context.Context) error {
		object := n.node()
		if object == nil {
			return fmt.Errorf("node %s is not in the cache: %w", n.Node.Node, reconcile.ErrNotReady)
		}
		return n.writer.LabelNode(ctx, object, map[string]string{contract.SetUpLabel: mode})
	})
	n.onNode(loop.Mark)
	return loop
}

// labelTimeout is how long a new node waits for its label. A policy of an older release may refuse the label.
const labelTimeout = 30 * time.Second

// labelled is the Node as a set-up may see it: nil until the label says that the node will need a clean-up. A node that
// has been set up already does not wait, because its network may be the way to the API server.
func (n *parts) labelled(mode string) func() *corev1.Node {
	_, err := os.Stat(n.Node.Checkpoint)
	begin := time.Now()
	return func() *corev1.Node {
		return onceLabelled(n.node(), mode, err == nil || time.Since(begin) > labelTimeout)
	}
}

// onceLabelled is nil until the label is there, unless the caller does not wait for the label.
func onceLabelled(object *corev1.Node, mode string, anyway bool) *corev1.Node {
	if object == nil || !anyway && object.Labels[contract.SetUpLabel] != mode {
		return nil
	}
	return object
}

// releaseTimeout bounds Release.
const releaseTimeout = 30 * time.Second

// Release removes the label from the Node, and those of physical networks. A Node that does not exist has none.
func Release(ctx context.Context, cfg Config) error {
	if cfg.Node.Node == "" {
		return errors.New("no node name is configured")
	}
	client, err := api.New(cfg.Kube)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	return release(ctx, client, cfg.Node.Node)
}

func release(ctx context.Context, client *api.Client, name string) error {
	object, err := client.Nodes.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading node %s: %w", name, err)
	}
	labels := node.PhysicalLabels("", object.Labels)
	labels[contract.SetUpLabel] = ""
	return kube.NewWriter(client).LabelNode(ctx, object, labels)
}
