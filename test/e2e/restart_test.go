//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// TestRestart_KilledComponentKeepsTraffic: while each component is killed in turn, two pods on
// different nodes keep talking over one TCP connection and one UDP flow, and a
// pod made afterwards runs and is reached. With the userspace datapath the flows
// stop with ovs-vswitchd and have to come back.
func TestRestart_KilledComponentKeepsTraffic(t *testing.T) {
	world.Test(t, world.Node, world.Core, world.Disruptive)
	ns := world.Namespace(t)
	pods := world.Run(t, world.Pod(ns, "from", nodes[1]), world.Pod(ns, "to", nodes[2]))
	from, to := pods[0], pods[1]
	target := world.Endpoints(to)[0]
	gaps := map[string]time.Duration{
		"controller":                 5 * time.Second,
		"northd":                     5 * time.Second,
		"nb":                         5 * time.Second,
		"sb":                         5 * time.Second,
		"agent@" + nodes[1]:          5 * time.Second,
		"ovn-controller@" + nodes[1]: 5 * time.Second,
		"ovs-vswitchd@" + nodes[1]:   time.Minute,
	}
	if !tier.IsFull() { // the others are killed beside other tests
		maps.DeleteFunc(gaps, func(component string, _ time.Duration) bool { return component != "controller" && component != "nb" })
	}
	for component, longest := range gaps {
		t.Run(component, func(t *testing.T) {
			flows, witness := map[string]*flow{}, withinPod(t, from)
			for _, network := range []string{"tcp", "udp"} {
				flows[network] = startFlow(t, ns, from.Name, network, target)
			}
			restart(t, component)
			probe := world.Run(t, world.Pod(ns, "after-"+fmt.Sprint(time.Now().Unix()), nodes[1]))[0]
			world.MustInPod(t, to, "probe", "dial", "tcp", netip.AddrPortFrom(world.Addresses(probe)[0], world.EchoPort).String())
			for _, flow := range flows {
				flow.wantAnswer(t, max(longest, world.PodWithin))
			}
			wantShortSilences(t, component+" was down", flows, witness, longest)
		})
	}
}

// flow is a stream between two pods; it remembers its longest silence, and how
// many answers it lacks before the last one that came.
type flow struct {
	cancel context.CancelFunc
	done   chan struct{}
	seen   chan time.Time
	gap    time.Duration
	lost   int
	lostAt time.Time    // of the answer that showed the last loss
	server atomic.Value // that has answered last, if it has a name
}

// answering is the name of the server that has answered last.
func (f *flow) answering() string {
	name, _ := f.server.Load().(string)
	return name
}

// startFlow waits until the flow is answered.
func startFlow(t *testing.T, ns, pod, network string, target netip.AddrPort) *flow {
	t.Helper()
	f := beginFlow(t, ns, pod, network, target)
	f.wantAnswer(t, 2*time.Minute)
	return f
}

// beginFlow runs through kubectl's exec on the machine: it does not depend on
// the network that is tested, but on kubelet only. What runs in the pod ends when
// kubectl does, or it would go on sending.
func beginFlow(t *testing.T, ns, pod, network string, target netip.AddrPort) *flow {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f := &flow{cancel: cancel, done: make(chan struct{}), seen: make(chan time.Time, 1)}
	kubectl, config := cluster.Kubectl()
	const untilEOF = `probe stream "$@" & cat; kill $!`
	cmd := exec.CommandContext(ctx, kubectl, "--kubeconfig", config,
		"exec", "-i", "-n", ns, pod, "--", "sh", "-c", untilEOF, "sh", network, target.String())
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(f.done)
		f.read(out)
		cmd.Wait()
	}()
	t.Cleanup(func() { f.stop() })
	return f
}

// startFlowOnNode is startFlow for a test in which API servers are lost: the pod's node runs the client.
func startFlowOnNode(t *testing.T, pod *corev1.Pod, network string, target netip.AddrPort) *flow {
	t.Helper()
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	record := "/run/flow-" + network + "-" + pod.Name
	const stream = `of=$(grep -l "$1" /proc/[0-9]*/cgroup | head -n 1 | cut -d / -f 3); echo $$ >"$2"
		exec nsenter -t "$of" -n -m -- probe stream "$3" "$4"`
	in, out := io.Pipe()
	f := &flow{done: make(chan struct{}), seen: make(chan time.Time, 1)}
	f.cancel = sync.OnceFunc(func() {
		if out, err := world.OnNode(pod.Spec.NodeName, "sh", "-c", `kill $(cat "$1"); rm "$1"`, "sh", record); err != nil {
			t.Errorf("ending the flow over %s: %v: %s", network, err, out)
		}
	})
	go func() {
		out.CloseWithError(cluster.Run(out, pod.Spec.NodeName, "sh", "-c", stream, "sh", id, record, network, target.String()))
	}()
	go func() {
		defer close(f.done)
		f.read(in)
	}()
	t.Cleanup(func() { f.stop() })
	f.wantAnswer(t, 2*time.Minute)
	return f
}

// read takes what probe stream prints.
func (f *flow) read(out io.Reader) {
	next, last := 0, int64(0)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		now := time.Now()
		var number int
		var at int64 // ms, when the pod had the answer: it comes here later
		if name, is := strings.CutPrefix(lines.Text(), "server "); is {
			f.server.Store(name)
		}
		if n, _ := fmt.Sscan(lines.Text(), &number, &at); n == 2 {
			if last > 0 {
				f.gap = max(f.gap, time.Duration(at-last)*time.Millisecond)
			}
			if last > 0 && number != next {
				f.lost, f.lostAt = f.lost+number-next, now
			}
			next, last = number+1, at
		}
		select {
		case f.seen <- now:
		default:
		}
	}
}

// wantAnswer waits for an answer that comes after this call.
func (f *flow) wantAnswer(t *testing.T, within time.Duration) {
	t.Helper()
	start, deadline := time.Now(), time.After(within)
	for {
		select {
		case at := <-f.seen:
			if at.After(start) {
				return
			}
		case <-f.done:
			t.Fatal("the flow ended")
		case <-deadline:
			t.Fatalf("no answer within %s", within)
		}
	}
}

// answered says whether an answer comes within some time from now.
func (f *flow) answered(within time.Duration) bool {
	for start, deadline := time.Now(), time.After(within); ; {
		select {
		case at := <-f.seen:
			if at.After(start) {
				return true
			}
		case <-deadline:
			return false
		}
	}
}

// wantEnds waits until streams have no answer three times in succession, between which that of a witness goes on.
func wantEnds(t *testing.T, witness *flow, streams ...*flow) {
	t.Helper()
	silent := 0
	world.Eventually(t, world.PodWithin, "the streams end", func() (bool, string) {
		var going atomic.Int32
		var looks sync.WaitGroup
		for _, stream := range streams {
			looks.Go(func() {
				if stream.answered(shortPause) {
					going.Add(1)
				}
			})
		}
		looks.Wait()
		if going.Load() > 0 {
			silent = 0
		} else if witness.answered(shortPause) {
			silent++
		}
		return silent == 3, fmt.Sprintf("%d of %d streams go on; %d times none did", going.Load(), len(streams), silent)
	})
}

func (f *flow) stop() time.Duration {
	f.cancel()
	<-f.done
	return f.gap
}
