package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi/byexec"
	"github.com/ovn-offload/ovn-offload/pkg/inject"
	"github.com/ovn-offload/ovn-offload/pkg/permit"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/trace"
)

// send sends packets in the name of a pod, if the caller has the right, and has said --yes.
func (o *traceOptions) send(ctx context.Context, source, target string) (*answer.Injected, error) {
	if err := inject.Sends(source); err != nil {
		return nil, usage{err}
	}
	rc, err := restConfig(o.kubeconfig, o.context)
	if err != nil {
		return nil, err
	}
	if err := o.ensureNamespace(); err != nil {
		return nil, err
	}
	client, err := permit.Connect(ctx, rc, trace.Ends{Namespace: o.namespace}.NamespaceOf(source), permit.Injections)
	if err != nil {
		return nil, err
	}
	of, err := compute(ctx, &o.readOptions, source, target)
	if err != nil {
		return nil, err
	}
	if err := near(&o.readOptions).AddEndpoints(ctx, of.s, of.Path.Backends()); err != nil {
		return nil, err
	}
	if of.pods, err = snapshot.Objects[corev1.Pod](of.s, snapshot.Pods); err != nil {
		return nil, err
	}
	plan, err := inject.NewPlan(of.connection, of.Computed, of.pods, o.count)
	if err != nil {
		return nil, usage{err}
	}
	if !o.yes {
		return nil, usage{fmt.Errorf("%s. Nothing was sent: add --yes", plan.Says())}
	}
	cluster, err := o.cluster()
	if err != nil {
		return nil, err
	}
	result, err := plan.Send(ctx, client, byexec.Databases{Cluster: cluster, Pods: of.pods}.Exec)
	if err != nil {
		return nil, err
	}
	return answer.NewInjected(of.s, result)
}
