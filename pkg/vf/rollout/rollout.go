package rollout

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

const (
	// gather is how long changes of NodeOffloads are gathered: agents read each status.
	gather = 2 * time.Second
	// recheck is how often pods that a drain evicts are looked at.
	recheck      = 5 * time.Second
	writeTimeout = 10 * time.Second
)

// Deps is what a Rollout works with.
type Deps struct {
	Client dynamic.Interface
	// Nodes lists all Nodes.
	Nodes      func() []*corev1.Node
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Rollout keeps the statuses of OffloadPolicies.
type Rollout struct {
	deps     Deps
	loop     *reconcile.Single
	policies cache.SharedIndexInformer
	offloads cache.SharedIndexInformer
	nodes    *prometheus.GaugeVec
}

// New makes a Rollout; nothing is written before Run.
func New(deps Deps) (*Rollout, error) {
	r := &Rollout{
		deps:     deps,
		policies: api.NewDynamicInformer(deps.Client, v1alpha1.OffloadPolicies()),
		offloads: api.NewDynamicInformer(deps.Client, v1alpha1.NodeOffloads()),
		nodes: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ovn_offload_policy_nodes", Help: "Nodes that an OffloadPolicy selects, by the state of the policy there.",
		}, []string{"policy", "state"}),
	}
	deps.Registerer.MustRegister(r.nodes)
	lc := reconcile.Defaults("policy-rollout")
	lc.Logger, lc.Registerer = deps.Logger, deps.Registerer
	r.loop = reconcile.NewSingle(lc, r.pass)
	changed := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { r.Mark() }, UpdateFunc: func(any, any) { r.Mark() }, DeleteFunc: func(any) { r.Mark() },
	}
	if err := r.offloads.SetTransform(resultsOnly); err != nil {
		return nil, fmt.Errorf("following NodeOffloads: %w", err)
	}
	for _, informer := range []cache.SharedIndexInformer{r.policies, r.offloads} {
		if err := informer.SetWatchErrorHandlerWithContext(logUnlessAbsent); err != nil {
			return nil, fmt.Errorf("following OffloadPolicies: %w", err)
		}
		if _, err := informer.AddEventHandler(changed); err != nil {
			return nil, fmt.Errorf("following OffloadPolicies: %w", err)
		}
	}
	return r, nil
}

// Mark asks for a pass; Nodes have changed.
func (r *Rollout) Mark() { r.loop.MarkSpaced(gather, 0) }

// Run follows the objects and writes until ctx ends.
func (r *Rollout) Run(ctx context.Context) error {
	go r.policies.RunWithContext(ctx)
	go r.offloads.RunWithContext(ctx)
	return r.loop.Run(ctx)
}

// logUnlessAbsent spares a cluster without the CRDs a line for each attempt.
func logUnlessAbsent(ctx context.Context, reflector *cache.Reflector, err error) {
	if !apierrors.IsNotFound(err) {
		cache.DefaultWatchErrorHandler(ctx, reflector, err)
	}
}

// resultsOnly keeps of a NodeOffload what is read here: a cluster has thousands.
func resultsOnly(object any) (any, error) {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	results, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status", "policies")
	kept := &unstructured.Unstructured{Object: map[string]any{"apiVersion": u.GetAPIVersion(), "kind": u.GetKind(), "status": map[string]any{"policies": results}}}
	kept.SetName(u.GetName())
	kept.SetResourceVersion(u.GetResourceVersion())
	return kept, nil
}

func (r *Rollout) pass(ctx context.Context) error {
	if !r.policies.HasSynced() || !r.offloads.HasSynced() {
		r.Mark()
		return nil
	}
	return r.apply(ctx)
}

// apply compares and writes.
func (r *Rollout) apply(ctx context.Context) error {
	results, err := r.results()
	if err != nil {
		return err
	}
	r.nodes.Reset()
	var errs []error
	turns := map[string]*v1alpha1.OffloadPolicy{} // by node, of policies that evict
	for _, object := range r.policies.GetStore().List() {
		p, err := v1alpha1.Decode[v1alpha1.OffloadPolicy](object.(*unstructured.Unstructured))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		selected, err := r.selected(p, results)
		if err != nil {
			continue // the agents say so: nothing is selected
		}
		status := Plan(p, selected)
		r.count(p.Name, status)
		if err := r.write(ctx, p, status); err != nil {
			errs = append(errs, err)
			continue
		}
		for _, node := range status.Changing {
			if p.Spec.Drain == v1alpha1.DrainEvict {
				turns[node] = p
			}
		}
	}
	return errors.Join(append(errs, r.drain(ctx, turns))...)
}

// results has what agents say, by node.
func (r *Rollout) results() (map[string][]v1alpha1.PolicyResult, error) {
	out := map[string][]v1alpha1.PolicyResult{}
	for _, object := range r.offloads.GetStore().List() {
		offload, err := v1alpha1.Decode[v1alpha1.NodeOffload](object.(*unstructured.Unstructured))
		if err != nil {
			return nil, err
		}
		out[offload.Name] = offload.Status.Policies
	}
	return out, nil
}

// selected has the results of a policy on the nodes that it selects. DPUs have no agent for policies: that of the host
// makes the VFs.
func (r *Rollout) selected(p *v1alpha1.OffloadPolicy, results map[string][]v1alpha1.PolicyResult) (map[string][]v1alpha1.PolicyResult, error) {
	selector, err := metav1.LabelSelectorAsSelector(&p.Spec.NodeSelector)
	if err != nil {
		return nil, err
	}
	out := map[string][]v1alpha1.PolicyResult{}
	for _, node := range r.deps.Nodes() {
		if _, dpu := node.Labels[contract.DPULabel]; !dpu && selector.Matches(labels.Set(node.Labels)) {
			out[node.Name] = slices.DeleteFunc(slices.Clone(results[node.Name]), func(result v1alpha1.PolicyResult) bool { return result.Policy != p.Name })
		}
	}
	return out, nil
}

func (r *Rollout) count(policy string, status v1alpha1.OffloadPolicyStatus) {
	for state, n := range map[string]int{"applied": status.Applied, "pending": status.Pending, "failed": status.Failed} {
		r.nodes.WithLabelValues(policy, state).Set(float64(n))
	}
}

// write changes the status only; the resourceVersion keeps two turns from being given to one slot.
func (r *Rollout) write(ctx context.Context, p *v1alpha1.OffloadPolicy, status v1alpha1.OffloadPolicyStatus) error {
	if equality.Semantic.DeepEqual(p.Status, status) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	next := *p
	next.Status = status
	object, err := v1alpha1.Encode(&next)
	if err == nil {
		_, err = r.deps.Client.Resource(v1alpha1.OffloadPolicies()).UpdateStatus(ctx, object, metav1.UpdateOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the status of OffloadPolicy %s: %w", p.Name, err)
	}
	for _, node := range status.Changing {
		if !slices.Contains(p.Status.Changing, node) {
			r.deps.Logger.Info("a node may change", "node", node, "policy", p.Name)
		}
	}
	return nil
}
