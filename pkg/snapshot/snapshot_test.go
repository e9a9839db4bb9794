package snapshot

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"
)

const podWithSecrets = `
apiVersion: v1
kind: Pod
metadata:
  name: web
  namespace: shop
  annotations:
    k8s.ovn.org/pod-networks: "{}"
    kubectl.kubernetes.io/last-applied-configuration: canary
    example.com/token: canary
  managedFields: [{manager: canary}]
spec:
  nodeName: worker
  containers:
  - name: web
    image: example.com/web
    command: [canary]
    args: [canary]
    env: [{name: PASSWORD, value: canary}]
    resources: {requests: {ovn-offload.io/vf: "1"}}
    livenessProbe: {httpGet: {httpHeaders: [{name: Authorization, value: canary}]}}
  - name: other
    image: example.com/other
status:
  phase: Running
  message: canary
  containerStatuses:
  - {name: web, ready: true, restartCount: 3, lastState: {terminated: {message: canary, reason: Error, exitCode: 1}}}
`

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func archived(t *testing.T, s *Snapshot) []byte {
	t.Helper()
	var out bytes.Buffer
	a, err := NewArchive(&out, s)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestSnapshot_KeepsListedFieldsOnly: what else is in an object may be a secret, and is in no archive.
func TestSnapshot_KeepsListedFieldsOnly(t *testing.T) {
	s := New(time.Unix(1_700_000_000, 0), "ovn-kubernetes")
	s.Add(Pods, object(t, podWithSecrets))
	archive := archived(t, s)
	zip, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(zip)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "canary") {
		t.Errorf("the archive has what no answer needs: %s", text)
	}
	read, err := Open(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	pods, err := Objects[corev1.Pod](read, Pods)
	if err != nil {
		t.Fatal(err)
	}
	pod := pods[0]
	if pod.Spec.NodeName != "worker" || len(pod.Spec.Containers) != 2 || pod.Spec.Containers[1].Image != "example.com/other" ||
		pod.Status.ContainerStatuses[0].RestartCount != 3 || pod.Annotations["k8s.ovn.org/pod-networks"] != "{}" {
		t.Errorf("fields that answers need are missing: %+v", pod)
	}
}

func client(t *testing.T, objects ...runtime.Object) *fake.FakeDynamicClient {
	t.Helper()
	kinds := map[schema.GroupVersionResource]string{}
	for _, r := range All() {
		kinds[r.Kind()] = "List"
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewSimpleDynamicClientWithCustomListKinds(scheme, kinds, objects...)
}

// TestRead_SaysWhatItMayNotRead: an answer is possible without it.
func TestRead_SaysWhatItMayNotRead(t *testing.T) {
	node := &corev1.Node{}
	node.Name = "worker"
	c := client(t, node)
	c.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)
	})
	c.PrependReactor("list", "offloadpolicies", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "offloadpolicies"}, "")
	})
	s := ReadLists(context.Background(), Dynamic{c}, "ovn-kubernetes", map[Resource][]Selected{Nodes: {{}}, Pods: {{}}, OffloadPolicies: {{}}})
	if len(s.Missing) != 1 || !strings.Contains(s.Missing[Pods], "forbidden") {
		t.Errorf("missing: %v, want pods alone", s.Missing)
	}
	nodes, err := Objects[corev1.Node](s, Nodes)
	if err != nil || len(nodes) != 1 || nodes[0].Name != "worker" {
		t.Errorf("nodes: %v, %v", nodes, err)
	}
}

// TestOpen_RefusesOtherFiles with a sentence.
func TestOpen_RefusesOtherFiles(t *testing.T) {
	var empty bytes.Buffer
	zip := gzip.NewWriter(&empty)
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"no gzip": []byte("text"), "nothing": nil, "an empty archive": empty.Bytes()} {
		if _, err := Open(bytes.NewReader(content)); err == nil {
			t.Errorf("%s is read as an archive", name)
		}
	}
}

// TestSnapshot_KeepsNoSecretOfAnyKind where users and tools put them: annotations, the last applied manifest, owners of fields,
// data, and the environment, commands and arguments of containers. The name, which an answer needs, is there.
func TestSnapshot_KeepsNoSecretOfAnyKind(t *testing.T) {
	const canary = "canary"
	container := map[string]any{
		"name": "main", "env": []any{map[string]any{"name": "PASSWORD", "value": canary}}, "command": []any{canary}, "args": []any{canary},
		"envFrom": []any{canary}, "lifecycle": canary, "livenessProbe": canary,
	}
	pod := map[string]any{"containers": []any{container}, "initContainers": []any{container}, "volumes": []any{map[string]any{"csi": canary}}}
	for _, r := range All() {
		s := New(time.Unix(1_700_000_000, 0), "ovn-kubernetes")
		spec := map[string]any{}
		switch r { // the others have no containers, and all of their spec is in answers
		case Pods, Deployments, DaemonSets, StatefulSets, Nodes, Events, Namespaces:
			spec = maps.Clone(pod)
		}
		if len(spec) > 0 {
			spec["template"] = map[string]any{"metadata": map[string]any{"annotations": map[string]any{"example.com/password": canary}}, "spec": pod}
		}
		s.Add(r, map[string]any{
			"metadata": map[string]any{
				"namespace": "shop", "name": "visible", "managedFields": []any{canary}, "finalizers": []any{canary},
				"annotations": map[string]any{"example.com/password": canary, "kubectl.kubernetes.io/last-applied-configuration": canary},
			},
			"data": map[string]any{"password": canary}, "stringData": map[string]any{"password": canary}, "binaryData": canary, "spec": spec,
		})
		zip, err := gzip.NewReader(bytes.NewReader(archived(t, s)))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(zip)
		if err != nil {
			t.Fatal(err)
		}
		if at := strings.Index(string(text), canary); at >= 0 || !strings.Contains(string(text), "visible") {
			t.Errorf("%s: %s", r, text[max(0, at-200):])
		}
	}
}
