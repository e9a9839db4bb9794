package inject

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi/byexec"
	"github.com/ovn-offload/ovn-offload/pkg/permit"
	"github.com/ovn-offload/ovn-offload/pkg/trace"
)

// The containers in which the programs run.
const (
	Agent         = "ovn-offload-agent"
	OVNController = "ovn-controller"
)

// Exec runs a command in a container of a node's agent.
type Exec func(ctx context.Context, on byexec.OnNode, command []string, out, errs io.Writer) error

// Plan is what is sent, and where it may come to.
type Plan struct {
	Packets
	// Sender is the pod in whose name they are sent, from its node.
	Sender corev1.Pod
	// Receivers are the pods that may get the packets, at most MostReceivers.
	Receivers []corev1.Pod
	// Computed is the path that OVN's logical flows give them.
	*trace.Computed
}

// Sends says why nothing can be sent in the name of a source.
func Sends(source string) error {
	if !strings.HasPrefix(source, "pod/") {
		return noPod(source)
	}
	return nil
}

func noPod(source string) error {
	return fmt.Errorf("%s is no pod with a network of its own: --inject sends in the name of such a pod", source)
}

// NewPlan finds the pods of the ends.
func NewPlan(c trace.Connection, of *trace.Computed, pods []corev1.Pod, count int) (p Plan, err error) {
	at := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return "pod/"+pod.Namespace+"/"+pod.Name == c.From })
	if at < 0 {
		return p, noPod(c.From)
	}
	p = Plan{Sender: pods[at], Computed: of}
	if p.Packets, err = NewPackets(c, count, of.Path.Backends()); err != nil {
		return p, err
	}
	addresses := []netip.Addr{c.Target.Addr()}
	for _, b := range p.Backends {
		addresses = append(addresses, b.Addr())
	}
	p.Receivers = receivers(pods, addresses)
	return p, nil
}

// Event is the text of the Event on the pods of both ends.
func (p Plan) Event(who string) string {
	return fmt.Sprintf("kubectl offload trace --inject sends in the name of %s to %s, packets: %d, asked by %s", p.From, p.Where(), p.Count, who)
}

// MostReceivers bounds the pods at whose interfaces is looked.
const MostReceivers = 8

// receivers are the pods with one of the addresses.
func receivers(pods []corev1.Pod, addresses []netip.Addr) []corev1.Pod {
	var all []corev1.Pod
	for _, pod := range pods {
		has := slices.ContainsFunc(pod.Status.PodIPs, func(ip corev1.PodIP) bool {
			addr, err := netip.ParseAddr(ip.IP)
			return err == nil && slices.Contains(addresses, addr)
		})
		if has && !pod.Spec.HostNetwork && pod.Status.Phase == corev1.PodRunning && len(all) < MostReceivers {
			all = append(all, pod)
		}
	}
	return all
}

// Waits: for all tcpdumps to begin and to end, and after the packets for the counters, which ovs-vswitchd updates twice a
// second.
const (
	readyWithin = 20 * time.Second
	settles     = 3 * time.Second
)

// Send leaves an Event with the name of the user on the pod that sends, and then on those to which packets came.
func (p Plan) Send(ctx context.Context, client kubernetes.Interface, exec Exec) (*Result, error) {
	who, err := permit.Who(ctx, client)
	if err != nil {
		return nil, err
	}
	if err := permit.Leave(ctx, client, &p.Sender, "Injected", p.Event(who)); err != nil {
		return nil, err
	}
	result, err := p.Run(ctx, exec)
	if err != nil {
		return nil, err
	}
	for _, to := range result.Got() {
		if err := permit.Leave(ctx, client, to, "Injected", p.Event(who)); err != nil {
			result.Problems = append(result.Problems, err.Error())
		}
	}
	return result, nil
}

// Run sends the packets once all look.
func (p Plan) Run(ctx context.Context, exec Exec) (*Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watches, err := p.watch(ctx, exec)
	if err != nil {
		return nil, fmt.Errorf("%w: nothing was sent", err)
	}
	before, err := p.count(ctx, exec)
	if err != nil {
		return nil, err
	}
	var out, errs bytes.Buffer
	if err := exec(ctx, byexec.OnNode{Node: p.Sender.Spec.NodeName, Container: OVNController}, p.command(), &out, &errs); err != nil {
		return nil, fmt.Errorf("sending by ovn-controller of node %s: %w: %s", p.Sender.Spec.NodeName, err, strings.TrimSpace(errs.String()))
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(settles):
	}
	after, err := p.count(ctx, exec)
	if err != nil {
		return nil, err
	}
	r := &Result{Plan: p, Counted: map[string]Counts{}}
	for _, node := range p.nodes() {
		r.Counted[node] = after[node].since(before[node])
	}
	for _, w := range watches {
		if err := w.end(ctx, exec); err != nil {
			r.Problems = append(r.Problems, fmt.Sprintf("node/%s: ending tcpdump: %v", w.node, err))
		}
		r.Seen = append(r.Seen, w.result()...)
	}
	return r, nil
}

// nodes are those of the pod that sends, first, and of the receivers.
func (p Plan) nodes() []string {
	all := []string{p.Sender.Spec.NodeName}
	for _, pod := range p.Receivers {
		if !slices.Contains(all, pod.Spec.NodeName) {
			all = append(all, pod.Spec.NodeName)
		}
	}
	return all
}

// points are all interfaces of the nodes, and those of the pods that may get the packets.
func (p Plan) points() (all []point) {
	for _, node := range p.nodes() {
		all = append(all, point{node: node})
	}
	for _, pod := range p.Receivers {
		for _, ip := range pod.Status.PodIPs {
			if addr, err := netip.ParseAddr(ip.IP); err == nil && addr.Is4() == p.Source.Is4() {
				all = append(all, point{pod.Spec.NodeName, pod.Namespace + "/" + pod.Name, ip.IP})
			}
		}
	}
	return all
}

// watch begins to look, and waits until all do.
func (p Plan) watch(ctx context.Context, exec Exec) (all []*watch, err error) {
	for _, at := range p.points() {
		w := newWatch(at)
		all = append(all, w)
		go func() {
			w.ended <- exec(ctx, byexec.OnNode{Node: at.node, Container: Agent}, at.command(p.Filter()), w, w)
		}()
	}
	late := time.After(readyWithin)
	for _, w := range all {
		select {
		case <-w.ready:
		case err := <-w.ended:
			return nil, fmt.Errorf("looking at %s on node %s: %s: %w", cmp.Or(w.pod, "its interfaces"), w.node, w.problem(), cmp.Or(err, errEnded))
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-late:
			return nil, fmt.Errorf("tcpdump on node %s does not begin within %v", w.node, readyWithin)
		}
	}
	return all, nil
}

// errEnded is that of a tcpdump which has ended too early.
var errEnded = errors.New("it has ended")

// end ends the process, which prints what it has seen before.
func (w *watch) end(ctx context.Context, exec Exec) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	var out bytes.Buffer
	if err := exec(ctx, byexec.OnNode{Node: w.node, Container: Agent}, []string{"kill", "-INT", w.pid}, &out, &out); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(out.String()))
	}
	select {
	case <-w.ended: // killed, so that it has an exit code
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// count reads the counters of the path's decisions on all nodes.
func (p Plan) count(ctx context.Context, exec Exec) (map[string]Counts, error) {
	counts := map[string]Counts{}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	for _, node := range p.nodes() {
		group.Go(func() error {
			var out, errs bytes.Buffer
			if err := exec(ctx, byexec.OnNode{Node: node, Container: Agent}, countCommand(cookies(p.Steps)), &out, &errs); err != nil {
				return fmt.Errorf("reading the OpenFlows of node %s: %w: %s", node, err, strings.TrimSpace(errs.String()))
			}
			mu.Lock()
			defer mu.Unlock()
			counts[node] = parseCounts(out.String())
			return nil
		})
	}
	return counts, group.Wait()
}

// The verdicts.
const (
	Arrived  = "arrived"        // at the interface of a pod
	Partly   = "partly arrived" // some did
	Left     = "left"           // by an interface of the node, to where no pod is
	Dropped  = "dropped"        // or rejected: By says by which object
	Vanished = "lost"           // seen nowhere, and no object has counted that it drops them
)

// Result is what became of the packets.
type Result struct {
	Plan
	Seen []Sighting
	// Counted are the packets that the OpenFlows of decisions counted meanwhile on each node, with those of others.
	Counted map[string]Counts
	// Problems are what could not be ended, or have an Event.
	Problems []string
}

// tunnel is how the kernel's interface of Geneve begins.
const tunnel = "genev_sys_"

// Ended says how the packets ended, and for those that were dropped by what. It is a sighting that counts, and the
// computed path only names the object whose counter moved.
func (r *Result) Ended() (verdict string, by trace.Step) {
	arrived, left := 0, 0
	for _, s := range r.Seen {
		switch {
		case s.Pod != "":
			arrived += s.Packets
		case s.Direction == "out" && !strings.HasPrefix(s.Interface, tunnel):
			left = max(left, s.Packets)
		}
	}
	switch {
	case arrived >= r.Count:
		return Arrived, by
	case arrived > 0:
		return Partly, by
	case len(r.Receivers) == 0 && left > 0:
		return Left, by
	}
	if n := len(r.Steps); n > 0 && (r.Verdict == trace.Dropped || r.Verdict == trace.Rejected) {
		if by = r.Steps[n-1]; r.CountedBy(by) >= uint64(r.Count) { //nolint:gosec // MostPackets
			return Dropped, by
		}
	}
	return Vanished, trace.Step{}
}

// CountedBy is what a decision counted on all nodes.
func (r *Result) CountedBy(s trace.Step) (n uint64) {
	for _, counts := range r.Counted {
		n += counts[s.Flow]
	}
	return n
}

// On says on which nodes a decision counted packets.
func (r *Result) On(s trace.Step) string {
	var all []string
	for _, node := range slices.Sorted(maps.Keys(r.Counted)) {
		if n := r.Counted[node][s.Flow]; n > 0 {
			all = append(all, fmt.Sprintf("%d on %s", n, node))
		}
	}
	return cmp.Or(strings.Join(all, ", "), "0")
}

// Got are the receivers to which packets came.
func (r *Result) Got() (all []*corev1.Pod) {
	for i := range r.Receivers {
		pod := &r.Receivers[i]
		if slices.ContainsFunc(r.Seen, func(s Sighting) bool { return s.Pod == pod.Namespace+"/"+pod.Name }) {
			all = append(all, pod)
		}
	}
	return all
}
