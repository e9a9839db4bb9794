//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ovn-offload/ovn-offload/deploy"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// TestDPU_WritesForItsHostOnly: a DPU changes what is its host's and nothing else, and so does
// the agent of a host. Each refusal has its control, the same write where it is
// due.
func TestDPU_WritesForItsHostOnly(t *testing.T) {
	world.Test(t, world.Access, world.Core, world.Strict)
	ns := namespace(t)
	applyDPURights(t)
	host, other := nodes[1], nodes[2]
	mine, theirs := podObject(ns, "mine", host), podObject(ns, "theirs", other)
	create(t, mine)
	create(t, theirs)
	dpu := asDry(t, "system:serviceaccount:ovn-dpu:"+host, nil, "system:serviceaccounts:ovn-dpu")
	agent := "system:serviceaccount:" + system + ":ovnkube-node-dpu-host"
	hostAgent := asDry(t, agent, map[string][]string{"authentication.kubernetes.io/node-name": {host}})
	stray := asDry(t, agent, nil) // a token without a node
	for _, tc := range []struct {
		name string
		may  bool
		do   func(context.Context) error
	}{
		{"a DPU, status of its host's pod", true, annotatePod(dpu, ns, "mine", contract.DPUStatusKey)},
		{"a DPU, status of another pod", false, annotatePod(dpu, ns, "theirs", contract.DPUStatusKey)},
		{"a DPU, details", false, annotatePod(dpu, ns, "mine", contract.DPUConnectionKey)},
		{"a DPU, addresses", false, annotatePod(dpu, ns, "mine", contract.PodNetworksKey)},
		{"a DPU, a pod's label", false, patchPod(dpu, ns, "mine", `{"metadata":{"labels":{"a":"%d"}}}`)},
		{"a DPU, a pod's phase", false, patchPod(dpu, ns, "mine", `{"status":{"message":"%d"}}`)},
		{"a DPU, its host's Node", true, annotateNode(dpu, host, contract.NodeEncapIPsKey)},
		{"a DPU, another Node", false, annotateNode(dpu, other, contract.NodeEncapIPsKey)},
		{"a DPU, its host's subnets", false, annotateNode(dpu, host, contract.NodeSubnetsKey)},
		{"a DPU, its host's management port", false, annotateNode(dpu, host, contract.ManagementPortKey)},
		{"a DPU, its Lease", true, makeLease(dpu, "ovn-dpu-"+host)},
		{"a DPU, another's Lease", false, makeLease(dpu, "ovn-dpu-"+other)},
		{"a DPU, any Lease", false, makeLease(dpu, "ovn-dpu-"+host+"-2")},
		{"a DPU, traffic of its host", true, changeOffload(dpu, host, func(s *v1alpha1.NodeOffloadStatus) { s.TrafficOmitted++ })},
		{"a DPU, devices of its host", false, changeOffload(dpu, host, func(s *v1alpha1.NodeOffloadStatus) { s.DeviceCount++ })},
		{"a DPU, version of its OVN", true, changeOffload(dpu, host, func(s *v1alpha1.NodeOffloadStatus) { s.Versions.OVN += "1" })},
		{"a DPU, kernel of its host", false, changeOffload(dpu, host, func(s *v1alpha1.NodeOffloadStatus) { s.Versions.Kernel += "1" })},
		{"a DPU, agent of its host", false, changeOffload(dpu, host, func(s *v1alpha1.NodeOffloadStatus) { s.Versions.Agent += "1" })},
		{"a DPU, problems of its host", false, changeOffload(dpu, host, func(s *v1alpha1.NodeOffloadStatus) { s.Problems = append(s.Problems, "none") })},
		{"a DPU, traffic of another host", false, changeOffload(dpu, other, func(s *v1alpha1.NodeOffloadStatus) { s.TrafficOmitted++ })},
		{"a host, details of its pod", true, annotatePod(hostAgent, ns, "mine", contract.DPUConnectionKey)},
		{"a host, details of another pod", false, annotatePod(hostAgent, ns, "theirs", contract.DPUConnectionKey)},
		{"a host, status", false, annotatePod(hostAgent, ns, "mine", contract.DPUStatusKey)},
		{"a host, its Node", false, annotateNode(hostAgent, host, contract.NodeEncapIPsKey)},
		{"a host, its management port", true, annotateNode(hostAgent, host, contract.ManagementPortKey)},
		{"a host, another's management port", false, annotateNode(hostAgent, other, contract.ManagementPortKey)},
		{"a host, labels of its Node's devices", true, labelNode(hostAgent, host, "ovn-offload.io/sriov")},
		{"a host, other labels", false, labelNode(hostAgent, host, "k8s.ovn.org/dpu")},
		{"a host, labels of another Node", false, labelNode(hostAgent, other, "ovn-offload.io/sriov")},
		{"a host, the Lease", false, makeLease(hostAgent, "ovn-dpu-"+host)},
		{"a host of no node", false, annotatePod(stray, ns, "mine", contract.DPUConnectionKey)},
	} {
		// Policies take a moment to come into force.
		eventually(t, soon, tc.name, func() (bool, string) {
			err := tc.do(t.Context())
			return tc.may && err == nil || !tc.may && apierrors.IsForbidden(err), fmt.Sprint(err)
		})
	}
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

func impersonating(user string, extra map[string][]string, groups ...string) *rest.Config {
	cfg := rest.CopyConfig(cluster.config)
	cfg.Impersonate = rest.ImpersonationConfig{
		UserName: user, Extra: extra, Groups: append(groups, "system:serviceaccounts", "system:authenticated"),
	}
	return cfg
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

func labelNode(client kubernetes.Interface, name, key string) func(context.Context) error {
	return func(ctx context.Context) error {
		node, err := cluster.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return kube.NewWriter(apitest.Client(client)).LabelNode(ctx, node, map[string]string{key: "test"})
	}
}

// changeOffload writes a changed report of a node.
func changeOffload(client kubernetes.Interface, name string, change func(*v1alpha1.NodeOffloadStatus)) func(context.Context) error {
	return func(ctx context.Context) error {
		path := "/apis/" + v1alpha1.Version + "/nodeoffloads/" + name
		raw, err := cluster.client.CoreV1().RESTClient().Get().AbsPath(path).DoRaw(ctx)
		if err != nil {
			return err
		}
		var object v1alpha1.NodeOffload
		if err := json.Unmarshal(raw, &object); err != nil {
			return err
		}
		change(&object.Status)
		if raw, err = json.Marshal(object); err != nil {
			return err
		}
		return client.CoreV1().RESTClient().Put().AbsPath(path).SetHeader("Content-Type", "application/json").Body(raw).Do(ctx).Error()
	}
}

// patchPod writes another number each time, for what is there already is no change.
func patchPod(client kubernetes.Interface, ns, name, patch string) func(context.Context) error {
	return func(ctx context.Context) error {
		text := fmt.Sprintf(patch, time.Now().UnixNano())
		_, err := client.CoreV1().Pods(ns).Patch(ctx, name, types.MergePatchType, []byte(text), metav1.PatchOptions{}, "status")
		return err
	}
}

func makeLease(client kubernetes.Interface, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: name}}
		_, err := client.CoordinationV1().Leases(system).Create(ctx, lease, metav1.CreateOptions{})
		return err
	}
}

// dpuRights are what the chart has for hosts with a DPU, which tests beside each other share.
var dpuRights struct {
	sync.Mutex
	users int
	made  []madeObject
}

type madeObject struct {
	in   dynamic.ResourceInterface
	name string
}

// applyDPURights makes what the chart has for hosts with a DPU, without workloads, until the last test with these rights ends.
func applyDPURights(t *testing.T) {
	t.Helper()
	dpuRights.Lock()
	defer dpuRights.Unlock()
	dpuRights.users++
	t.Cleanup(func() {
		dpuRights.Lock()
		defer dpuRights.Unlock()
		if dpuRights.users--; dpuRights.users > 0 {
			return
		}
		for _, object := range slices.Backward(dpuRights.made) {
			removeObject(t, object.in, object.name)
		}
		dpuRights.made = nil
	})
	if dpuRights.users == 1 {
		makeDPURights(t)
	}
}

func makeDPURights(t *testing.T) {
	t.Helper()
	client, err := dynamic.NewForConfig(cluster.config)
	if err != nil {
		t.Fatal(err)
	}
	resources := map[string]string{
		"Namespace": "namespaces", "ServiceAccount": "serviceaccounts", "ClusterRole": "clusterroles", "Role": "roles",
		"ClusterRoleBinding": "clusterrolebindings", "RoleBinding": "rolebindings",
		"ValidatingAdmissionPolicy": "validatingadmissionpolicies", "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
	}
	values := deploy.Example()
	values["dpuHosts"] = map[string]any{"enabled": true}
	rendered, err := deploy.Render(values)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"25-dpu-host-rbac.yaml", "26-dpu-host-admission.yaml"} {
		reader := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(rendered[file])))
		for doc, err := reader.Read(); err == nil; doc, err = reader.Read() {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal(doc, &object.Object); err != nil {
				t.Fatal(err)
			}
			group, version, found := strings.Cut(object.GetAPIVersion(), "/")
			if !found {
				group, version = "", group
			}
			kind := schema.GroupVersionResource{Group: group, Version: version, Resource: resources[object.GetKind()]}
			in := client.Resource(kind).Namespace(object.GetNamespace())
			if _, err := in.Create(t.Context(), object, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
				t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
			}
			dpuRights.made = append(dpuRights.made, madeObject{in, object.GetName()})
		}
	}
}

// removeObject returns when the object is gone. A Namespace takes a moment, and refuses new objects meanwhile.
func removeObject(t *testing.T, in dynamic.ResourceInterface, name string) {
	t.Helper()
	_ = in.Delete(context.Background(), name, metav1.DeleteOptions{})
	eventually(t, podWithin, name+" is gone", func() (bool, string) {
		_, err := in.Get(context.Background(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
}
