package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	serviceSamples   = 30
	flowServices     = 10 // over which the flows that one adds are averaged
	serviceEndpoints = 3
)

// serviceTimes is how long a service takes to work, and the flows that one adds.
func (b *bench) serviceTimes(ctx context.Context) error {
	w, err := watchPods(ctx, b.client)
	if err != nil {
		return err
	}
	defer w.close(ctx)
	if err := b.serviceLatency(ctx, w); err != nil {
		return err
	}
	return b.serviceFlows(ctx, w.namespace)
}

// serviceLatency is from the creation of a service until a pod on the endpoints' node
// connects to it. The endpoints are there before; the pod asks for the address before
// it exists.
func (b *bench) serviceLatency(ctx context.Context, w *watched) error {
	for i := range serviceEndpoints {
		if err := w.create(ctx, fmt.Sprintf("server-%d", i), b.worker()); err != nil {
			return err
		}
	}
	if err := w.waitReady(ctx); err != nil {
		return err
	}
	slices, err := b.client.DiscoveryV1().EndpointSlices(w.namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	defer slices.Stop()
	var took, known []time.Duration
	for i := range serviceSamples + 2 {
		slice, sample, err := b.firstConnection(ctx, w.namespace, fmt.Sprintf("10.96.77.%d", i+1), slices.ResultChan())
		if err != nil {
			return err
		}
		if i >= 2 { // the first two are not counted
			took, known = append(took, sample), append(known, slice)
		}
	}
	t := newQuantiles("service")
	t.addQuantiles("creation to first connection", took)
	t.addQuantiles("... to its EndpointSlice, seen by a watch", known)
	t.print()
	return nil
}

// firstConnection is from the request to create a service until a watch shows its
// endpoints, which is Kubernetes' part, and until a pod connects.
func (b *bench) firstConnection(ctx context.Context, namespace, address string, slices <-chan watch.Event) (known, connected time.Duration, err error) {
	name := "web-" + strings.ReplaceAll(address, ".", "-")
	seen := make(chan time.Duration, 1)
	connected, err = b.untilSeen(ctx, namespace, []string{"await", address + ":80"}, func() error {
		start := time.Now()
		go func() {
			for event := range slices {
				slice, ok := event.Object.(*discoveryv1.EndpointSlice)
				if ok && slice.Labels[discoveryv1.LabelServiceName] == name && len(slice.Endpoints) > 0 {
					seen <- time.Since(start)
					return
				}
			}
		}()
		return b.createService(ctx, namespace, name, address, selectPods())
	})
	if err != nil {
		return 0, 0, err
	}
	select {
	case known = <-seen:
		return known, connected, nil
	case <-time.After(10 * time.Second):
		return 0, 0, fmt.Errorf("a watch has not shown the endpoints of %s", name)
	}
}

// untilSeen is from the beginning of a change until a pod's prober, which was
// asking before, has seen its effect.
func (b *bench) untilSeen(ctx context.Context, namespace string, prober []string, change func() error) (time.Duration, error) {
	args := append([]string{"--kubeconfig", b.lab.Kubeconfig(), "-n", namespace, "exec", "server-0", "--", "probe"}, prober...)
	command := exec.CommandContext(ctx, filepath.Join(filepath.Dir(b.options.lab), "kubectl"), args...)
	var complaint bytes.Buffer
	command.Stderr = &complaint
	out, err := command.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := command.Start(); err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(out)
	var start time.Time
	if lines.Scan() && lines.Text() == "asking" {
		pause(ctx, 500*time.Millisecond) // kubectl and the API server have begun the session
		start = time.Now()
		err = change()
	}
	seen := int64(0)
	if lines.Scan() {
		seen, _ = strconv.ParseInt(lines.Text(), 10, 64)
	}
	if err := errors.Join(err, command.Wait()); err != nil {
		return 0, fmt.Errorf("%v in pod server-0: %w: %s", prober, err, &complaint)
	}
	if start.IsZero() || seen == 0 {
		return 0, fmt.Errorf("%v in pod server-0 has not seen a change", prober)
	}
	return time.Unix(0, seen).Sub(start), nil
}

func (b *bench) createService(ctx context.Context, namespace, name, address string, selector map[string]string) error {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.ServiceSpec{ClusterIP: address, Selector: selector, Ports: []corev1.ServicePort{{Port: 80, TargetPort: targetPort()}}},
	}
	_, err := b.client.CoreV1().Services(namespace).Create(ctx, service, metav1.CreateOptions{})
	return err
}

// serviceFlows counts what services with three endpoints add.
func (b *bench) serviceFlows(ctx context.Context, namespace string) error {
	title := fmt.Sprintf("a ClusterIP service with %d endpoints adds", serviceEndpoints)
	return b.flowsOfOne(ctx, title, flowServices, func(i int) error {
		return b.createService(ctx, namespace, fmt.Sprintf("flows-%d", i), fmt.Sprintf("10.96.78.%d", i+1), selectPods())
	})
}
