// Relay measures the relay and the plugin with thousands of simulated nodes, and prints tables in Markdown for
// docs/benchmarks.md. It judges nothing.
//
//	etcd and kube-apiserver, real -> NodeOffloads, Nodes and pods as objects
//	agents, all in this process   -> the relay's process, which is measured
//
// No lab is needed, and no right of root.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/ovn-offload/ovn-offload/hack/lab/build"
)

type options struct {
	bin              string
	nodes, pods      int // pods a node, in summaries
	rest             time.Duration
	viewers, repeats int
}

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "_output/bin", "directory of ovn-offload-relay and kubectl-offload")
	flag.IntVar(&o.nodes, "nodes", 2000, "simulated nodes")
	flag.IntVar(&o.pods, "pods", 50, "pods of each in the summaries of its agent")
	flag.DurationVar(&o.rest, "rest", 2*time.Minute, "how long the relay is measured without viewers")
	flag.IntVar(&o.viewers, "viewers", 50, "viewers of one node's flows")
	flag.IntVar(&o.repeats, "repeats", 7, "how often each command and view is measured")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "relay:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "ovn-offload-relay")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cacheDir, err := build.DefaultDir()
	if err != nil {
		return err
	}
	cache := &build.Cache{Dir: cacheDir, Repo: ".", Say: progress}
	programs, err := cache.Kubernetes(ctx)
	if err != nil {
		return err
	}
	control, err := startControl(ctx, programs, dir)
	if err != nil {
		return err
	}
	defer control.stop()
	agents, err := startAgents(o.nodes, o.pods)
	if err != nil {
		return err
	}
	defer agents.stop()
	progress("creating the objects of %d nodes", o.nodes)
	if err := control.load(ctx, agents, o.nodes); err != nil {
		return err
	}
	m := &measurement{options: o, control: control, agents: agents, dir: dir}
	if err := m.startRelay(ctx); err != nil {
		return err
	}
	defer m.relay.stop()
	return m.all(ctx)
}

func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, "relay: "+format+"\n", args...) }

func (o options) program(name string) string { return filepath.Join(o.bin, name) }
