package kube

import (
	"context"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
)

// failuresBeforeEvent spares users what heals by itself.
const failuresBeforeEvent = 3

// maxNote is the API's limit for an Event's text.
const maxNote = 1024

// Objects finds the object of an owner, nil when it is not there; ClusterView and NodeView do.
type Objects interface {
	Object(owner contract.Owner) runtime.Object
}

// Reporter tells users of failures through Events on the object concerned.
type Reporter struct {
	record func(object runtime.Object, kind, reason, note string)
	view   Objects

	mu       sync.Mutex
	reported map[contract.Owner]string
}

// NewReporter makes a Reporter whose Events come from component. It records
// until ctx ends.
func NewReporter(ctx context.Context, client *api.Client, view Objects, component string) *Reporter {
	return newReporter(newRecorder(ctx, client, component).record, view)
}

func newReporter(record func(object runtime.Object, kind, reason, note string), view Objects) *Reporter {
	return &Reporter{record: record, view: view, reported: map[contract.Owner]string{}}
}

// Failure has the shape of the loops' OnFailure: from the third failure in a row
// on there is a Warning Event, again when its text changes, and a Normal one when err is
// nil afterwards. Of what is refused (failures is 0) there is one at once, and again when
// it changes.
func (r *Reporter) Failure(owner contract.Owner, failures int, err error) {
	var note string
	if err != nil {
		note = brief(err.Error()) // it is remembered
	}
	switch {
	case err == nil:
		if r.setReported(owner, "") != "" {
			r.emit(owner, corev1.EventTypeNormal, "NetworkRecovered", "the network of this object is set up")
		}
	case failures == 0:
		if r.setReported(owner, note) != note {
			r.Warn(owner, "PartRefused", note)
		}
	case failures >= failuresBeforeEvent:
		if r.setReported(owner, note) != note || failures == failuresBeforeEvent {
			r.Warn(owner, "NetworkFailed", note)
		}
	}
}

// Warn puts a Warning Event on the owner's object, if that still exists.
func (r *Reporter) Warn(owner contract.Owner, reason, note string) {
	r.emit(owner, corev1.EventTypeWarning, reason, note)
}

// Note puts a Normal Event on the owner's object, if that still exists.
func (r *Reporter) Note(owner contract.Owner, reason, note string) {
	r.emit(owner, corev1.EventTypeNormal, reason, note)
}

func (r *Reporter) emit(owner contract.Owner, kind, reason, note string) {
	if object := r.view.Object(owner); object != nil {
		r.Record(object, kind, reason, note)
	}
}

// Record puts an Event on an object, which need not be in the view.
func (r *Reporter) Record(object runtime.Object, kind, reason, note string) {
	r.record(object, kind, reason, brief(note))
}

// brief is a text as an Event has it.
func brief(note string) string {
	if len(note) > maxNote {
		note = strings.ToValidUTF8(note[:maxNote-3], "") + "..."
	}
	return note
}

func (r *Reporter) setReported(owner contract.Owner, reported string) (before string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before = r.reported[owner]
	if reported != "" {
		r.reported[owner] = reported
	} else {
		delete(r.reported, owner)
	}
	return before
}
