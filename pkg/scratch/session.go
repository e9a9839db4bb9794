package scratch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/ovn-offload/ovn-offload/pkg/sysdump"
)

// Container is the name of the container of a Pod.
const Container = "probe"

// readyWithin is the time for pods to be ready.
const readyWithin = 5 * time.Minute

// Session makes pods in a namespace, and runs commands in them. Exec was made for the namespace.
type Session struct {
	Namespace
	Exec *sysdump.Cluster
	// Given: the namespace is there, with its label and without pods, and stays.
	Given bool
	made  []made
}

// made is an object that the session has made.
type made struct{ kind, name string }

// ErrPresent says that the namespace is there: of a command that runs, or of one that was killed.
var ErrPresent = errors.New("is there already: another one runs, or was killed")

// Make makes the namespace and objects in their order, and waits until the pods are ready.
func (s *Session) Make(ctx context.Context, objects []runtime.Object) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	return s.Extend(ctx, objects)
}

// Extend makes further objects, and waits until the pods are ready.
func (s *Session) Extend(ctx context.Context, objects []runtime.Object) error {
	for _, object := range objects {
		if err := s.Add(ctx, object); err != nil {
			return err
		}
	}
	var waits []string
	err := wait.PollUntilContextTimeout(ctx, lookEvery, readyWithin, true, func(ctx context.Context) (bool, error) {
		pods, err := List[corev1.Pod](ctx, s.Namespace, "Pod")
		if err != nil { // also when time is up, and then the pods that were seen last are said
			return false, err
		}
		waits = waits[:0]
		for _, pod := range pods {
			if state := unready(pod); state != "" {
				waits = append(waits, fmt.Sprintf("pod/%s on %s: %s", pod.Name, pod.Spec.NodeName, state))
			}
		}
		return len(waits) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the pods of the %s: %w: %s", s.Purpose, err, strings.Join(waits, "; "))
	}
	return nil
}

// begin makes the namespace, or looks at the one that is given.
func (s *Session) begin(ctx context.Context) error {
	if !s.Given {
		err := s.Create(ctx, Namespaces(), s.Object())
		if apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("namespace %s %w", s.Name, ErrPresent)
		}
		return err
	}
	if err := s.check(ctx); err != nil {
		return err
	}
	pods, err := List[corev1.Pod](ctx, s.Namespace, "Pod")
	if err == nil && len(pods) > 0 {
		return fmt.Errorf("namespace %s has pods: another one runs there, or was killed", s.Name)
	}
	return err
}

// check says whether the given namespace is for the command.
func (s *Session) check(ctx context.Context) error {
	found, err := s.Client.Resource(Namespaces()).Get(ctx, s.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the namespace that is to be used: %w", err)
	}
	if found.GetLabels()[s.Label] == "" {
		return fmt.Errorf("namespace %s has no label %s: it is not for a %s", s.Name, s.Label, s.Purpose)
	}
	return nil
}

// Add makes an object.
func (s *Session) Add(ctx context.Context, object runtime.Object) error {
	kind := object.GetObjectKind().GroupVersionKind().Kind
	if err := s.Create(ctx, Resource(kind), object); err != nil {
		return err
	}
	if named, is := object.(metav1.Object); is {
		s.made = append(s.made, made{kind, named.GetName()})
	}
	return nil
}

// Hold does something with the objects, and removes them then, also when it was interrupted, but not where they are to stay, or
// are those of another command. Next is the command that removes what was left.
func (s *Session) Hold(ctx context.Context, w io.Writer, next string, stay func() bool, do func() error) error {
	err := do()
	switch {
	case errors.Is(err, ErrPresent):
		return fmt.Errorf("%w\nnext: %s", err, next)
	case stay():
		return err
	}
	fmt.Fprintf(w, "deletes what it has made in namespace %s\n", s.Name)
	_, late := s.Remove(context.WithoutCancel(ctx))
	return errors.Join(err, late)
}

// SayRemoved removes the objects of an earlier command, and says so.
func (s *Session) SayRemoved(ctx context.Context, w io.Writer) error {
	found, err := s.Remove(ctx)
	if err != nil {
		return err
	}
	text := "nothing to delete in namespace " + s.Name
	if found {
		text = "deleted namespace " + s.Name
	}
	_, err = fmt.Fprintln(w, text)
	return err
}

// Remove deletes the namespace and waits until it is gone. Of a namespace that is given it deletes what the session has made,
// the last first. It says whether there was something.
func (s *Session) Remove(ctx context.Context) (bool, error) {
	if !s.Given {
		return s.Namespace.Remove(ctx)
	}
	var errs []error
	for _, of := range slices.Backward(s.made) {
		err := s.Client.Resource(Resource(of.kind)).Namespace(s.Name).Delete(ctx, of.name, metav1.DeleteOptions{})
		if !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return len(s.made) > 0, errors.Join(errs...)
}

// unready is why a pod is not ready; "" for one that is.
func unready(pod corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			return ""
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Waiting != nil {
			return strings.TrimSpace(c.State.Waiting.Reason + " " + c.State.Waiting.Message)
		}
	}
	if pod.Status.Message != "" {
		return string(pod.Status.Phase) + " " + pod.Status.Message
	}
	return string(pod.Status.Phase)
}

// Run runs a command in a pod and reads the JSON that it writes.
func (s *Session) Run(ctx context.Context, pod string, command []string, reply any) error {
	var out, errs bytes.Buffer
	if err := s.Exec.Exec(ctx, sysdump.Container{Pod: pod, Name: Container}, command, &out, &errs); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(errs.String()))
	}
	return json.Unmarshal(out.Bytes(), reply)
}

// Object is the namespace, which admits pods with hostNetwork.
func (n Namespace) Object() *corev1.Namespace {
	return &corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: map[string]string{
			n.Label: "true", "pod-security.kubernetes.io/enforce": "privileged",
		}},
	}
}

// Pod is a pod on a node, without a token, that all taints admit.
func (n Namespace) Pod(name, node, image string, command ...string) *corev1.Pod {
	noToken, grace, limited := false, int64(0), false
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: n.Name},
		Spec: corev1.PodSpec{
			NodeName: node, AutomountServiceAccountToken: &noToken, TerminationGracePeriodSeconds: &grace,
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: Container, Image: image, ImagePullPolicy: corev1.PullIfNotPresent, Command: command,
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: &limited,
					Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
}

// Resource is that of a kind that commands make or read.
func Resource(kind string) schema.GroupVersionResource {
	switch kind {
	case "Namespace":
		return Namespaces()
	case "Service":
		return schema.GroupVersionResource{Version: "v1", Resource: "services"}
	case "NetworkPolicy":
		return schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"}
	case "Node":
		return schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	}
	return schema.GroupVersionResource{Version: "v1", Resource: "pods"}
}

// List reads the namespace's objects of a kind.
func List[T any](ctx context.Context, n Namespace, kind string) ([]T, error) {
	found, err := n.Client.Resource(Resource(kind)).Namespace(n.Name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var objects []T
	for _, item := range found.Items {
		var object T
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &object); err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
	return objects, nil
}
