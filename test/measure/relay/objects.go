package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/deploy"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
)

// the resources that are created
var (
	crds       = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	nodes      = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	pods       = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

const (
	namespace   = "team-1"
	podsOfFirst = 50 // pod objects on the first node
	creators    = 32
)

// load creates the CRDs of the chart and the objects of all nodes.
func (c *control) load(ctx context.Context, a *agents, n int) error {
	client, err := dynamic.NewForConfig(c.config)
	if err != nil {
		return err
	}
	if err := createCRDs(ctx, client); err != nil {
		return err
	}
	for _, name := range []string{namespace, "ovn-kubernetes"} {
		if _, err := client.Resource(namespaces).Create(ctx, object("v1", "Namespace", name, nil), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	offloads := client.Resource(v1alpha1.NodeOffloads())
	if err := eventually(ctx, "NodeOffloads are served", func() error { _, err := offloads.List(ctx, metav1.ListOptions{}); return err }); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for i := range n {
		group.Go(func() error { return createNode(ctx, client, a, i) })
	}
	for i := range podsOfFirst {
		group.Go(func() error {
			_, err := client.Resource(pods).Namespace(namespace).Create(ctx, pod(i), metav1.CreateOptions{})
			return err
		})
	}
	return group.Wait()
}

func createCRDs(ctx context.Context, client dynamic.Interface) error {
	rendered, err := deploy.Render(deploy.Example())
	if err != nil {
		return err
	}
	documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(rendered["15-crds.yaml"]), 4096)
	for {
		crd := &unstructured.Unstructured{}
		if err := documents.Decode(&crd.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if crd.GetKind() != "CustomResourceDefinition" {
			continue
		}
		if _, err := client.Resource(crds).Create(ctx, crd, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
}

func createNode(ctx context.Context, client dynamic.Interface, a *agents, i int) error {
	node := object("v1", "Node", nodeName(i), map[string]any{"status": map[string]any{
		"conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}},
		"addresses":  []any{map[string]any{"type": "InternalIP", "address": addressOf(i)}},
		"nodeInfo":   map[string]any{"kubeletVersion": "v1.37.2", "kernelVersion": "6.18.0", "osImage": "Debian GNU/Linux 13"},
	}})
	if _, err := client.Resource(nodes).Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return err
	}
	offload := object(v1alpha1.Version, "NodeOffload", nodeName(i), map[string]any{"status": status(a, i)})
	_, err := client.Resource(v1alpha1.NodeOffloads()).Create(ctx, offload, metav1.CreateOptions{})
	return err
}

// status is that of a node with one NIC, all pods of which have VFs.
func status(a *agents, i int) map[string]any {
	var used, traffic []any
	for j := range a.pods {
		pod := fmt.Sprintf("team-%d/%s", j%20, podName(nodeName(i), j))
		used = append(used, map[string]any{
			"device": fmt.Sprintf("0000:3b:%02x.%d", 1+j/8, j%8), "pf": "0000:3b:00.0", "pod": pod, "resource": "ovn-offload.io/vf", "phase": "attached",
		})
		if len(traffic) < 16 {
			share := map[string]any{"hardware": int64(95), "tc": int64(0), "ovs": int64(5)}
			traffic = append(traffic, map[string]any{
				"pod": pod, "port": fmt.Sprintf("pf0vf%d", j), "flows": share, "packets": share,
				"outside": []any{map[string]any{"reason": "action", "detail": "hash(l4)"}},
			})
		}
	}
	count := map[string]any{"total": int64(64), "used": int64(a.pods), "reserved": int64(0), "free": int64(64 - a.pods)}
	return map[string]any{
		"offload": "on", "agent": a.endpoint(i), "deviceCount": int64(1), "vfs": count, "usedVFs": used, "traffic": traffic,
		"trafficOmitted": int64(max(0, a.pods-16)), "hardwarePercent": int64(95),
		"versions": map[string]any{"agent": "v0.2.0", "openvswitch": "3.5.0", "ovn": "25.03.1", "kernel": "6.18.0"},
		"devices": []any{map[string]any{
			"name": "0000:3b:00.0", "uplink": "ens1f0np0", "product": "ConnectX-6 Dx", "driver": "mlx5_core", "numa": int64(0), "mode": "switchdev",
			"link": "up", "maxVFs": int64(64), "vfs": count,
		}},
	}
}

func pod(i int) *unstructured.Unstructured {
	o := object("v1", "Pod", podName(nodeName(0), i), map[string]any{"spec": map[string]any{
		"nodeName": nodeName(0), "containers": []any{map[string]any{"name": "web", "image": "web"}},
	}})
	o.SetNamespace(namespace)
	return o
}

func object(version, kind, name string, fields map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": name}}}
	for key, value := range fields {
		o.Object[key] = value
	}
	return o
}
