package kube

import (
	"context"
	"encoding/json"
	"errors"
	"os"
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

// What follows is how client-go's tools/events records, which we would use if it
// did not know all kinds (package api).
const (
	eventTries = 12
	eventPause = 10 * time.Second
	// seriesEnd is the silence after which the same Event is a new one.
	seriesEnd = 6 * time.Minute
	// refreshEach times seriesEnd, lasting series are written, lest the API server
	// take them for old.
	refreshEach = 5
)

// recorder writes Events. One that comes again makes a series with the first, of
// which the API server is told when it begins, now and then, and when it has ended.
type recorder struct {
	ctx       context.Context // of all that is written
	events    api.Namespaced[eventsv1.Event, eventsv1.EventList]
	scheme    *runtime.Scheme
	component string
	instance  string

	mu   sync.Mutex
	seen map[eventKey]*eventsv1.Event
}

// eventKey is what the Events of a series have in common.
type eventKey struct {
	kind, reason string
	regarding    corev1.ObjectReference
}

// keyOf leaves the version of the object out: each change of it would else end the
// series and be an Event.
func keyOf(event *eventsv1.Event) eventKey {
	key := eventKey{kind: event.Type, reason: event.Reason, regarding: event.Regarding}
	key.regarding.ResourceVersion = ""
	return key
}

func newRecorder(ctx context.Context, client *api.Client, component string) *recorder {
	host, _ := os.Hostname()
	return &recorder{
		ctx: ctx, events: client.Events, scheme: client.Scheme, component: component, instance: component + "-" + host,
		seen: map[eventKey]*eventsv1.Event{},
	}
}

// record does not wait for the API server.
func (r *recorder) record(object runtime.Object, kind, reason, note string) {
	regarding, err := reference.GetReference(r.scheme, object)
	if err != nil {
		klog.FromContext(r.ctx).Error(err, "No event, for its object has no kind", "reason", reason, "note", note)
		return
	}
	now := time.Now()
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name: util.GenerateEventName(regarding.Name, now.UnixNano()), Namespace: regarding.Namespace,
		},
		EventTime: metav1.NewMicroTime(now), ReportingController: r.component, ReportingInstance: r.instance,
		Action: "Reconcile", Type: kind, Reason: reason, Note: note, Regarding: *regarding,
	}
	if event.Namespace == "" {
		event.Namespace = metav1.NamespaceDefault
	}
	if event = r.collect(event); event != nil {
		go r.send(event)
	}
}

// collect gives what is to be written now: a new Event, or the begin of a series.
func (r *recorder) collect(event *eventsv1.Event) *eventsv1.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := r.seen[keyOf(event)]
	switch {
	case first == nil:
		r.seen[keyOf(event)] = event
		return event.DeepCopy()
	case first.Series == nil:
		first.Series = &eventsv1.EventSeries{Count: 2, LastObservedTime: event.EventTime}
		return first.DeepCopy()
	}
	first.Series.Count++
	first.Series.LastObservedTime = event.EventTime
	return nil
}

func (r *recorder) send(event *eventsv1.Event) {
	for range eventTries {
		if r.write(event) {
			return
		}
		select {
		case <-r.ctx.Done():
			return
		case <-time.After(wait.Jitter(eventPause, 0.25)):
		}
	}
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
	if err == nil || apierrors.IsAlreadyExists(err) && event.Series == nil {
		return true
	}
	klog.FromContext(r.ctx).Error(err, "Unable to write event", "event", event)
	// A series that was absent and then there: its first Event was just being written.
	var refused *apierrors.StatusError
	return errors.As(err, &refused) && !apierrors.IsAlreadyExists(err)
}

// run ends series, until the recorder's ctx ends.
func (r *recorder) run() {
	ticker := time.NewTicker(seriesEnd)
	defer ticker.Stop()
	for round := 1; ; round++ {
		select {
		case <-r.ctx.Done():
			return
		case now := <-ticker.C:
			for _, event := range r.due(now, round%refreshEach == 0) {
				if r.write(event) && ended(event, now) {
					r.forget(event)
				}
			}
		}
	}
}

// due are the series that have ended, or all. Single Events are forgotten.
func (r *recorder) due(now time.Time, all bool) []*eventsv1.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*eventsv1.Event
	for key, event := range r.seen {
		switch over := ended(event, now); {
		case over && event.Series == nil:
			delete(r.seen, key)
		case event.Series != nil && (over || all):
			out = append(out, event.DeepCopy())
		}
	}
	return out
}

// forget ends a series, unless it has gone on since.
func (r *recorder) forget(written *eventsv1.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen[keyOf(written)].Series.Count == written.Series.Count {
		delete(r.seen, keyOf(written))
	}
}

func ended(event *eventsv1.Event, now time.Time) bool {
	last := event.EventTime.Time
	if event.Series != nil {
		last = event.Series.LastObservedTime.Time
	}
	return now.Sub(last) > seriesEnd
}
