package chassis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/pki"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// Signer answers the requests for SignerName. Several may run at once: the API server
// decides who writes a record.
type Signer struct {
	client *api.Client
	cfg    pki.Config
	log    *slog.Logger
	loop   *reconcile.Loop[string]

	requests, nodes, records cache.SharedIndexInformer
	wake                     chan struct{}

	recording sync.Mutex
}

// NewSigner makes a Signer; nothing runs before Run.
func NewSigner(client *api.Client, cfg pki.Config, log *slog.Logger) *Signer {
	s := &Signer{
		client: client, cfg: cfg, log: log, wake: make(chan struct{}, 1),
		requests: api.NewInformer(client.Requests, &certificatesv1.CertificateSigningRequest{}, nil, func(o *metav1.ListOptions) {
			o.FieldSelector = "spec.signerName=" + SignerName
		}),
		nodes: api.NewInformer(client.Nodes, &corev1.Node{}, nil, nil),
		records: api.NewInformer(client.ConfigMaps(cfg.Namespace), &corev1.ConfigMap{}, nil, func(o *metav1.ListOptions) {
			o.FieldSelector = "metadata.name=" + RecordMap
		}),
	}
	lc := reconcile.Defaults("chassis")
	lc.Logger, lc.BatchSize, lc.Workers = log, 1, 4
	s.loop = reconcile.New(lc, func(ctx context.Context, names []string) (map[string]error, error) {
		return nil, s.answer(ctx, names[0])
	})
	s.loop.MarkAllWith(s.requests.GetStore().ListKeys)
	return s
}

// Chassis is what the Secrets depend on, known after Start.
func (s *Signer) Chassis() pki.Chassis { return s.world().chassis() }

// Wake gives a value when Chassis may have changed.
func (s *Signer) Wake() <-chan struct{} { return s.wake }

// Start follows the objects until ctx ends, and returns when all are known.
func (s *Signer) Start(ctx context.Context) error {
	if _, err := s.requests.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { s.mark(object) },
		UpdateFunc: func(_, object any) { s.mark(object) },
	}); err != nil {
		return err
	}
	if _, err := s.records.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { s.changed() },
		UpdateFunc: func(any, any) { s.changed() },
		DeleteFunc: func(any) { s.changed() },
	}); err != nil {
		return err
	}
	if _, err := s.nodes.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(_ any, initial bool) {
			if !initial {
				s.changed()
			}
		},
		UpdateFunc: func(before, after any) {
			if annotated(before) != annotated(after) {
				s.changed()
			}
		},
		DeleteFunc: func(any) { s.changed() },
	}); err != nil {
		return err
	}
	if err := s.nodes.SetTransform(trimNode); err != nil {
		return err
	}
	for _, informer := range []cache.SharedIndexInformer{s.requests, s.records, s.nodes} {
		go informer.RunWithContext(ctx)
	}
	if !cache.WaitForCacheSync(ctx.Done(), s.requests.HasSynced, s.nodes.HasSynced, s.records.HasSynced) {
		return ctx.Err()
	}
	return nil
}

// changed asks for a pass over the Secrets, and over the requests that wait.
func (s *Signer) changed() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
	s.loop.MarkAll()
}

func annotated(object any) string {
	if node, ok := object.(*corev1.Node); ok {
		return node.Annotations[contract.NodeChassisIDKey]
	}
	return ""
}

// trimNode keeps what decisions are made from.
func trimNode(object any) (any, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	kept := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion}}
	if id, ok := node.Annotations[contract.NodeChassisIDKey]; ok {
		kept.Annotations = map[string]string{contract.NodeChassisIDKey: id}
	}
	if host, ok := node.Labels[contract.DPUHostLabel]; ok {
		kept.Labels = map[string]string{contract.DPUHostLabel: host}
	}
	return kept, nil
}

// Run answers requests until ctx ends.
func (s *Signer) Run(ctx context.Context) error { return s.loop.Run(ctx) }

func (s *Signer) mark(object any) {
	if request, ok := object.(*certificatesv1.CertificateSigningRequest); ok && open(request) {
		s.loop.Mark(request.Name)
	}
}

// open: neither answered nor given up.
func open(request *certificatesv1.CertificateSigningRequest) bool {
	return len(request.Status.Certificate) == 0 && !slices.ContainsFunc(request.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == certificatesv1.CertificateDenied || c.Type == certificatesv1.CertificateFailed
	})
}

func (s *Signer) world() world {
	w := world{nodes: map[string]*corev1.Node{}}
	for _, object := range s.nodes.GetStore().List() {
		if node, ok := object.(*corev1.Node); ok {
			w.nodes[node.Name] = node
		}
	}
	if object, found, _ := s.records.GetStore().GetByKey(s.cfg.Namespace + "/" + RecordMap); found {
		if records, ok := object.(*corev1.ConfigMap); ok {
			w.records = records.Data
		}
	}
	return w
}

func (s *Signer) answer(ctx context.Context, name string) error {
	object, found, err := s.requests.GetStore().GetByKey(name)
	request, ok := object.(*certificatesv1.CertificateSigningRequest)
	if err != nil || !found || !ok || !open(request) || request.Spec.SignerName != SignerName {
		return err
	}
	cert, node, err := s.certify(ctx, request)
	if errors.Is(err, errRefused) {
		s.log.Warn("request for a chassis denied", "request", name, "node", node, "error", err)
		return s.deny(ctx, request, err)
	}
	if err != nil {
		return err
	}
	if err := s.approve(ctx, request, cert); err != nil {
		return err
	}
	s.log.Info("chassis certified", "request", name, "node", node)
	return nil
}

// certify records which chassis the requester is, and signs.
func (s *Signer) certify(ctx context.Context, request *certificatesv1.CertificateSigningRequest) (cert []byte, node string, err error) {
	asked, err := parse(request)
	if err != nil {
		return nil, "", err
	}
	node, isDPU, err := requester(request, s.cfg.Namespace)
	if err != nil {
		return nil, "", err
	}
	isDPUHost := isDPU
	if !isDPU {
		if isDPUHost, err = s.isDPUHost(ctx, node); err != nil {
			return nil, node, err
		}
	}
	s.recording.Lock()
	defer s.recording.Unlock()
	records, err := s.readRecords(ctx)
	if err != nil {
		return nil, node, err
	}
	w := s.world()
	w.records, w.isDPUHost = records.Data, isDPUHost
	object := w.nodes[node]
	if object == nil {
		return nil, node, fmt.Errorf("%w: Node %s is not known", reconcile.ErrNotReady, node)
	}
	want, err := decide(asked, request, object, w)
	if err != nil {
		return nil, node, err
	}
	if err := s.write(ctx, records, w, node, want); err != nil {
		return nil, node, err
	}
	cert, err = pki.SignChassis(ctx, s.client, s.cfg, want.systemID, asked.PublicKey)
	return cert, node, err
}

func (s *Signer) isDPUHost(ctx context.Context, node string) (bool, error) {
	_, err := s.client.Accounts(DPUNamespace).Get(ctx, node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("whether Node %s has a DPU: %w", node, err)
	}
	return true, nil
}

// readRecords asks the API server and not the informer: a decision needs the last word.
func (s *Signer) readRecords(ctx context.Context) (*corev1.ConfigMap, error) {
	maps := s.client.ConfigMaps(s.cfg.Namespace)
	records, err := maps.Get(ctx, RecordMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: RecordMap, Namespace: s.cfg.Namespace}}, metav1.CreateOptions{})
	}
	return records, err
}

// write fails when another process has written since the records were read.
func (s *Signer) write(ctx context.Context, records *corev1.ConfigMap, w world, node string, want record) error {
	if w.records[node] == want.String() {
		return nil
	}
	next := records.DeepCopy()
	next.Data = w.kept()
	next.Data[node] = want.String()
	if _, err := s.client.ConfigMaps(s.cfg.Namespace).Update(ctx, next, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("recording Node %s: %w", node, err)
	}
	s.log.Info("chassis recorded", "node", node, "chassis", want.systemID)
	return nil
}

func (s *Signer) deny(ctx context.Context, request *certificatesv1.CertificateSigningRequest, reason error) error {
	return s.condition(ctx, request, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateDenied, Status: corev1.ConditionTrue, Reason: "NotThisChassis", Message: reason.Error(),
		LastUpdateTime: metav1.NewTime(s.cfg.Now().Truncate(time.Second)),
	})
}

func (s *Signer) approve(ctx context.Context, request *certificatesv1.CertificateSigningRequest, cert []byte) error {
	err := s.condition(ctx, request, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "RecordedChassis",
		Message: "the Node of the requester is recorded as this chassis", LastUpdateTime: metav1.NewTime(s.cfg.Now().Truncate(time.Second)),
	})
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"certificate": cert}})
	if err != nil {
		return err
	}
	if _, err := s.client.Requests.Patch(ctx, request.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("giving out the certificate: %w", err)
	}
	return nil
}

// condition adds to the conditions, unless it is there.
func (s *Signer) condition(ctx context.Context, request *certificatesv1.CertificateSigningRequest, c certificatesv1.CertificateSigningRequestCondition) error {
	if slices.ContainsFunc(request.Status.Conditions, func(have certificatesv1.CertificateSigningRequestCondition) bool { return have.Type == c.Type }) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": request.ResourceVersion},
		"status":   map[string]any{"conditions": append(slices.Clone(request.Status.Conditions), c)},
	})
	if err != nil {
		return err
	}
	if _, err := s.client.Requests.Patch(ctx, request.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "approval"); err != nil {
		return fmt.Errorf("answering: %w", err)
	}
	return nil
}
