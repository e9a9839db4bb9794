package refused

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/ovn-offload/ovn-offload/pkg/contract/served"
)

// said are the Events, as REASON KIND/NAME: NOTE.
type said struct {
	mu  sync.Mutex
	all []string
}

func (s *said) event(object runtime.Object, kind, reason, note string) {
	u := object.(*unstructured.Unstructured)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, kind+" "+reason+" "+u.GetKind()+"/"+u.GetName()+": "+note)
}

// of are the Events of an object, such as EgressIP/a.
func (s *said) of(object string) (events []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, event := range s.all {
		if strings.Contains(event, " "+object+": ") {
			events = append(events, event)
		}
	}
	return events
}

func egress(kind, name string, generation int64) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "k8s.ovn.org/v1", "kind": kind, "spec": map[string]any{"a": "b"}}}
	u.SetName(name)
	u.SetNamespace("d")
	u.SetGeneration(generation)
	return u
}

func clientWith(objects ...runtime.Object) *dynamicfake.FakeDynamicClient {
	lists := map[schema.GroupVersionResource]string{}
	for _, kind := range served.Kinds() {
		lists[kind.GroupVersionResource] = kind.Kind + "List"
	}
	return dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, objects...)
}

// run reports what a client has; repeat is how often, and 0 stands for an hour.
func run(t *testing.T, client *dynamicfake.FakeDynamicClient, repeat time.Duration) *said {
	t.Helper()
	var s said
	r := New(Deps{Client: client, Event: s.event, Logger: slog.New(slog.DiscardHandler)})
	if r.lookEvery = 10 * time.Millisecond; repeat > 0 {
		r.repeatEvery = repeat
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = r.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return &s
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not yet: " + what)
		}
	}
}

func resourceOf(t *testing.T, kind string) schema.GroupVersionResource {
	t.Helper()
	all := served.Kinds()
	i := slices.IndexFunc(all, func(k served.Kind) bool { return k.Kind == kind })
	if i < 0 {
		t.Fatalf("no kind %s", kind)
	}
	return all[i].GroupVersionResource
}

// TestKinds_ObjectsWithoutEffectHaveAnEvent: each object has one, and another one when its author changes it. An object of a
// kind that is served has none.
func TestKinds_ObjectsWithoutEffectHaveAnEvent(t *testing.T) {
	client := clientWith(egress("EgressFirewall", "default", 1), egress("EgressIP", "a", 1), egress("UserDefinedNetwork", "n", 1))
	s := run(t, client, 0)
	for _, object := range []string{"EgressFirewall/default", "EgressIP/a"} {
		eventually(t, "an Event of "+object, func() bool { return len(s.of(object)) == 1 })
	}
	if got := s.of("EgressFirewall/default")[0]; !strings.HasPrefix(got, "Warning NotServed") || !strings.Contains(got, "Deny rules deny nothing") {
		t.Errorf("Event %q", got)
	}
	firewalls := client.Tracker()
	status := egress("EgressFirewall", "default", 1)
	status.SetResourceVersion("2")
	changed := egress("EgressFirewall", "default", 2)
	changed.SetResourceVersion("3")
	for _, u := range []*unstructured.Unstructured{status, changed} {
		if err := firewalls.Update(resourceOf(t, "EgressFirewall"), u, "d"); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "an Event of the changed object", func() bool { return len(s.of("EgressFirewall/default")) == 2 })
	if got := s.of("UserDefinedNetwork/n"); got != nil || len(s.of("EgressIP/a")) != 1 || len(s.of("EgressFirewall/default")) != 2 {
		t.Errorf("Events %q", s.all)
	}
}

// TestKinds_EventsComeAgain: the API server keeps an Event for an hour, and the object stays. The control is a kind that is served.
func TestKinds_EventsComeAgain(t *testing.T) {
	client := clientWith(egress("EgressIP", "a", 1), egress("UserDefinedNetwork", "n", 1))
	s := run(t, client, 10*time.Millisecond)
	eventually(t, "a third Event", func() bool { return len(s.of("EgressIP/a")) > 2 })
	if got := s.of("UserDefinedNetwork/n"); got != nil {
		t.Errorf("Events %q", got)
	}
	if err := client.Tracker().Delete(resourceOf(t, "EgressIP"), "d", "a"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no further Event of an object that is gone", func() bool {
		before := len(s.of("EgressIP/a"))
		time.Sleep(100 * time.Millisecond)
		return len(s.of("EgressIP/a")) == before
	})
}

// TestKinds_CRDsComeAndGo: without a CRD nothing is watched, an object of one that comes later has its Event, and one that
// cannot be read stops no other.
func TestKinds_CRDsComeAndGo(t *testing.T) {
	client := clientWith(egress("EgressQoS", "default", 1), egress("EgressIP", "a", 1), egress("EgressService", "s", 1))
	var present atomic.Bool
	var looked atomic.Int64
	client.PrependReactor("list", "egressqoses", func(clienttesting.Action) (bool, runtime.Object, error) {
		looked.Add(1)
		return !present.Load(), nil, apierrors.NewNotFound(schema.GroupResource{}, "")
	})
	client.PrependReactor("list", "egressservices", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("a role is missing"))
	})
	s := run(t, client, 0)
	eventually(t, "an Event of the kind that is there", func() bool { return len(s.of("EgressIP/a")) == 1 })
	eventually(t, "a second look", func() bool { return looked.Load() > 1 })
	for _, action := range client.Actions() {
		if action.GetVerb() == "watch" && action.GetResource().Resource == "egressqoses" {
			t.Error("a kind without a CRD is watched")
		}
	}
	if got := s.of("EgressQoS/default"); got != nil {
		t.Errorf("Events %q without a CRD", got)
	}
	present.Store(true)
	eventually(t, "an Event of the kind that has come", func() bool { return len(s.of("EgressQoS/default")) == 1 })
	if got := s.of("EgressService/s"); got != nil {
		t.Errorf("Events %q of what cannot be read", got)
	}
}

// TestKinds_CRDMadeAgain: a kind whose CRD was deleted while it was followed is looked for again, and the object that is made
// again has its Event. An API server that fails for some time is no reason for another Event.
func TestKinds_CRDMadeAgain(t *testing.T) {
	client := clientWith(egress("EgressIP", "a", 1), egress("EgressQoS", "default", 1))
	var absent atomic.Bool
	unlessAbsent := func(resource string, err error) (watches chan *watch.FakeWatcher, failed *atomic.Int64) {
		watches, failed = make(chan *watch.FakeWatcher, 16), &atomic.Int64{}
		client.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			if !absent.Load() {
				return false, nil, nil
			}
			failed.Add(1)
			return true, nil, err
		})
		client.PrependWatchReactor(resource, func(clienttesting.Action) (bool, watch.Interface, error) {
			w := watch.NewFake()
			watches <- w
			return true, w, nil
		})
		return watches, failed
	}
	gone, looked := unlessAbsent("egressips", apierrors.NewNotFound(schema.GroupResource{}, ""))
	busy, failed := unlessAbsent("egressqoses", apierrors.NewInternalError(errors.New("no leader")))
	s := run(t, client, 0)
	for _, object := range []string{"EgressIP/a", "EgressQoS/default"} {
		eventually(t, "an Event of "+object, func() bool { return len(s.of(object)) == 1 })
	}
	goneWatch, busyWatch := <-gone, <-busy
	absent.Store(true)
	goneWatch.Stop()
	busyWatch.Stop()
	eventually(t, "a look for each", func() bool { return looked.Load() > 1 && failed.Load() > 0 })
	absent.Store(false)
	eventually(t, "an Event of the object made again", func() bool { return len(s.of("EgressIP/a")) == 2 })
	(<-busy).Add(egress("EgressQoS", "later", 1))
	eventually(t, "an Event of the next object", func() bool { return len(s.of("EgressQoS/later")) == 1 })
	if got := s.of("EgressQoS/default"); len(got) != 1 {
		t.Errorf("Events %q after its list failed", got)
	}
}
