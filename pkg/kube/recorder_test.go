package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
)

// recording is a recorder in a test's own time, and what it has asked the API for.
func recording(t *testing.T) (*recorder, *fake.Clientset, func() []string) {
	client := fake.NewClientset()
	ctx, cancel := context.WithCancel(context.Background())
	r := newRecorder(ctx, apitest.Client(client), "tester")
	r.instance = "tester-here"
	t.Cleanup(cancel)
	return r, client, func() []string {
		synctest.Wait()
		var out []string
		for _, action := range client.Actions() {
			switch a := action.(type) {
			case clienttesting.CreateAction:
				event := a.GetObject().(*eventsv1.Event)
				out = append(out, "create "+a.GetNamespace()+" "+event.Type+" "+event.Reason+" "+event.Note)
			case clienttesting.PatchAction:
				out = append(out, "patch "+string(a.GetPatch()))
			}
		}
		client.ClearActions()
		return out
	}
}

func wantAsked(t *testing.T, asked func() []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, asked()); diff != "" {
		t.Errorf("asked of the API (-want +got):\n%s", diff)
	}
}

// TestRecorder_EventHasAllFields: informers deliver objects without their kind.
func TestRecorder_EventHasAllFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, client, asked := recording(t)
		r.record(newPod("a", "n"), "Warning", "Forged", "100% a note")
		synctest.Wait()
		got, _ := json.Marshal(client.Actions()[0].(clienttesting.CreateAction).GetObject())
		const want = `{"metadata":{"name":"a.d234ccf52430000","namespace":"ns"},"eventTime":"2000-01-01T00:00:00.000000Z",` +
			`"reportingController":"tester","reportingInstance":"tester-here","action":"Reconcile","reason":"Forged",` +
			`"regarding":{"kind":"Pod","namespace":"ns","name":"a","uid":"uid-pod","apiVersion":"v1"},"note":"100% a note","type":"Warning",` +
			`"deprecatedSource":{},"deprecatedFirstTimestamp":null,"deprecatedLastTimestamp":null}`
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("event (-want +got):\n%s", diff)
		}
		wantAsked(t, asked, "create ns Warning Forged 100% a note")
		r.record(newNode("n", nil), "Normal", "Found", "has no namespace")
		wantAsked(t, asked, "create default Normal Found has no namespace")
	})
}

// TestRecorder_RepeatedEventBecomesSeries: the same again is counted and written when the series begins. After a silence
// it is new.
func TestRecorder_RepeatedEventBecomesSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _, asked := recording(t)
		say := func(reason string) { r.record(newPod("a", "n"), "Warning", reason, "note") }
		say("Same")
		synctest.Wait()
		say("Other")
		time.Sleep(time.Minute)
		say("Same")
		time.Sleep(time.Minute)
		say("Same")
		wantAsked(t, asked, "create ns Warning Same note", "create ns Warning Other note",
			`patch {"series":{"count":2,"lastObservedTime":"2000-01-01T00:01:00.000000Z"}}`)
		time.Sleep(7 * time.Minute)
		wantAsked(t, asked)
		say("Same")
		synctest.Wait()
		say("Other")
		wantAsked(t, asked, "create ns Warning Same note", "create ns Warning Other note")
	})
}

// TestRecorder_OtherTextIsAnotherEvent, up to a bound: the last of the texts then stands for further ones.
func TestRecorder_OtherTextIsAnotherEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _, asked := recording(t)
		var want []string
		for i := range 2 * maxNotes {
			r.record(newPod("a", "n"), "Warning", "Same", fmt.Sprint("note ", i))
			synctest.Wait()
			if i < maxNotes {
				want = append(want, fmt.Sprint("create ns Warning Same note ", i))
			}
		}
		want = append(want, `patch {"series":{"count":2,"lastObservedTime":"2000-01-01T00:00:00.000000Z"}}`)
		r.record(newPod("a", "n"), "Warning", "Same", "note 0")
		synctest.Wait()
		wantAsked(t, asked, append(want, want[maxNotes])...)
	})
}

func TestRecorder_LongSeriesIsRefreshed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _, asked := recording(t)
		for range 14 {
			r.record(newPod("a", "n"), "Warning", "Same", "note")
			time.Sleep(time.Minute)
		}
		wantAsked(t, asked, "create ns Warning Same note",
			`patch {"series":{"count":2,"lastObservedTime":"2000-01-01T00:01:00.000000Z"}}`,
			`patch {"series":{"count":8,"lastObservedTime":"2000-01-01T00:07:00.000000Z"}}`,
			`patch {"series":{"count":14,"lastObservedTime":"2000-01-01T00:13:00.000000Z"}}`)
	})
}

// TestRecorder_EventsAreTriedAgain unless the API server has refused them.
func TestRecorder_EventsAreTriedAgain(t *testing.T) {
	denied := apierrors.NewForbidden(eventsv1.Resource("events"), "", errors.New("no"))
	for name, c := range map[string]struct {
		failure error
		tries   int
	}{
		"away": {errors.New("connection refused"), 12}, "refused": {denied, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, client, asked := recording(t)
			client.PrependReactor("create", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, c.failure })
			r.record(newPod("a", "n"), "Warning", "Same", "note")
			time.Sleep(5 * time.Minute)
			if tries := len(asked()); tries != c.tries {
				t.Errorf("%s: %d tries, want %d", name, tries, c.tries)
			}
		})
	}
}

// TestRecorder_CreatesSeriesWithoutItsEvent, which was lost or deleted.
func TestRecorder_CreatesSeriesWithoutItsEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, client, asked := recording(t)
		client.PrependReactor("patch", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewNotFound(eventsv1.Resource("events"), "")
		})
		for range 2 {
			r.record(newPod("a", "n"), "Warning", "Same", "note")
			synctest.Wait()
		}
		create, patch := "create ns Warning Same note", `patch {"series":{"count":2,"lastObservedTime":"2000-01-01T00:00:00.000000Z"}}`
		// The fake has the Event by now: to create it again fails.
		wantAsked(t, asked, create, patch, create)
	})
}

// TestRecorder_OtherVersionOfAnObjectIsTheSameSeries: an Event for each change of an
// object would be one for each forged annotation. Another object is another series.
func TestRecorder_OtherVersionOfAnObjectIsTheSameSeries(t *testing.T) {
	r := newRecorder(t.Context(), apitest.Client(fake.NewClientset()), "tester")
	for i := range 50 {
		pod := newPod("a", "n")
		pod.ResourceVersion = fmt.Sprint(i)
		r.record(pod, "Warning", "Forged", "a note")
	}
	other := newPod("b", "n")
	other.UID = "uid-other"
	r.record(other, "Warning", "Forged", "a note")
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seen) != 2 {
		t.Errorf("%d series of two objects", len(r.seen))
	}
}
