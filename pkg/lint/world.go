package lint

import (
	"errors"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// World is what the rules look at.
type World struct {
	workloads  []workload
	services   []corev1.Service
	policies   []networkingv1.NetworkPolicy
	namespaces map[string]corev1.Namespace
}

// workload is a pod, or what makes pods of a template.
type workload struct {
	name string // kind/namespace/name
	pod  corev1.PodTemplateSpec
}

// Decode reads all documents of a manifest. Objects without a namespace get one.
func Decode(r io.Reader, namespace string) ([]unstructured.Unstructured, error) {
	var objects []unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(r, 4096); ; {
		var o unstructured.Unstructured
		err := decoder.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if o.Object == nil {
			continue
		}
		items := []unstructured.Unstructured{o}
		if o.IsList() {
			list, err := o.ToList()
			if err != nil {
				return nil, err
			}
			items = list.Items
		}
		for _, item := range items {
			if item.GetNamespace() == "" && item.GetKind() != "Namespace" {
				item.SetNamespace(namespace)
			}
			objects = append(objects, item)
		}
	}
}

// Merge gives the objects of a cluster with those of a manifest, which replace those of the same name.
func Merge(cluster, manifest []unstructured.Unstructured) []unstructured.Unstructured {
	key := func(o unstructured.Unstructured) string {
		return o.GetKind() + "/" + o.GetNamespace() + "/" + o.GetName()
	}
	replaced := map[string]bool{}
	for _, o := range manifest {
		replaced[key(o)] = true
	}
	kept := slices.DeleteFunc(slices.Clone(cluster), func(o unstructured.Unstructured) bool { return replaced[key(o)] })
	return append(kept, manifest...)
}

// Read takes the objects that rules look at, and ignores the others.
func Read(objects []unstructured.Unstructured) (World, error) {
	w := World{namespaces: map[string]corev1.Namespace{}}
	for _, o := range objects {
		if err := w.add(o); err != nil {
			return w, fmt.Errorf("reading %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return w, nil
}

func (w *World) add(o unstructured.Unstructured) error {
	switch o.GetKind() {
	case "Namespace":
		namespace, err := as[corev1.Namespace](o.Object)
		w.namespaces[namespace.Name] = namespace
		return err
	case "Service":
		service, err := as[corev1.Service](o.Object)
		w.services = append(w.services, service)
		return err
	case "NetworkPolicy":
		policy, err := as[networkingv1.NetworkPolicy](o.Object)
		w.policies = append(w.policies, policy)
		return err
	case "Pod":
		pod, err := as[corev1.Pod](o.Object)
		if metav1.GetControllerOf(&pod) == nil { // else its workload is there
			w.workloads = append(w.workloads, workload{"pod/" + pod.Namespace + "/" + pod.Name, corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}})
		}
		return err
	case "Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob":
		return w.addTemplate(o)
	}
	return nil
}

func (w *World) addTemplate(o unstructured.Unstructured) error {
	if metav1.GetControllerOf(&o) != nil {
		return nil
	}
	path := []string{"spec", "template"}
	if o.GetKind() == "CronJob" {
		path = []string{"spec", "jobTemplate", "spec", "template"}
	}
	fields, found, err := unstructured.NestedMap(o.Object, path...)
	if err != nil || !found {
		return err
	}
	template, err := as[corev1.PodTemplateSpec](fields)
	template.Namespace = o.GetNamespace()
	w.workloads = append(w.workloads, workload{shortKinds()[o.GetKind()] + "/" + o.GetNamespace() + "/" + o.GetName(), template})
	return err
}

func shortKinds() map[string]string {
	return map[string]string{"Deployment": "deployment", "StatefulSet": "statefulset", "DaemonSet": "daemonset", "Job": "job", "CronJob": "cronjob"}
}

func as[T any](fields map[string]any) (object T, err error) {
	err = runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &object)
	return object, err
}
