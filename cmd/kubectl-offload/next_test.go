package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"github.com/ovn-offload/ovn-offload/docs"
	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/conncheck"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/inject"
	"github.com/ovn-offload/ovn-offload/pkg/nodecheck"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/perf"
	"github.com/ovn-offload/ovn-offload/pkg/perf/load"
	"github.com/ovn-offload/ovn-offload/pkg/selected"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
	"github.com/ovn-offload/ovn-offload/pkg/trace"
)

// nexts are the next commands of answers.
type nexts struct {
	t   *testing.T
	all []string
}

// add adds that of an answer, which must have one.
func (n *nexts) add(a answer.Answer, err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
	if a.Head().Next == "" {
		n.t.Errorf("no next command: %+v", a)
	}
	n.all = append(n.all, a.Head().Next)
}

// shopObjects are a service and its pod, and a pod that waits for a node, beside those of the good cluster of pkg/answer.
const shopObjects = `
kind: Service
metadata: {name: db, namespace: shop}
spec: {clusterIPs: [10.96.0.44]}
---
kind: Pod
metadata: {name: db-0, namespace: shop, annotations: {k8s.ovn.org/pod-networks: '{"default":{"ip_addresses":["10.244.2.9/24"],"mac_address":"0a:58:0a:f4:02:09"}}'}}
spec: {nodeName: worker-2}
---
kind: Pod
metadata: {name: waits, namespace: shop}
`

// goodCluster is that of the answers of pkg/answer, with a text in place of another.
func goodCluster(t *testing.T, replace ...string) *snapshot.Snapshot {
	t.Helper()
	archive, err := txtar.ParseFile("../../pkg/answer/testdata/good.txtar")
	if err != nil {
		t.Fatal(err)
	}
	s := snapshot.New(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), "ovn-kubernetes")
	for text := range strings.SplitSeq(strings.NewReplacer(replace...).Replace(string(archive.Files[0].Data))+"---"+shopObjects, "---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		s.Add(snapshot.Resource(strings.ToLower(fmt.Sprint(object["kind"]))+"s"), object)
	}
	return s
}

// ofObjects are answers about objects: in a good cluster, with a fault of a pod and of a node, and without ovn-offload.
func (n *nexts) ofObjects() {
	good := goodCluster(n.t)
	outside := goodCluster(n.t, "{hardware: 100, tc: 0, ovs: 0}", "{hardware: 60, tc: 40, ovs: 0}, outside: [{reason: action}]")
	off := goodCluster(n.t, `offload: "on"`, `offload: "off"`, "readyReplicas: 1", "readyReplicas: 0")
	for _, s := range []*snapshot.Snapshot{good, outside, off, snapshot.New(time.Now(), "ovn-kubernetes")} {
		n.add(answer.NewStatus(s))
		n.add(answer.NewWorst(s, 10))
		n.add(answer.NewTopology(s, ""))
		n.add(answer.NewVersions(s, "v0.1.0"))
	}
	for _, s := range []*snapshot.Snapshot{good, outside, off} {
		for _, pod := range []string{"shop/web-0", "shop/plain", "shop/host", "shop/waits"} {
			n.add(answer.ExplainPod(s, pod))
		}
		n.add(answer.ExplainNode(s, "worker-1"))
		n.add(answer.NewPodTopology(s, "shop/web-0"))
		n.add(answer.NewVersions(s, "v9.0.0"))
	}
	pod, err := answer.ExplainPod(good, "shop/web-0")
	if err != nil {
		n.t.Fatal(err)
	}
	n.add(pod.Captured(""), nil)
}

// ofFlows are answers about flows, and without any.
func (n *nexts) ofFlows() {
	web, db, tunnel := flowapi.End{Namespace: "shop", Pod: "web-0"}, flowapi.End{Namespace: "shop", Pod: "db-0"}, flowapi.End{Port: "genev_sys_6081"}
	refused := flowapi.Placed{Place: offload.TC, Reason: offload.ReasonRefused}
	packet := flowapi.Packet{Protocol: "tcp", Source: "10.244.1.7", Target: "10.244.2.9", TargetPort: "5432", Tunnel: "192.0.2.2"}
	flows := []flowapi.Flow{
		{ID: "a", Node: "worker-1", From: web, To: []flowapi.End{tunnel}, Packet: packet, Placed: flowapi.Placed{Place: offload.Hardware}, Traffic: flowapi.Traffic{Packets: 9}, DecidedBy: []string{"NetworkPolicy/shop/web"}},
		{ID: "b", Node: "worker-2", From: tunnel, To: []flowapi.End{db}, Packet: packet, Placed: refused, Traffic: flowapi.Traffic{Packets: 8}},
		{ID: "c", Node: "worker-2", From: tunnel, Packet: flowapi.Packet{Protocol: "udp", Source: "192.0.2.9", Target: "192.0.2.8"}, Placed: refused, Traffic: flowapi.Traffic{Packets: 7}},
	}
	s := goodCluster(n.t)
	policy, _ := selected.Reference("web")
	cluster, _ := selected.Reference("anp/deny")
	summary := &flowapi.Summary{Node: "worker-1", Total: offload.Share{OVS: offload.Count{Packets: 9}}}
	summary.Outside = []offload.Cause{{Reason: offload.ReasonAction, Count: summary.Total.OVS}}
	summary.Pods = []flowapi.PodSummary{{Namespace: "shop", Name: "web-0", Traffic: summary.Total}}
	for _, some := range [][]flowapi.Flow{flows, flows[2:], nil} {
		list, err := answer.NewStreams(s, some, nil, answer.Filter{}, 0)
		n.add(list, err)
		for _, by := range answer.TopBy() {
			if answer.IsOfStreams(by) {
				n.add(answer.NewTopStreams(list, by, false), nil)
			} else {
				for _, namespace := range []string{"", "shop"} {
					n.add(answer.NewTop(s, by, []*flowapi.Summary{summary}[:min(1, len(some))], nil, false).In(namespace), nil)
				}
			}
		}
		n.add(answer.NewStreams(s, nil, nil, answer.Filter{Namespace: "shop"}, 0))
		n.add(answer.ExplainService(s, "shop/db", some, nil))
		n.add(answer.ExplainPolicy(s, policy, "shop/web", some, nil))
		n.add(answer.ExplainPolicy(s, cluster, "deny", some, nil))
		for _, to := range []string{"pod/shop/db-0", "fd00::9"} {
			n.add(answer.NewLive(s, streams.Ends{From: "pod/shop/web-0", To: to, Protocol: "tcp", Port: "5432"}, "worker-1", some, nil))
		}
		for _, f := range some {
			e, err := answer.ExplainFlow(s, f.Node, f.ID, flows, nil)
			n.add(e, err)
			e.AddDriver(&flowapi.Asked{}, nil)
			n.add(e, nil)
		}
	}
	arp := flowapi.Flow{ID: "d", Node: "worker-1", From: web, Packet: flowapi.Packet{Protocol: "arp"}, Way: flowapi.Way{Stale: true}}
	n.add(answer.ExplainFlow(s, "worker-1", "d", []flowapi.Flow{arp}, nil))
}

// ofPackets are answers of verbs that compute a path, or send packets.
func (n *nexts) ofPackets() {
	s := goodCluster(n.t)
	ends := trace.Connection{From: "pod/shop/web-0", To: "svc/shop/db", Protocol: "tcp", Target: netip.MustParseAddrPort("10.96.0.44:5432"), Asked: "outside svc/shop/db:5432/tcp --at worker-1"}
	for _, verdict := range []trace.Verdict{trace.Delivered, trace.Leaves, trace.Dropped, trace.Rejected} {
		n.add(answer.NewTraced(s, ends, nil, verdict), nil)
	}
	sent := inject.Plan{Packets: inject.Packets{Connection: ends, Count: 1}, Computed: &trace.Computed{Verdict: trace.Delivered}}
	n.add(answer.NewInjected(s, &inject.Result{Plan: sent}))
	n.add(answer.NewInjected(s, &inject.Result{Plan: sent, Seen: []inject.Sighting{{Node: "worker-2", Pod: "shop/db-0", Interface: "eth0", Direction: "in", Packets: 1}}}))
	now := time.Now()
	good, bad := conncheck.Result{Verdict: conncheck.OK}, conncheck.Result{Verdict: conncheck.Fail}
	for _, out := range []conncheck.Outcome{{Results: []conncheck.Result{good}}, {Results: []conncheck.Result{bad}}, {Results: []conncheck.Result{good}, Missing: []string{"node/w1: no answer"}}} {
		n.add(answer.NewTested(conncheck.Place{}, out, now), nil)
		n.add(answer.NewLasting(conncheck.Place{}, out, 0, now), nil)
		n.add(answer.NewLasting(conncheck.Place{}, out, time.Second, now), nil)
	}
	for _, resource := range []string{"", "ovn-offload.io/vf"} {
		for _, report := range []load.Report{{Bytes: 1}, {Failed: 1, Error: "reset"}} {
			n.add(answer.NewMeasured(conncheck.Place{Resource: resource}, []perf.Result{{ID: "stream/veth-other-node/tcp", Report: report}}, nil, now), nil)
		}
	}
	n.add(answer.NewLinted(nil, false, now), nil)
	for _, verdict := range []string{"pass", "warn", "fail", ""} {
		n.add(answer.NewPreflighted([]nodecheck.Report{{Node: "w1", Verdict: verdict}}, now), nil)
	}
}

// parses says what is wrong with a command for people.
func parses(line string) error {
	words := strings.Fields(line)
	if len(words) < 3 || words[0] != "kubectl" || words[1] != "offload" {
		return errors.New("not kubectl offload VERB")
	}
	root := command()
	root.InitDefaultHelpCmd()
	cmd, args, err := root.Find(words[2:])
	if err != nil {
		return err
	}
	if cmd == root || cmd.HasSubCommands() {
		return errors.New("no verb")
	}
	if err := cmd.ParseFlags(args); err != nil {
		return err
	}
	return checked(root, cmd, cmd.Flags().Args())
}

func checked(root, cmd *cobra.Command, args []string) error {
	if err := cmd.ValidateArgs(args); err != nil || cmd.Name() != "help" {
		return err
	}
	_, isPage := docs.Find(strings.Join(args, ""))
	if verb, _, err := root.Find(args); !isPage && (err != nil || verb == root) {
		return fmt.Errorf("no page %q", args)
	}
	return nil
}

// TestNext_IsACommandOfThePlugin: each answer has a next command, except that of version --client, and the plugin knows its verb, its flags
// and its page. The answers of this test have all the next commands that pkg/answer writes.
func TestNext_IsACommandOfThePlugin(t *testing.T) {
	n := &nexts{t: t}
	n.ofObjects()
	n.ofFlows()
	n.ofPackets()
	for _, next := range slices.Compact(slices.Sorted(slices.Values(n.all))) {
		t.Log(next)
		if err := parses(next); err != nil {
			t.Errorf("%s: %v", next, err)
		}
	}
	files, err := filepath.Glob("../../pkg/answer/*.go")
	if err != nil {
		t.Fatal(err)
	}
	written, literal := 0, regexp.MustCompile(`"(kubectl offload [^"%]*)`)
	for _, path := range slices.DeleteFunc(files, func(path string) bool { return strings.HasSuffix(path, "_test.go") }) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range literal.FindAllStringSubmatch(string(text), -1) {
			written++
			isAdvice := strings.Contains(found[1], "UFID@NODE") // in the text about a reason
			if !isAdvice && !slices.ContainsFunc(n.all, func(next string) bool { return strings.HasPrefix(next, found[1]) }) {
				t.Errorf("no answer of this test has %q of %s", found[1], path)
			}
		}
	}
	if written < 30 {
		t.Errorf("%d commands in pkg/answer: this test looks for the wrong text", written)
	}
	for _, wrong := range []string{
		"kubectl get pods", "kubectl offload", "kubectl offload stat", "kubectl offload status --no-such-flag", "kubectl offload help no-such-page",
		"kubectl offload trace pod/web-0 --live", "kubectl offload perf VF", "kubectl offload dpu",
	} {
		if parses(wrong) == nil {
			t.Errorf("%s is taken", wrong)
		}
	}
}

// TestNext_IsForTheSameUser: what is next after an answer for a user of one namespace has an answer for this user, too. The same command
// without the namespace has none.
func TestNext_IsForTheSameUser(t *testing.T) {
	for _, args := range []string{
		"flows --pod web -n shop", "flows --from-label app=db -n shop", "explain pod/web -n shop", "explain netpol/db -n shop", "explain flow/1@w1 -n shop",
		"trace pod/web pod/db:5432 --live -n shop", "top --interval 0 -n shop", "top --interval 0 --by node -n shop", "top --by stream -n shop", "top --by policy -n shop",
	} {
		cluster := newTenancy(t, 200, "shop")
		out, code := cluster.run(t, args)
		_, next, isThere := strings.Cut(strings.TrimSpace(out), "\nnext: kubectl offload ")
		if code != 0 || !isThere {
			t.Errorf("%s: exit code %d: %s", args, code, out)
			continue
		}
		if rest, isTop := strings.CutPrefix(next, "top "); isTop {
			next = "top --interval 0 " + rest // the agent of the test counts nothing
		}
		if after, code := cluster.run(t, next); code != 0 {
			t.Errorf("%s, and then %s: exit code %d: %s", args, next, code, after)
		}
		if all, isOne := strings.CutSuffix(next, " -n shop"); isOne {
			if after, code := cluster.run(t, all); code == 0 {
				t.Errorf("%s: %s", all, after)
			}
		}
	}
}
