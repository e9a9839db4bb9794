package nodeoffload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// Config names the Node and limits the frequency of writes.
type Config struct {
	// Node is the name of the Node and of the NodeOffload.
	Node string
	// Part is the part of the status that this publisher writes.
	Part Part
	// Devices and Traffic are the minimum intervals between two writes for devices and for traffic.
	Devices, Traffic time.Duration
	// Absent is the interval of checks for the kind NodeOffload while the API server lacks it: no event reports a
	// new kind.
	Absent     time.Duration
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Defaults leaves Logger and Registerer to be set.
func Defaults(node string) Config {
	return Config{Node: node, Devices: 2 * time.Second, Traffic: time.Minute, Absent: time.Minute}
}

// Deps are the sources and targets of a Publisher.
type Deps struct {
	Client dynamic.Interface
	// Facts gives the newest facts and must not block.
	Facts func() Facts
	// NodeObject gives the Node, nil while the Node is not synced.
	NodeObject func() *corev1.Node
	// Label writes labels of the Node where they differ; "" removes one.
	Label func(ctx context.Context, node *corev1.Node, labels map[string]string) error
}

// Publisher keeps a NodeOffload and the Node's labels up to date.
type Publisher struct {
	cfg    Config
	deps   Deps
	loop   *reconcile.Single
	absent bool // of the loop's goroutine only
}

// New makes a Publisher; nothing is written before Run.
func New(cfg Config, deps Deps) (*Publisher, error) {
	if cfg.Node == "" || cfg.Devices <= 0 || cfg.Traffic < cfg.Devices || cfg.Absent <= 0 {
		return nil, fmt.Errorf("publishing a node's devices: node %q, intervals %s, %s, %s", cfg.Node, cfg.Devices, cfg.Traffic, cfg.Absent)
	}
	p := &Publisher{cfg: cfg, deps: deps}
	lc := reconcile.Defaults("nodeoffload")
	lc.Logger, lc.Registerer = cfg.Logger, cfg.Registerer
	p.loop = reconcile.NewSingle(lc, p.pass)
	return p, nil
}

// Run publishes until ctx ends.
func (p *Publisher) Run(ctx context.Context) error { return p.loop.Run(ctx) }

// Changed schedules a write after a change of devices, claims, policies or the Node.
func (p *Publisher) Changed() { p.loop.MarkSpaced(debounce, p.cfg.Devices) }

// Sampled schedules a write after a new sample of the traffic.
func (p *Publisher) Sampled() { p.loop.MarkSpaced(debounce, p.cfg.Traffic) }

// debounce is the time in which further changes join the first: a pod's VF is claimed, moved and attached.
const debounce = 500 * time.Millisecond

func (p *Publisher) pass(ctx context.Context) error {
	node := p.deps.NodeObject()
	if node == nil {
		return fmt.Errorf("node %s is not known: %w", p.cfg.Node, reconcile.ErrNotReady)
	}
	facts := p.deps.Facts()
	status, err := p.publish(ctx, node, facts)
	err = p.withoutAbsent(err)
	if facts.Inventory != nil && p.cfg.Part != Traffic { // without an inventory the labels would say that there are no devices
		err = errors.Join(err, p.deps.Label(ctx, node, Labels(status)))
	}
	return err
}

// withoutAbsent drops the error of an API server without the kind NodeOffload, logs once and schedules a later check.
func (p *Publisher) withoutAbsent(err error) error {
	absent := errors.Is(err, errAbsent)
	switch {
	case absent && !p.absent:
		p.cfg.Logger.Warn("the API server has no NodeOffloads: the node's devices are not published")
	case err == nil && p.absent:
		p.cfg.Logger.Info("the API server has NodeOffloads now")
	}
	if !absent {
		p.absent = p.absent && err != nil
		return err
	}
	p.absent = true
	p.loop.MarkSpaced(debounce, p.cfg.Absent)
	return nil
}

// errAbsent is the error of an API server without the kind NodeOffload.
var errAbsent = errors.New("the API server does not know NodeOffloads")

const writeTimeout = 10 * time.Second

// publish compares the NodeOffload with the wanted one, writes the difference, and returns the status in the API.
func (p *Publisher) publish(ctx context.Context, node *corev1.Node, facts Facts) (v1alpha1.NodeOffloadStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	api := p.deps.Client.Resource(v1alpha1.NodeOffloads())
	wanted := v1alpha1.NodeOffload{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.Version, Kind: "NodeOffload"},
		ObjectMeta: metav1.ObjectMeta{Name: p.cfg.Node, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}, // so that it goes with the Node
		}},
		Status: join(p.cfg.Part, facts, nil),
	}
	found, err := api.Get(ctx, p.cfg.Node, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && p.cfg.Part == Traffic:
		return wanted.Status, fmt.Errorf("%w: the host has not made its NodeOffload", reconcile.ErrNotReady)
	case apierrors.IsNotFound(err):
		object, err := v1alpha1.Encode(&wanted)
		if err == nil {
			_, err = api.Create(ctx, object, metav1.CreateOptions{})
		}
		if apierrors.IsNotFound(err) { // nothing of that name is one thing, no such kind another
			return wanted.Status, errAbsent
		}
		return wanted.Status, wrap("making", p.cfg.Node, err)
	case err != nil:
		return wanted.Status, wrap("reading", p.cfg.Node, err)
	}
	had, err := v1alpha1.Decode[v1alpha1.NodeOffload](found)
	if err == nil {
		wanted.Status = join(p.cfg.Part, facts, &had.Status)
		if same(had.Status, wanted.Status) && same(had.OwnerReferences, wanted.OwnerReferences) {
			return wanted.Status, nil
		}
	}
	wanted.ResourceVersion = found.GetResourceVersion()
	wanted.Labels, wanted.Annotations = found.GetLabels(), found.GetAnnotations()
	object, err := v1alpha1.Encode(&wanted)
	if err == nil {
		_, err = api.Update(ctx, object, metav1.UpdateOptions{})
	}
	return wanted.Status, wrap("writing", p.cfg.Node, err)
}

func wrap(verb, node string, err error) error {
	if err != nil {
		return fmt.Errorf("%s NodeOffload %s: %w", verb, node, err)
	}
	return nil
}

// same compares what goes over the wire: an empty list is an absent one.
func same(a, b any) bool {
	left, errLeft := json.Marshal(a)
	right, errRight := json.Marshal(b)
	return errLeft == nil && errRight == nil && bytes.Equal(left, right)
}
