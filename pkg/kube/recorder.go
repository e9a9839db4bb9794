package kube

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/client-go/tools/reference"
	"k8s.io/klog/v2"

	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
)

const (
	eventPatience = 115 * time.Second
	eventPause    = 10 * time.Second
	// seriesEnd is the silence after which the same Event is a new one, and how often a
	// series that lasts is written.
	seriesEnd = 6 * time.Minute
	// maxNotes bounds the texts of one kind of Event of an object that have series. Further ones count as the last one:
	// a text may have what a user has forged.
	maxNotes = 5
)

// recorder writes Events. It has the place of client-go's tools/events, which knows all
// kinds of the API (package api). An Event that comes again is counted in the first one.
type recorder struct {
	ctx       context.Context // of all that is written
	events    api.Namespaced[eventsv1.Event, eventsv1.EventList]
	scheme    *runtime.Scheme
	component string
	instance  string

	mu   sync.Mutex
	seen map[eventKey][]*series
}

// eventKey is what the Events of some series have in common, each of which has one text.
type eventKey struct {
	kind, reason string
	regarding    corev1.ObjectReference
}

type series struct {
	event         *eventsv1.Event
	last, written time.Time
}

func newRecorder(ctx context.Context, client *api.Client, component string) *recorder {
	host, _ := os.Hostname()
	return &recorder{
		ctx: ctx, events: client.Events, scheme: client.Scheme, component: component, instance: component + "-" + host,
		seen: map[eventKey][]*series{},
	}
}

// record does not wait for the API server.
func (r *recorder) record(object runtime.Object, kind, reason, note string) {
	regarding, err := reference.GetReference(r.scheme, object)
	if err != nil {
		klog.FromContext(r.ctx).Error(err, "No event, for its object has no kind", "reason", reason, "note", note)
		return
	}
	regarding.ResourceVersion = "" // each change of the object would else end the series
	now := metav1.NowMicro()
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name: util.GenerateEventName(regarding.Name, now.UnixNano()), Namespace: regarding.Namespace,
		},
		EventTime: now, ReportingController: r.component, ReportingInstance: r.instance,
		Action: "Reconcile", Type: kind, Reason: reason, Note: note, Regarding: *regarding,
	}
	if event.Namespace == "" {
		event.Namespace = metav1.NamespaceDefault
	}
	if event = r.collect(event); event != nil {
		go func() {
			_ = wait.PollUntilContextTimeout(r.ctx, eventPause, eventPatience, true, func(context.Context) (bool, error) { return r.write(event), nil })
		}()
	}
}

// collect gives what is to be written now: a new Event, or the count of one that has begun
// to come again, or that comes again and again.
func (r *recorder) collect(event *eventsv1.Event) *eventsv1.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, key := event.EventTime, eventKey{event.Type, event.Reason, event.Regarding}
	for key, some := range r.seen {
		r.seen[key] = slices.DeleteFunc(some, func(s *series) bool { return now.Sub(s.last) > seriesEnd })
	}
	maps.DeleteFunc(r.seen, func(_ eventKey, some []*series) bool { return len(some) == 0 })
	some := r.seen[key]
	at := slices.IndexFunc(some, func(s *series) bool { return s.event.Note == event.Note })
	if at < 0 && len(some) < maxNotes {
		r.seen[key] = append(some, &series{event: event, last: now.Time, written: now.Time})
		return event.DeepCopy()
	}
	if at < 0 {
		at = maxNotes - 1
	}
	s := some[at]
	if s.event.Series == nil {
		s.event.Series, s.written = &eventsv1.EventSeries{Count: 1}, time.Time{}
	}
	s.last = now.Time
	s.event.Series.Count++
	s.event.Series.LastObservedTime = now
	if now.Sub(s.written) < seriesEnd {
		return nil
	}
	s.written = now.Time
	return s.event.DeepCopy()
}

// write is false when the same may succeed later.
func (r *recorder) write(event *eventsv1.Event) bool {
	events := r.events(event.Namespace)
	var err error
	if event.Series != nil {
		var patch []byte
		if patch, err = json.Marshal(map[string]any{"series": event.Series}); err == nil {
			_, err = events.Patch(r.ctx, event.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		}
	}
	if event.Series == nil || apierrors.IsNotFound(err) {
		_, err = events.Create(r.ctx, event, metav1.CreateOptions{})
	}
	if err == nil || apierrors.IsAlreadyExists(err) { // of a series: its first Event was just being written
		return true
	}
	klog.FromContext(r.ctx).Error(err, "Unable to write event", "event", event)
	var refused *apierrors.StatusError
	return errors.As(err, &refused)
}
