package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/ovn-offload/ovn-offload/hack/lab/build"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

const (
	podsWithin = 3 * time.Minute
	creators   = 8 // clients at once
)

// podTimes says when the API first showed each step of one pod.
type podTimes struct {
	created   time.Time // before the request
	annotated time.Time
	started   time.Time // by the kubelet
	ready     time.Time
}

// watched follows the pods of one namespace.
type watched struct {
	client    kubernetes.Interface
	namespace string
	// hostNetwork makes pods that are none of the network's business.
	hostNetwork bool
	// networks are those that a pod asks for, by the number at the end of its name; nil: none.
	networks func(pod string) string

	mu      sync.Mutex
	pods    map[string]*podTimes
	changed chan struct{} // closed at the next change
	stop    func()
}

// watchPods makes a namespace and follows its pods until close.
func watchPods(ctx context.Context, client kubernetes.Interface) (*watched, error) {
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "bench-"}}
	made, err := client.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	w := &watched{client: client, namespace: made.Name, pods: map[string]*podTimes{}, changed: make(chan struct{})}
	// The API server ends a watch when it likes; this one goes on where it ended.
	pods := cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		return client.CoreV1().Pods(made.Name).Watch(ctx, options)
	}}
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, made.ResourceVersion, &pods)
	if err != nil {
		return nil, err
	}
	w.stop = watcher.Stop
	go func() {
		for event := range watcher.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok {
				w.see(event.Type, pod, time.Now())
			} else {
				progress("watch of %s: %s %v", made.Name, event.Type, event.Object)
			}
		}
		progress("watch of %s ended", made.Name)
	}()
	return w, nil
}

func (w *watched) see(event watch.EventType, pod *corev1.Pod, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	times := w.pods[pod.Name]
	switch {
	case times == nil:
		return
	case event == watch.Deleted:
		delete(w.pods, pod.Name)
	default:
		if times.annotated.IsZero() && pod.Annotations[contract.PodNetworksKey] != "" {
			times.annotated = now
		}
		if times.started.IsZero() && pod.Status.StartTime != nil {
			times.started = now
		}
		if times.ready.IsZero() && isReady(pod) {
			times.ready = now
		}
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// selectPods is what every measured pod bears and every measured service selects.
func selectPods() map[string]string { return map[string]string{"app": "bench"} }

// create makes a pod, on a node of the scheduler's choice when node is "".
func (w *watched) create(ctx context.Context, name, node string) error {
	grace := int64(1)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, Labels: selectPods()},
		Spec: corev1.PodSpec{
			NodeName: node, HostNetwork: w.hostNetwork, TerminationGracePeriodSeconds: &grace, RestartPolicy: corev1.RestartPolicyNever,
			AutomountServiceAccountToken: new(bool),
			Containers: []corev1.Container{{
				Name: "main", Image: build.ToolsImage, ImagePullPolicy: corev1.PullNever, Command: []string{"probe", "serve", "8080"},
			}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		},
	}
	if w.networks != nil {
		pod.Annotations = map[string]string{contract.NetworksKey: w.networks(name[strings.LastIndex(name, "-")+1:])}
	}
	w.mu.Lock()
	w.pods[name] = &podTimes{created: time.Now()}
	w.mu.Unlock()
	_, err := w.client.CoreV1().Pods(w.namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// createMany makes pods name-0 to name-(n-1) as fast as a few clients can.
func (w *watched) createMany(ctx context.Context, name, node string, n int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for i := range n {
		group.Go(func() error { return w.create(ctx, fmt.Sprintf("%s-%d", name, i), node) })
	}
	return group.Wait()
}

// wait returns when ok holds for every pod of the namespace.
func (w *watched) wait(ctx context.Context, ok func(*podTimes) bool) error {
	ctx, cancel := context.WithTimeout(ctx, podsWithin)
	defer cancel()
	for {
		w.mu.Lock()
		changed, missing := w.changed, 0
		for _, times := range w.pods {
			if !ok(times) {
				missing++
			}
		}
		w.mu.Unlock()
		if missing == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			w.report(context.WithoutCancel(ctx))
			return fmt.Errorf("%d of %d pods not there yet: %w", missing, len(w.pods), ctx.Err())
		}
	}
}

func (w *watched) waitReady(ctx context.Context) error {
	return w.wait(ctx, func(t *podTimes) bool { return !t.ready.IsZero() })
}

// report shows what a measurement that has failed waited for.
func (w *watched) report(ctx context.Context) {
	pods, err := w.client.CoreV1().Pods(w.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		progress("listing pods: %v", err)
		return
	}
	phases := map[string]int{}
	for _, pod := range pods.Items {
		phases[fmt.Sprintf("%s %s, deleted %t, ready %t", pod.Spec.NodeName, pod.Status.Phase, pod.DeletionTimestamp != nil, isReady(&pod))]++
	}
	progress("pods in the API: %v", phases)
	events, err := w.client.CoreV1().Events(w.namespace).List(ctx, metav1.ListOptions{FieldSelector: "type=Warning"})
	if err != nil {
		progress("listing events: %v", err)
		return
	}
	for _, event := range events.Items[:min(20, len(events.Items))] {
		progress("event of %s: %s %s", event.InvolvedObject.Name, event.Reason, event.Message)
	}
}

// snapshot copies the times.
func (w *watched) snapshot() map[string]podTimes {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]podTimes{}
	for name, times := range w.pods {
		out[name] = *times
	}
	return out
}

// clear deletes all pods and returns when they are gone.
func (w *watched) clear(ctx context.Context) error {
	if err := w.client.CoreV1().Pods(w.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return err
	}
	return w.wait(ctx, func(*podTimes) bool { return false })
}

// close also deletes the namespace.
func (w *watched) close(ctx context.Context) {
	w.stop()
	if err := w.client.CoreV1().Namespaces().Delete(context.WithoutCancel(ctx), w.namespace, metav1.DeleteOptions{}); err != nil {
		progress("deleting namespace %s: %v", w.namespace, err)
	}
}
