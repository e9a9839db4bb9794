package conncheck

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/ovn-offload/ovn-offload/pkg/conncheck/probe"
	"github.com/ovn-offload/ovn-offload/pkg/scratch"
	"github.com/ovn-offload/ovn-offload/pkg/sysdump"
)

// Session makes, asks and removes the objects of a test.
type Session struct{ scratch.Session }

// NewSession runs commands in the test's namespace by exec, which was made for Namespace.
func NewSession(client dynamic.Interface, exec *sysdump.Cluster) *Session {
	return &Session{scratch.Session{Namespace: namespace(client), Exec: exec}}
}

// settledWithin is the time for the network to answer the first time.
const settledWithin = 40 * time.Second

func namespace(client dynamic.Interface) scratch.Namespace {
	return scratch.Namespace{Client: client, Name: Namespace, Label: Label, Purpose: "test"}
}

func get[T any](ctx context.Context, s *Session, kind, namespace, name string) (object T, err error) {
	found, err := s.Client.Resource(scratch.Resource(kind)).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return object, fmt.Errorf("reading %s %s: %w", kind, name, err)
	}
	err = runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, &object)
	return object, err
}

// Env reads the addresses.
func (s *Session) Env(ctx context.Context, at Place) (Env, error) {
	pods, err := scratch.List[corev1.Pod](ctx, s.Namespace, "Pod")
	if err != nil {
		return Env{}, err
	}
	services, err := scratch.List[corev1.Service](ctx, s.Namespace, "Service")
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
	return NewEnv(pods, services, a, b, api), nil
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
func (s *Session) Ask(ctx context.Context, pod string, command []string) (reply probe.Reply, err error) {
	err = s.Run(ctx, pod, command, &reply)
	return reply, err
}
