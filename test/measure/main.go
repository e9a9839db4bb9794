// Bench measures ovn-offload in the lab and prints tables in Markdown, which
// docs/benchmarks.md keeps with the machine that they are from. It judges
// nothing: what is fast enough depends on the machine.
//
// It brings up one lab after the other: first with a plain bridge network, which
// is the floor, then with ovn-offload, and measures the same in both. What can be
// asked of one network only (stages, memory, flows, thousands of pods) follows.
// The engine's own benchmarks are `go test -bench`; `make bench` runs both.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"k8s.io/client-go/kubernetes"

	"github.com/ovn-offload/ovn-offload/hack/lab/cluster"
)

type options struct {
	lab, networks, parts        string
	nodes                       int
	pods, burst, rounds, beside int // pods one by one, at once, how often, and those whose memory is measured
	further                     int // networks of each topology
	bound                       int // API objects on a node without a kubelet
	services                    int // API objects, each with ten endpoints
	policies                    int // API objects, each with twenty peers
	ends                        int // deletions of a kind, one by one
	keep                        bool
}

func main() {
	var o options
	flag.StringVar(&o.lab, "lab", "_output/bin/lab", "the lab's command")
	flag.StringVar(&o.networks, "networks", "bridge,ovn-offload", "labs to measure in, one after the other")
	flag.StringVar(&o.parts, "parts", "pods,ends,plugin,footprint,lookups,networks,services,policies,bound,manyservices,manypolicies", "what to measure")
	flag.IntVar(&o.nodes, "nodes", 2, "nodes of the lab")
	flag.IntVar(&o.pods, "pods", 30, "pods one by one")
	flag.IntVar(&o.burst, "burst", 60, "pods at once")
	flag.IntVar(&o.rounds, "rounds", 3, "bursts")
	flag.IntVar(&o.ends, "ends", 12, "deletions of a kind, one by one")
	flag.IntVar(&o.beside, "beside", 100, "pods of one node whose memory and flows are measured")
	flag.IntVar(&o.further, "further", 30, "further networks of each topology, with a pod each")
	flag.IntVar(&o.bound, "bound", 5000, "pods as API objects")
	flag.IntVar(&o.services, "services", 5000, "services as API objects")
	flag.IntVar(&o.policies, "policies", 5000, "network policies as API objects")
	flag.BoolVar(&o.keep, "keep", false, "leave the last lab running")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is the lab that is being measured.
type bench struct {
	options
	network string
	lab     *cluster.Lab
	client  kubernetes.Interface
	nodes   []string
	logs    string // directory of the machines
}

// worker is the node that pods are pinned to where one node is measured.
func (b *bench) worker() string { return b.nodes[len(b.nodes)-1] }

func run(ctx context.Context, o options) error {
	describeMachine()
	networks := strings.Split(o.networks, ",")
	for i, network := range networks {
		if err := measure(ctx, o, network, o.keep && i == len(networks)-1); err != nil {
			return fmt.Errorf("network %s: %w", network, err)
		}
	}
	return nil
}

// measure brings up a lab, measures in it, and takes it down.
func measure(ctx context.Context, o options, network string, keep bool) (err error) {
	cfg, err := cluster.Defaults(".")
	if err != nil {
		return err
	}
	cfg.Name, cfg.Nodes, cfg.CNI, cfg.Out = "bench", o.nodes, network, io.Discard
	if network == cluster.CNIOffload {
		cfg.ChartValues = []string{"networks.native=true"}
	}
	if cfg.Command, err = filepath.Abs(o.lab); err != nil {
		return err
	}
	lab, err := cluster.New(cfg)
	if err != nil {
		return err
	}
	if !keep {
		defer func() {
			if downErr := lab.Down(context.WithoutCancel(ctx)); err == nil {
				err = downErr
			}
		}()
	}
	progress("lab with %s", network)
	if err := lab.Up(ctx); err != nil {
		return err
	}
	b := &bench{options: o, network: network, lab: lab, nodes: cfg.NodeNames(), logs: filepath.Join(lab.Config().Workdir, "machines")}
	if b.client, err = lab.Client(); err != nil {
		return err
	}
	return b.all(ctx)
}

func (b *bench) all(ctx context.Context) error {
	wanted := strings.Split(b.parts, ",")
	for _, part := range []struct {
		name   string
		only   bool // with ovn-offload
		header string
		do     func(context.Context) error
	}{
		{"pods", false, "Pod creation to Ready", b.podStarts},
		{"ends", false, "Pod deletion until the pod is gone", b.podEnds},
		{"plugin", true, "CNI binary", b.plugin},
		{"footprint", true, "Memory and flows", b.footprint},
		{"lookups", true, "Datapath passes a packet", b.lookups},
		{"networks", true, "Further networks", b.furtherNetworks},
		{"services", true, "Services", b.serviceTimes},
		{"policies", true, "Network policies", b.policyTimes},
		{"manyservices", true, "Services as API objects", b.manyServices},
		{"manypolicies", true, "Network policies as API objects", b.manyPolicies},
		{"bound", true, "Pods as API objects", b.boundPods},
	} {
		if !slices.Contains(wanted, part.name) || part.only && b.network != cluster.CNIOffload {
			continue
		}
		progress("%s: %s", b.network, part.name)
		fmt.Printf("\n## %s: %s (load before: %s)\n\n", b.network, part.header, load())
		if err := part.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...) }

func load() string {
	data, _ := os.ReadFile("/proc/loadavg")
	return strings.Join(strings.Fields(string(data))[:2], " ")
}

func describeMachine() {
	model := "unknown CPU"
	data, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			model = strings.TrimSpace(value)
		}
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	fmt.Printf("Machine: %d x %s, Linux %s, %s\n", runtime.NumCPU(), model, strings.TrimSpace(string(kernel)), runtime.Version())
}
