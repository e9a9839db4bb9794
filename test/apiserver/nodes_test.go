//go:build apiserver

package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
)

const (
	nodeKey      = "authentication.kubernetes.io/node-name"
	agentAccount = "system:serviceaccount:" + system + ":ovnkube-node"
)

// nodes are objects alone, with what their agents would have written.
var nodes = []string{"ovn-control-plane", "ovn-worker", "ovn-worker2"}

// makeNodes makes the Nodes, and with the rights of their agents the annotations and NodeOffloads.
func makeNodes(ctx context.Context) error {
	for i, name := range nodes {
		address := fmt.Sprintf("172.18.0.%d", i+3)
		object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
			"volumes.kubernetes.io/controller-managed-attach-detach": "true", // as a kubelet does
		}}}
		node, err := cluster.client.CoreV1().Nodes().Create(ctx, object, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}
		if node, err = cluster.client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
			return err
		}
		agent := impersonating(agentAccount, map[string][]string{nodeKey: {name}})
		client, err := kubernetes.NewForConfig(agent)
		if err != nil {
			return err
		}
		if err := kube.NewWriter(apitest.Client(client)).AnnotateNode(ctx, node, map[string]string{
			contract.NodeChassisIDKey: "chassis-" + name, contract.NodeEncapIPsKey: fmt.Sprintf("[%q]", address),
			contract.HostCIDRsKey: fmt.Sprintf("[\"%s/16\"]", address),
		}); err != nil {
			return fmt.Errorf("annotating %s: %w", name, err)
		}
		if err := reportOffload(ctx, agent, node); err != nil {
			return fmt.Errorf("writing NodeOffload %s: %w", name, err)
		}
	}
	return nil
}

// reportOffload makes the NodeOffload of a node without devices.
func reportOffload(ctx context.Context, agent *rest.Config, node *corev1.Node) error {
	client, err := dynamic.NewForConfig(agent)
	if err != nil {
		return err
	}
	report, err := v1alpha1.Encode(&v1alpha1.NodeOffload{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.Version, Kind: "NodeOffload"},
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
		}},
		Status: v1alpha1.NodeOffloadStatus{
			Offload: v1alpha1.OffloadNone, Reason: "nothing to offload to",
			Versions: v1alpha1.Versions{Agent: "test", Kernel: "6.12", OVN: "25.03.0"},
		},
	})
	if err != nil {
		return err
	}
	_, err = client.Resource(v1alpha1.NodeOffloads()).Create(ctx, report, metav1.CreateOptions{})
	return err
}

// impersonating has the rights of another user.
func impersonating(user string, extra map[string][]string, groups ...string) *rest.Config {
	cfg := rest.CopyConfig(cluster.config)
	cfg.Impersonate = rest.ImpersonationConfig{
		UserName: user, Extra: extra, Groups: append(groups, "system:serviceaccounts", "system:authenticated"),
	}
	return cfg
}

// as is a client with the rights of another user.
func as(t *testing.T, user string, extra map[string][]string, groups ...string) kubernetes.Interface {
	t.Helper()
	return clientOf(t, impersonating(user, extra, groups...))
}

// asDry is such a client whose writes the API server checks and does not do: tests beside this one see none of them.
func asDry(t *testing.T, user string, extra map[string][]string, groups ...string) kubernetes.Interface {
	t.Helper()
	return dry(t, impersonating(user, extra, groups...))
}

// dry is a client whose writes are dry runs.
func dry(t *testing.T, cfg *rest.Config) kubernetes.Interface {
	t.Helper()
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return dryRuns{next} })
	return clientOf(t, cfg)
}

type dryRuns struct{ http.RoundTripper }

func (d dryRuns) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet {
		request = request.Clone(request.Context())
		query := request.URL.Query()
		query.Set("dryRun", metav1.DryRunAll)
		request.URL.RawQuery = query.Encode()
	}
	return d.RoundTripper.RoundTrip(request)
}

func clientOf(t *testing.T, cfg *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// annotatePod writes another value each time, for equal ones are no change.
func annotatePod(client kubernetes.Interface, ns, name, key string) func(context.Context) error {
	return func(ctx context.Context) error {
		pod, err := cluster.client.CoreV1().Pods(ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		value := fmt.Sprintf(`{"test":"%d"}`, time.Now().UnixNano())
		return kube.NewWriter(apitest.Client(client)).AnnotatePod(ctx, pod, map[string]string{key: value})
	}
}

func annotateNode(client kubernetes.Interface, name, key string) func(context.Context) error {
	return func(ctx context.Context) error {
		node, err := cluster.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		// A space more or less changes nothing for who reads it.
		return kube.NewWriter(apitest.Client(client)).AnnotateNode(ctx, node, map[string]string{key: node.Annotations[key] + " "})
	}
}

// labelNode writes a label, and then takes its value.
func labelNode(client kubernetes.Interface, name, key string) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, value := range []string{"test", ""} {
			node, err := cluster.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if err := kube.NewWriter(apitest.Client(client)).LabelNode(ctx, node, map[string]string{key: value}); err != nil {
				return err
			}
		}
		return nil
	}
}

// patchNode changes the metadata of a Node.
func patchNode(client kubernetes.Interface, node string, metadata map[string]any, subresources ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		patch, err := json.Marshal(map[string]any{"metadata": metadata})
		if err == nil {
			_, err = client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{}, subresources...)
		}
		return err
	}
}

func label(key, value string) map[string]any {
	return map[string]any{"labels": map[string]any{key: value}}
}

// annotation is one annotation of an object's metadata; a nil value removes it.
func annotation(key string, value any) map[string]any {
	return map[string]any{"annotations": map[string]any{key: value}}
}
