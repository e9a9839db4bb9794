package main

import (
	"context"
	"fmt"
	"time"

	"github.com/ovn-offload/ovn-offload/hack/lab/cluster"
)

// warmUp pods go first and are not counted: page cache, connections.
const warmUp = 4

// podStarts measures pods one by one, then at once.
func (b *bench) podStarts(ctx context.Context) error {
	w, err := watchPods(ctx, b.client)
	if err != nil {
		return err
	}
	defer w.close(ctx)
	if err := w.createMany(ctx, "warm", "", warmUp); err != nil {
		return err
	}
	if err := w.waitReady(ctx); err != nil {
		return err
	}
	if err := w.clear(ctx); err != nil {
		return err
	}
	if err := b.control(ctx); err != nil {
		return err
	}
	if err := b.oneByOne(ctx, w); err != nil {
		return err
	}
	for round := range b.rounds {
		if err := b.atOnce(ctx, w, round); err != nil {
			return err
		}
	}
	return nil
}

// control does what oneByOne does, without pods: what it costs is background and
// our own looking, which the CPU times of pods contain as well.
func (b *bench) control(ctx context.Context) error {
	before, err := b.costs()
	if err != nil {
		return err
	}
	for range b.pods {
		pause(ctx, 250*time.Millisecond)
		if _, err := b.addStages(ctx); err != nil {
			return err
		}
	}
	after, err := b.costs()
	if err != nil {
		return err
	}
	fmt.Println("Control, as long and as often looked at, but no pod:")
	printCPU(before, after, b.pods)
	fmt.Println()
	return nil
}

func (b *bench) oneByOne(ctx context.Context, w *watched) error {
	costBefore, err := b.costs()
	if err != nil {
		return err
	}
	before, err := b.addStages(ctx)
	if err != nil {
		return err
	}
	stages := map[string][]time.Duration{}
	for i := range b.pods {
		if err := w.create(ctx, fmt.Sprintf("one-%d", i), ""); err != nil {
			return err
		}
		if err := w.waitReady(ctx); err != nil {
			return err
		}
		after, err := b.addStages(ctx)
		if err != nil {
			return err
		}
		for stage, sum := range after {
			if took := sum.since(before[stage]); took.count == 1 {
				stages[stage] = append(stages[stage], took.mean())
			}
		}
		before = after
	}
	costAfter, err := b.costs()
	if err != nil {
		return err
	}
	times := w.snapshot()
	if err := w.clear(ctx); err != nil {
		return err
	}
	commands, err := b.commands(w.namespace)
	if err != nil {
		return err
	}
	fmt.Printf("%d pods one by one:\n\n", b.pods)
	b.timeline(times, commands).print()
	fmt.Println()
	printCPU(costBefore, costAfter, b.pods)
	if b.network == cluster.CNIOffload {
		fmt.Print("\nWithin ADD, by the agent:\n\n")
		t := newQuantiles("stage")
		for _, stage := range addStageNames {
			t.addQuantiles(stage, stages[stage])
		}
		t.print()
	}
	return nil
}

func (b *bench) atOnce(ctx context.Context, w *watched, round int) error {
	before, err := b.addStages(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := w.createMany(ctx, fmt.Sprintf("burst%d", round), "", b.burst); err != nil {
		return err
	}
	created := time.Since(start)
	if err := w.waitReady(ctx); err != nil {
		return err
	}
	all := time.Since(start)
	after, err := b.addStages(ctx)
	if err != nil {
		return err
	}
	times := w.snapshot()
	if err := w.clear(ctx); err != nil {
		return err
	}
	commands, err := b.commands(w.namespace)
	if err != nil {
		return err
	}
	fmt.Printf("\n%d pods at once, round %d: created after %.2f s, all Ready after %.2f s\n\n", b.burst, round+1, created.Seconds(), all.Seconds())
	b.timeline(times, commands).print()
	if b.network == cluster.CNIOffload {
		fmt.Print("\nmean of the stages of ADD:")
		for _, stage := range addStageNames {
			fmt.Printf(" %s %s;", stage, milliseconds(after[stage].since(before[stage]).mean()))
		}
		fmt.Println()
	}
	return nil
}

// timeline is when each step was reached, from the create call on, and how long
// the agent's commands took.
func (b *bench) timeline(times map[string]podTimes, commands map[string]podCommands) *table {
	var annotated, received, returned, ready, add, del []time.Duration
	for name, pod := range times {
		ready = append(ready, pod.ready.Sub(pod.created))
		command, ok := commands[name]
		if !ok {
			continue
		}
		annotated = append(annotated, pod.annotated.Sub(pod.created))
		received = append(received, command.received.Sub(pod.created))
		returned = append(returned, command.returned.Sub(pod.created))
		add = append(add, command.add)
		del = append(del, command.del...)
	}
	t := newQuantiles("from the create call to")
	if b.network == cluster.CNIOffload {
		t.addQuantiles("annotation seen by a watch", annotated)
		t.addQuantiles("CNI ADD received", received)
		t.addQuantiles("CNI ADD returned", returned)
	}
	t.addQuantiles("**Ready seen by a watch**", ready)
	if b.network == cluster.CNIOffload {
		t.addQuantiles("(CNI ADD in the agent)", add)
		t.addQuantiles("(CNI DEL in the agent, all at once)", del)
	}
	return t
}
