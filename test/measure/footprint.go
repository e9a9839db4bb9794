package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// settle is how long processes are left alone before their memory is read.
const settle = 20 * time.Second

// footprint is the memory of each process and the flows, without pods and with
// many on one node.
func (b *bench) footprint(ctx context.Context) error {
	pause(ctx, settle)
	emptyCosts, err := b.costs()
	if err != nil {
		return err
	}
	emptyFlows, err := b.countFlows(ctx)
	if err != nil {
		return err
	}
	w, err := watchPods(ctx, b.client)
	if err != nil {
		return err
	}
	defer w.close(ctx)
	if err := w.createMany(ctx, "beside", b.worker(), b.beside); err != nil {
		return err
	}
	if err := w.waitReady(ctx); err != nil {
		return err
	}
	pause(ctx, settle)
	fullCosts, err := b.costs()
	if err != nil {
		return err
	}
	fullFlows, err := b.countFlows(ctx)
	if err != nil {
		return err
	}
	t := newTable("process", "node", "RSS MB, no pod", fmt.Sprintf("RSS MB, %d pods on %s", b.beside, b.worker()), "of it not file-backed")
	for _, c := range components {
		for _, node := range b.nodes {
			if full, ok := fullCosts[[2]string{c.title, node}]; ok {
				t.add(c.title, node, megabytes(emptyCosts[[2]string{c.title, node}].resident), megabytes(full.resident), megabytes(full.anonymous))
			}
		}
	}
	t.print()
	fmt.Println()
	t = newTable("flows", "no pod", fmt.Sprintf("%d pods", b.beside), "a local pod adds")
	each := func(from, to int) float64 { return float64(to-from) / float64(b.beside) }
	t.add("logical flow rows, whole cluster", emptyFlows.logical, fullFlows.logical, each(emptyFlows.logical, fullFlows.logical))
	t.add("OpenFlows of br-int on "+b.worker(), emptyFlows.openflow, fullFlows.openflow, each(emptyFlows.openflow, fullFlows.openflow))
	t.print()
	return w.clear(ctx)
}

func megabytes(kib int) float64 { return float64(kib) * 1024 / 1e6 }

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// plugin is the CNI binary's size and how long it takes to start and end, from
// fork to exit, answering VERSION without the agent.
func (b *bench) plugin(ctx context.Context) error {
	const path = "/opt/cni/bin/ovn-k8s-cni-overlay"
	size, err := b.lab.Exec(ctx, b.worker(), "stat", "--format=%s", path)
	if err != nil {
		return err
	}
	machine, err := b.lab.Machine(b.worker())
	if err != nil {
		return err
	}
	var took []time.Duration
	for range 200 {
		cmd := exec.CommandContext(ctx, fmt.Sprintf("/proc/%d/root%s", machine.PID, path))
		cmd.Env, cmd.Stdin = []string{"CNI_COMMAND=VERSION"}, strings.NewReader(`{"cniVersion":"1.1.0"}`)
		start := time.Now()
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("running the CNI binary: %w", err)
		}
		took = append(took, time.Since(start))
	}
	fmt.Printf("size: %s bytes\n\n", strings.TrimSpace(size))
	t := newQuantiles("CNI binary")
	t.addQuantiles("VERSION, fork to exit", took)
	t.print()
	return nil
}
