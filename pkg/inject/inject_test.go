package inject

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi/byexec"
	"github.com/ovn-offload/ovn-offload/pkg/trace"
)

func connection(protocol, source, target string) trace.Connection {
	return trace.Connection{
		Port: "shop_web", Switch: "w1", Source: netip.MustParseAddr(source), Target: netip.MustParseAddrPort(target), Protocol: protocol,
		From: "pod/shop/web", To: "pod/shop/db",
	}
}

func pod(name, node, address string) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: address}}},
	}
}

// TestPackets_AreBoundedAndOfOneClient: each has a port that no client uses, and no shell reads what they are made of.
func TestPackets_AreBoundedAndOfOneClient(t *testing.T) {
	for count, ok := range map[int]bool{0: false, 1: true, 10: true, 11: false, -1: false} {
		if _, err := NewPackets(connection("tcp", "10.0.1.5", "10.0.2.6:80"), count, nil); (err == nil) != ok {
			t.Errorf("%d packets: %v", count, err)
		}
	}
	if _, err := NewPackets(connection("sctp", "10.0.1.5", "10.0.2.6:80"), 1, nil); err == nil {
		t.Error("sctp")
	}
	p, err := NewPackets(connection("tcp", "10.0.1.5", "10.96.0.7:80"), 2, []netip.AddrPort{netip.MustParseAddrPort("10.0.2.6:8080")})
	if err != nil || p.Client < firstPort || int(p.Client)+MostPackets > 65535 {
		t.Fatalf("%d, %v", p.Client, err)
	}
	p.Client = 61007
	flows := p.Microflows()
	if len(flows) != 2 || !strings.HasSuffix(flows[1], "tcp.src == 61008 && tcp.dst == 80 && tcp.flags == 2") || !strings.Contains(flows[0], "tcp.src == 61007") {
		t.Errorf("%q", flows)
	}
	if got := p.command(); !slices.Equal(got[4:], flows) {
		t.Errorf("%q", got)
	}
	if got, want := p.Filter(), "tcp and src portrange 61007-61008 and tcp[tcpflags] == tcp-syn and (src host 10.0.1.5 or dst host 10.96.0.7 or dst host 10.0.2.6)"; got != want {
		t.Errorf("filter %q, want %q", got, want)
	}
	for source, want := range map[string]string{"10.0.1.5": "icmp[4:4] == 0 and (src host 10.0.1.5", "fd00::5": "ip6[44:4] == 0 and (src host fd00::5"} {
		p := Packets{Connection: connection("icmp", source, "10.0.2.6:0"), Count: 1}
		if got := p.Filter(); !strings.Contains(got, want) {
			t.Errorf("filter %q, want %q", got, want)
		}
	}
}

// TestWatch_CountsByInterface lines in any pieces, and is ready when tcpdump is.
func TestWatch_CountsByInterface(t *testing.T) {
	const listens = "listening on any, link-type LINUX_SLL2 (Linux cooked v2), snapshot length 262144 bytes\n"
	for name, c := range map[string]struct {
		at      point
		printed string
		want    []Sighting
	}{
		"node": {point{node: "w2"}, `genev_sys_6081 In  IP 10.0.1.5.61007 > 10.0.2.6.80: tcp 0
veth12 Out IP 10.0.1.5.61007 > 10.0.2.6.80: tcp 0
veth13 P   IP 10.0.1.5.61007 > 10.0.2.6.80: tcp 0
`, []Sighting{{"w2", "", "genev_sys_6081", "in", 1}, {"w2", "", "veth12", "out", 1}}},
		"pod": {point{"w2", "shop/db", "10.0.2.6"}, `eth0  In  IP 10.0.1.5.61007 > 10.0.2.6.80: tcp 0
eth0  In  IP6 fd00::5.61008 > fd00::6.80: tcp 0
eth0  Out IP 10.0.1.5.61007 > 10.0.2.6.80: tcp 0
3 packets captured
`, []Sighting{{"w2", "shop/db", "eth0", "in", 2}}},
	} {
		w := newWatch(c.at)
		for _, part := range strings.SplitAfter("pid 4711\ntcpdump: data link type LINUX_SLL2\n"+listens+c.printed, "0") {
			if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		select {
		case <-w.ready:
		default:
			t.Errorf("%s: not ready", name)
		}
		if !slices.Equal(w.seen, c.want) || w.pid != "4711" {
			t.Errorf("%s: pid %s, %+v, want %+v", name, w.pid, w.seen, c.want)
		}
	}
	w := newWatch(point{"w2", "shop/gone", "10.0.2.7"})
	fmt.Fprintln(w, "no interface has the address 10.0.2.7")
	select {
	case <-w.ready:
		t.Error("ready without an interface")
	default:
	}
	if w.problem() != "no interface has the address 10.0.2.7" {
		t.Error(w.problem())
	}
}

// TestCounts_AreOfTheTimeBetween: several flows of a cookie are one sum, and one that was made anew begins at 0.
func TestCounts_AreOfTheTimeBetween(t *testing.T) {
	before := parseCounts(" cookie=0xabc12, duration=4s, table=8, n_packets=4, n_bytes=9, priority=1 actions=drop\n cookie=0x9d6a2a55, duration=4s, table=8, n_packets=7, n_bytes=9, actions=drop\n")
	after := parseCounts(" cookie=0xabc12, duration=9s, table=8, n_packets=5, n_bytes=9, actions=drop\n cookie=0xabc12, duration=9s, table=9, n_packets=2, n_bytes=9, actions=drop\n cookie=0x9d6a2a55, duration=1s, table=8, n_packets=1, n_bytes=9, actions=drop\n")
	if got := after.since(before); len(got) != 1 || got["000abc12"] != 3 {
		t.Errorf("%v", got)
	}
}

// TestResult_EndsByWhatWasSeen: the computed path alone is not believed, neither that it drops nor that it delivers.
func TestResult_EndsByWhatWasSeen(t *testing.T) {
	drop := trace.Step{Where: "w2", What: "ingress policy: drop", Object: "NetworkPolicy/shop/deny", Flow: "0000aaaa"}
	at := func(pod, device, direction string, n int) Sighting { return Sighting{"w1", pod, device, direction, n} }
	for name, c := range map[string]struct {
		seen     []Sighting
		computed trace.Verdict
		counted  uint64
		outside  bool
		want     string
	}{
		"both":                           {[]Sighting{at("shop/db", "eth0", "in", 2)}, trace.Delivered, 0, false, Arrived},
		"against the computed path":      {[]Sighting{at("shop/db", "eth0", "in", 2)}, trace.Dropped, 5, false, Arrived},
		"one of two":                     {[]Sighting{at("shop/db", "eth0", "in", 1)}, trace.Delivered, 0, false, Partly},
		"dropped":                        {[]Sighting{at("", "genev_sys_6081", "out", 2)}, trace.Dropped, 2, false, Dropped},
		"rejected":                       {nil, trace.Rejected, 2, false, Dropped},
		"computed to drop, counted less": {nil, trace.Dropped, 1, false, Vanished},
		"computed to arrive":             {[]Sighting{at("", "veth1", "out", 2)}, trace.Delivered, 2, false, Vanished},
		"outside":                        {[]Sighting{at("", "eth0", "out", 2)}, trace.Leaves, 0, true, Left},
		"outside, only into a tunnel":    {[]Sighting{at("", "genev_sys_6081", "out", 2)}, trace.Leaves, 0, true, Vanished},
	} {
		r := &Result{Plan: Plan{Packets: Packets{Count: 2}, Computed: &trace.Computed{Steps: []trace.Step{drop}, Verdict: c.computed}}, Seen: c.seen}
		if !c.outside {
			r.Receivers = []corev1.Pod{pod("db", "w2", "10.0.2.6")}
		}
		r.Counted = map[string]Counts{"w1": {"0000aaaa": c.counted}, "w2": {"0000bbbb": 9}}
		got, by := r.Ended()
		if got != c.want || (got == Dropped) != (by == drop) {
			t.Errorf("%s: %s by %+v, want %s", name, got, by, c.want)
		}
	}
}

// nodesOf answers as nodes: packets come to the pod with the address, if there is one.
type nodesOf struct {
	mu    sync.Mutex
	sent  int
	fails string // a container in which nothing runs
	pod   string
	// watch and end are by the place of their process in watched, as are the points.
	watch   []io.Writer
	end     []chan struct{}
	watched []string
}

func (n *nodesOf) exec(_ context.Context, on byexec.OnNode, command []string, out, _ io.Writer) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if on.Container == n.fails {
		return errors.New("no such container")
	}
	if command[0] == "kill" {
		at, err := strconv.Atoi(command[2])
		close(n.end[at])
		return err
	}
	switch command[3] {
	case "watch":
		end := make(chan struct{})
		fmt.Fprintf(out, "pid %d\nlistening on any\n", len(n.watch))
		n.watch, n.end, n.watched = append(n.watch, out), append(n.end, end), append(n.watched, on.Node+" "+command[5])
		n.mu.Unlock()
		<-end
		n.mu.Lock()
		return errors.New("exit code 130")
	case "inject":
		n.sent += len(command) - 4
		if at := slices.Index(n.watched, "w2 "+n.pod); at >= 0 && n.pod != "" {
			for range len(command) - 4 {
				fmt.Fprintln(n.watch[at], "eth0 In IP 10.0.1.5.61000 > 10.0.2.6.80: tcp 0")
			}
		}
	case "count":
		fmt.Fprintf(out, " cookie=0xaaaa, table=8, n_packets=%d, n_bytes=9, actions=drop\n", n.sent)
	}
	return nil
}

// TestRun_SendsOnceAllLook and not where one node cannot look, or ovn-controller cannot be reached.
func TestRun_SendsOnceAllLook(t *testing.T) {
	computed := &trace.Computed{Verdict: trace.Dropped, Steps: []trace.Step{{What: "ingress policy: drop", Object: "NetworkPolicy/shop/deny", Flow: "0000aaaa"}}}
	pods := []corev1.Pod{pod("web", "w1", "10.0.1.5"), pod("db", "w2", "10.0.2.6"), pod("other", "w3", "10.0.3.6")}
	plan, err := NewPlan(connection("tcp", "10.0.1.5", "10.0.2.6:80"), computed, pods, 2)
	if err != nil || len(plan.Receivers) != 1 || plan.Sender.Name != "web" {
		t.Fatalf("%+v, %v", plan, err)
	}
	for address, want := range map[string]string{"10.0.2.6": Arrived, "": Dropped} {
		nodes := &nodesOf{pod: address}
		r, err := plan.Run(t.Context(), nodes.exec)
		if err != nil || nodes.sent != 2 {
			t.Fatalf("%d sent, %v", nodes.sent, err)
		}
		slices.Sort(nodes.watched)
		if got, _ := r.Ended(); got != want || len(r.Got()) != len(address)/len("10.0.2.6") || !slices.Equal(nodes.watched, []string{"w1 ", "w2 ", "w2 10.0.2.6"}) {
			t.Errorf("%s at %q, want %s: %+v", got, nodes.watched, want, r)
		}
		if got := r.On(computed.Steps[0]); got != "2 on w1, 2 on w2" {
			t.Errorf("counted %s", got)
		}
	}
	for container, want := range map[string]string{OVNController: "sending by ovn-controller of node w1", Agent: "nothing was sent"} {
		nodes := &nodesOf{fails: container}
		if _, err := plan.Run(t.Context(), nodes.exec); err == nil || !strings.Contains(err.Error(), want) || nodes.sent != 0 {
			t.Errorf("without %s: %d sent, %v", container, nodes.sent, err)
		}
	}
	plan.From = "node/w1"
	if _, err := NewPlan(plan.Connection, computed, pods, 1); err == nil || !strings.Contains(err.Error(), "is no pod") {
		t.Error(err)
	}
}
