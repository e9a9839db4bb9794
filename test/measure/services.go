package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	serviceSamples   = 30
	flowServices     = 10 // over which the flows that one adds are averaged
	serviceEndpoints = 3
)

// serviceTimes is how long it takes from the creation of a service until a pod on
// another node connects to it, and the flows that a service adds. The endpoints
// are there before; the pod asks for the address before it exists.
func (b *bench) serviceTimes(ctx context.Context) error {
	w, err := watchPods(ctx, b.client)
	if err != nil {
		return err
	}
	defer w.close(ctx)
	for i := range serviceEndpoints {
		if err := w.create(ctx, fmt.Sprintf("server-%d", i), b.worker()); err != nil {
			return err
		}
	}
	if err := w.waitReady(ctx); err != nil {
		return err
	}
	var took []time.Duration
	for i := range serviceSamples + 2 {
		sample, err := b.firstConnection(ctx, w.namespace, fmt.Sprintf("10.96.77.%d", i+1))
		if err != nil {
			return err
		}
		if i >= 2 { // the first two are not counted
			took = append(took, sample)
		}
	}
	t := newQuantiles("service")
	t.addQuantiles("creation to first connection", took)
	t.print()
	return b.serviceFlows(ctx, w.namespace)
}

// firstConnection is from the request to create a service until a pod connects.
func (b *bench) firstConnection(ctx context.Context, namespace, address string) (time.Duration, error) {
	return b.untilSeen(ctx, namespace, []string{"await", address + ":80"}, func() error {
		return b.createService(ctx, namespace, "web-"+strings.ReplaceAll(address, ".", "-"), address, selectPods())
	})
}

// untilSeen is from the beginning of a change until a pod's prober, which was
// looking before, has seen its effect.
func (b *bench) untilSeen(ctx context.Context, namespace string, prober []string, change func() error) (time.Duration, error) {
	type result struct {
		out string
		err error
	}
	done := make(chan result, 1)
	go func() {
		out, err := b.inPod(ctx, namespace, "server-0", append([]string{"probe"}, prober...)...)
		done <- result{out, err}
	}()
	pause(ctx, 300*time.Millisecond) // it is asking by now
	start := time.Now()
	if err := change(); err != nil {
		return 0, err
	}
	r := <-done
	if r.err != nil {
		return 0, r.err
	}
	seen, err := strconv.ParseInt(strings.TrimSpace(r.out), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the prober printed %q", r.out)
	}
	return time.Unix(0, seen).Sub(start), nil
}

// inPod runs a command in a pod.
func (b *bench) inPod(ctx context.Context, namespace, pod string, command ...string) (string, error) {
	args := append([]string{"--kubeconfig", b.lab.Kubeconfig(), "-n", namespace, "exec", pod, "--"}, command...)
	out, err := exec.CommandContext(ctx, filepath.Join(filepath.Dir(b.options.lab), "kubectl"), args...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%v in pod %s: %w: %s", command, pod, err, exit.Stderr)
	}
	return string(out), err
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
