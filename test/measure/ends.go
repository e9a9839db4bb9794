package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// relist is the interval in which the kubelet lists containers, and settled is
// the time after which the kubelet has seen all of a pod's start.
const relist, settled = time.Second, 3 * time.Second

// podEnds measures deletions, one by one. Before it works on a pod again, the
// kubelet waits for the next list of containers. So what counts beside the
// network is whether a pod was changed while it started: the row with an
// annotation shows that in a lab whose network writes none.
func (b *bench) podEnds(ctx context.Context) error {
	w, err := watchPods(ctx, b.client)
	if err != nil {
		return err
	}
	defer w.close(ctx)
	t := newQuantiles("from the delete call until a watch shows no pod")
	for i, row := range []struct {
		name     string
		after    time.Duration
		annotate bool
	}{
		{"deleted when Ready", 0, false},
		{"... with an annotation more, written while the kubelet starts it", 0, true},
		{fmt.Sprintf("deleted %s after Ready", settled), settled, false},
	} {
		var samples []time.Duration
		for n := range b.ends {
			// The phase of the kubelet's list decides about a second: all phases count alike.
			after := row.after + time.Duration(n)*relist/time.Duration(b.ends)
			took, err := b.podEnd(ctx, w, fmt.Sprintf("end-%d-%d", i, n), after, row.annotate)
			if err != nil {
				return err
			}
			samples = append(samples, took)
		}
		t.addQuantiles(row.name, samples)
	}
	t.print()
	return nil
}

// podEnd creates a pod, deletes it some time after it is Ready, and returns the
// time from the delete call until the pod is gone.
func (b *bench) podEnd(ctx context.Context, w *watched, name string, after time.Duration, annotate bool) (time.Duration, error) {
	if err := w.create(ctx, name, b.worker()); err != nil {
		return 0, err
	}
	pods := b.client.CoreV1().Pods(w.namespace)
	if annotate {
		if err := w.wait(ctx, func(t *podTimes) bool { return !t.started.IsZero() }); err != nil {
			return 0, err
		}
		patch := []byte(`{"metadata":{"annotations":{"measure":"end"}}}`)
		if _, err := pods.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return 0, err
		}
	}
	if err := w.waitReady(ctx); err != nil {
		return 0, err
	}
	pause(ctx, after)
	start := time.Now()
	if err := pods.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return 0, err
	}
	err := w.wait(ctx, func(*podTimes) bool { return false })
	return time.Since(start), err
}
