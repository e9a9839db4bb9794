package refused

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
)

const bandwidth = "kubernetes.io/egress-bandwidth"

func podWith(name string, hostNetwork bool, annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, Annotations: annotations}, Spec: corev1.PodSpec{HostNetwork: hostNetwork}}
}

// TestAnnotations_WithoutEffectHaveAnEvent: each annotation without effect is said once, and again when its value is another one.
// Others are not: those on other kinds, on pods of the node's network, and those with an effect.
func TestAnnotations_WithoutEffectHaveAnEvent(t *testing.T) {
	limited := podWith("limited", false, map[string]string{bandwidth: "10M"})
	client := fake.NewClientset(limited, podWith("host", true, map[string]string{bandwidth: "10M"}),
		podWith("plain", false, map[string]string{"k8s.v1.cni.cncf.io/networks": "a", "k8s.ovn.org/multicast-enabled": "true"}),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "loud", Annotations: map[string]string{"k8s.ovn.org/multicast-enabled": "true"}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "quiet", Annotations: map[string]string{"k8s.ovn.org/multicast-enabled": "false"}}})
	factory := informers.NewSharedInformerFactory(client, 0)
	by := map[string]cache.SharedIndexInformer{"Pod": factory.Core().V1().Pods().Informer(), "Namespace": factory.Core().V1().Namespaces().Informer()}
	ctx, cancel := context.WithCancel(t.Context())
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	var s saidOf
	r := New(Deps{Client: clientWith(), Annotated: by, Event: s.event, Logger: slog.New(slog.DiscardHandler)})
	var running sync.WaitGroup
	running.Go(func() { _ = r.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait(); factory.Shutdown() })

	eventually(t, "an Event of the pod", func() bool { return len(s.of("limited")) == 1 })
	eventually(t, "an Event of the namespace", func() bool { return len(s.of("loud")) == 1 })
	if got := s.of("limited")[0]; !strings.HasPrefix(got, "NotServed: annotation "+bandwidth+" has no effect: ") {
		t.Errorf("Event %q", got)
	}
	update := func(change func()) {
		t.Helper()
		change()
		if _, err := client.CoreV1().Pods("d").Update(t.Context(), limited, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	update(func() { limited.Labels = map[string]string{"a": "b"} }) // says nothing new
	update(func() { limited.Annotations = map[string]string{bandwidth: "fast"} })
	eventually(t, "an Event of the wrong value", func() bool { return len(s.of("limited")) == 2 })
	if got := s.of("limited")[1]; !strings.Contains(got, `"fast" is not a quantity`) {
		t.Errorf("Event %q", got)
	}
	for _, name := range []string{"host", "plain", "quiet"} {
		if got := s.of(name); got != nil {
			t.Errorf("%s: Events %q", name, got)
		}
	}
}

// saidOf are the Events by the name of their object, as REASON: NOTE.
type saidOf struct {
	mu sync.Mutex
	by map[string][]string
}

func (s *saidOf) event(o runtime.Object, _, reason, note string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil {
		s.by = map[string][]string{}
	}
	name := o.(metav1.Object).GetName()
	s.by[name] = append(s.by[name], reason+": "+note)
}

func (s *saidOf) of(name string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.by[name]
}
