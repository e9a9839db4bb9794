package kube

import (
	"context"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
)

// failuresBeforeEvent spares users what heals by itself.
const failuresBeforeEvent = 3

// maxNote is the API's limit for an Event's text.
const maxNote = 1024

// Reporter tells users of failures through Events on the object concerned.
type Reporter struct {
	recorder events.EventRecorder
	view     *View

	mu       sync.Mutex
	reported map[Owner]bool
}

// NewReporter makes a Reporter whose Events come from component. It records
// until ctx ends.
func NewReporter(ctx context.Context, client kubernetes.Interface, view *View, component string) (*Reporter, error) {
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return nil, fmt.Errorf("recording events: %w", err)
	}
	context.AfterFunc(ctx, broadcaster.Shutdown)
	return newReporter(broadcaster.NewRecorder(scheme.Scheme, component), view), nil
}

func newReporter(recorder events.EventRecorder, view *View) *Reporter {
	return &Reporter{recorder: recorder, view: view, reported: map[Owner]bool{}}
}

// Failure has the shape of the loops' OnFailure: from the third failure in a row
// on there is a Warning Event, and a Normal one when err is nil afterwards.
func (r *Reporter) Failure(owner Owner, failures int, err error) {
	if err != nil {
		if failures == failuresBeforeEvent {
			r.setReported(owner, true)
			r.Warn(owner, "NetworkFailed", err.Error())
		}
		return
	}
	if r.setReported(owner, false) {
		r.emit(owner, corev1.EventTypeNormal, "NetworkRecovered", "the network of this object is set up")
	}
}

// Warn puts a Warning Event on the owner's object, if that still exists.
func (r *Reporter) Warn(owner Owner, reason, note string) {
	r.emit(owner, corev1.EventTypeWarning, reason, note)
}

// Note puts a Normal Event on the owner's object, if that still exists.
func (r *Reporter) Note(owner Owner, reason, note string) {
	r.emit(owner, corev1.EventTypeNormal, reason, note)
}

func (r *Reporter) emit(owner Owner, kind, reason, note string) {
	object := r.object(owner)
	if object == nil {
		return
	}
	if len(note) > maxNote {
		note = strings.ToValidUTF8(note[:maxNote-3], "") + "..."
	}
	r.recorder.Eventf(object, nil, kind, reason, "Reconcile", "%s", note)
}

// object keeps a nil pointer from becoming an object that is not nil.
func (r *Reporter) object(owner Owner) runtime.Object {
	switch owner.Kind {
	case KindPod:
		if pod := r.view.Pod(owner.Namespace, owner.Name); pod != nil {
			return pod
		}
	case KindNetworkPolicy:
		if policy := r.view.networkPolicy(owner.Namespace, owner.Name); policy != nil {
			return policy
		}
	case KindAdminNetworkPolicy, KindBaselineAdminNetworkPolicy, KindClusterNetworkPolicy:
		if policy := r.view.AdminPolicy(owner); policy != nil {
			return policy
		}
	case KindNode:
		if node := r.view.Node(owner.Name); node != nil {
			return node
		}
	case KindService:
		if service := r.view.Service(owner.Namespace, owner.Name); service != nil {
			return service
		}
	}
	return nil
}

func (r *Reporter) setReported(owner Owner, reported bool) (before bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before = r.reported[owner]
	if reported {
		r.reported[owner] = true
	} else {
		delete(r.reported, owner)
	}
	return before
}
