package conncheck

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/ovn-offload/ovn-offload/pkg/conncheck/probe"
	"github.com/ovn-offload/ovn-offload/pkg/scratch"
	"github.com/ovn-offload/ovn-offload/pkg/sysdump"
)

// Session makes, asks and removes the objects of a test.
type Session struct {
	client dynamic.Interface
	exec   *sysdump.Cluster
}

// NewSession runs commands in the test's namespace by exec, which was made for Namespace.
func NewSession(client dynamic.Interface, exec *sysdump.Cluster) *Session {
	return &Session{client: client, exec: exec}
}

// The times for pods to be ready, and for the network to answer the first time.
const (
	podsWithin    = 3 * time.Minute
	settledWithin = 40 * time.Second
	lookEvery     = time.Second
)

func resource(kind string) schema.GroupVersionResource {
	switch kind {
	case "Namespace":
		return scratch.Namespaces()
	case "Service":
		return schema.GroupVersionResource{Version: "v1", Resource: "services"}
	case "NetworkPolicy":
		return schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"}
	case "Node":
		return schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	}
	return schema.GroupVersionResource{Version: "v1", Resource: "pods"}
}

func (s *Session) create(ctx context.Context, object runtime.Object) error {
	return s.namespace().Create(ctx, resource(object.GetObjectKind().GroupVersionKind().Kind), object)
}

func (s *Session) namespace() scratch.Namespace {
	return scratch.Namespace{Client: s.client, Name: Namespace, Label: Label, Purpose: "test"}
}

// ErrPresent says that the namespace is there: of a test that runs, or of one that was killed.
var ErrPresent = errors.New("namespace " + Namespace + " is there already: another test runs, or was killed")

// Make makes the objects and waits until the pods are ready.
func (s *Session) Make(ctx context.Context, at Place) error {
	err := s.create(ctx, NamespaceObject())
	if apierrors.IsAlreadyExists(err) {
		return ErrPresent
	}
	if err != nil {
		return err
	}
	for _, object := range Objects(at) {
		if err := s.create(ctx, object); err != nil {
			return err
		}
	}
	var waits []string
	err = wait.PollUntilContextTimeout(ctx, lookEvery, podsWithin, true, func(ctx context.Context) (bool, error) {
		pods, err := list[corev1.Pod](ctx, s, "Pod")
		waits = waits[:0]
		for _, pod := range pods {
			if state := unready(pod); state != "" {
				waits = append(waits, fmt.Sprintf("pod/%s on %s: %s", pod.Name, pod.Spec.NodeName, state))
			}
		}
		return err == nil && len(waits) == 0, err
	})
	if err != nil {
		return fmt.Errorf("waiting for the pods of the test: %w: %s", err, strings.Join(waits, "; "))
	}
	return nil
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
	return string(pod.Status.Phase)
}

func list[T any](ctx context.Context, s *Session, kind string) ([]T, error) {
	found, err := s.client.Resource(resource(kind)).Namespace(Namespace).List(ctx, metav1.ListOptions{})
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

func get[T any](ctx context.Context, s *Session, kind, namespace, name string) (object T, err error) {
	found, err := s.client.Resource(resource(kind)).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return object, fmt.Errorf("reading %s %s: %w", kind, name, err)
	}
	err = runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, &object)
	return object, err
}

// Env reads the addresses, and makes the policy that needs them.
func (s *Session) Env(ctx context.Context, at Place) (Env, error) {
	pods, err := list[corev1.Pod](ctx, s, "Pod")
	if err != nil {
		return Env{}, err
	}
	services, err := list[corev1.Service](ctx, s, "Service")
	if err != nil {
		return Env{}, err
	}
	a, err := get[corev1.Node](ctx, s, "Node", "", at.NodeA)
	if err != nil {
		return Env{}, err
	}
	b, err := get[corev1.Node](ctx, s, "Node", "", at.NodeB)
	if err != nil {
		return Env{}, err
	}
	api, err := get[corev1.Service](ctx, s, "Service", metav1.NamespaceDefault, "kubernetes")
	if err != nil {
		return Env{}, err
	}
	env := NewEnv(pods, services, a, b, api)
	return env, s.create(ctx, BlockPolicy(env))
}

// Settle waits until the network has the objects of some cases. It ends without an error when time is up: the cases say
// what does not work.
func (s *Session) Settle(ctx context.Context, cases []Case, env Env, parallel int) error {
	ctx, cancel := context.WithTimeout(ctx, settledWithin)
	defer cancel()
	run := Runner{env, parallel, s.Ask, func(Result) {}}
	for waits := Await(cases); len(waits) > 0; {
		var still []Case
		for i, r := range run.Run(ctx, waits) {
			if r.Verdict == Fail {
				still = append(still, waits[i])
			}
		}
		if waits = still; ctx.Err() != nil {
			break
		}
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return nil
}

// Ask is a Prober.
func (s *Session) Ask(ctx context.Context, pod string, command []string) (probe.Reply, error) {
	var out, errs bytes.Buffer
	var reply probe.Reply
	if err := s.exec.Exec(ctx, sysdump.Container{Pod: pod, Name: "probe"}, command, &out, &errs); err != nil {
		return reply, fmt.Errorf("%w: %s", err, strings.TrimSpace(errs.String()))
	}
	err := json.Unmarshal(out.Bytes(), &reply)
	return reply, err
}

// Remove deletes the namespace and waits until it is gone. It says whether there was one.
func (s *Session) Remove(ctx context.Context) (bool, error) { return s.namespace().Remove(ctx) }
