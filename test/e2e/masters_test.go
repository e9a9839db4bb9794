//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

const (
	// othersLead and leaderDied are the time that a new pod may take beyond that of a pod with nothing lost.
	othersLead = 10 * time.Second
	leaderDied = 30 * time.Second
)

// mastersTest is a cluster with three control-plane nodes, and a pair of pods on workers that exchange packets.
type mastersTest struct {
	ns       string
	from, to *corev1.Pod
	alone    time.Duration // of a pod's start with nothing lost
	started  int
}

func masterNodes() []string {
	return []string{"ovn-control-plane", "ovn-control-plane2", "ovn-control-plane3"}
}

// oneServer has the lab begin without clusters.
const oneServer = "--set=databases.members=1"

// TestMasters_OneServerBecomesThree: by helm upgrade. Pods exchange packets meanwhile, and the rows stay the same ones.
func TestMasters_OneServerBecomesThree(t *testing.T) {
	world.Test(t, world.Node, world.Disruptive)
	if !strings.Contains(*upFlags, oneServer) {
		t.Skip("it needs a lab that begins with one server of each database: make e2e-masters")
	}
	m := beginMasters(t)
	before := m.rows(t)
	if len(before) < 50 {
		t.Fatalf("only %d rows", len(before))
	}
	m.under(t, "from one server to three", leaderDied, func() {
		begin := time.Now()
		helm(t, "upgrade", "ovn-offload", filepath.Join(cluster.root, "deploy/chart"), "--namespace="+system, "--reuse-values",
			"--set=databases.members=3", "--force-conflicts")
		rolledOut(t, "deployment", "daemonset")
		t.Logf("it took %s", time.Since(begin).Round(time.Second))
	})
	m.members(t)
	m.noneTwice(t, "from one server to three")
	world.Eventually(t, world.Soon, "the rows of before, and no others", func() (bool, string) {
		diff := cmp.Diff(before, m.rows(t))
		return diff == "", diff
	})
}

// rows are the UUIDs and owners of the Northbound's rows that a new pod does not change.
func (m *mastersTest) rows(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, table := range northboundTables {
		rows := world.MustOnNode(t, masterNodes()[0], "ovn-nbctl", "--no-leader-only", "--format=csv", "--no-headings",
			"--columns=_uuid,external_ids", "list", table)
		for row := range strings.Lines(rows) {
			if !strings.Contains(row, m.ns+"/new-") {
				all = append(all, table+" "+strings.TrimSpace(row))
			}
		}
	}
	slices.Sort(all)
	return all
}

// northboundTables have rows that no index of the database keeps from being there twice.
var northboundTables = []string{
	"Logical_Switch", "Logical_Switch_Port", "ACL", "Load_Balancer", "NAT", "Logical_Router_Policy", "Logical_Router_Static_Route",
}

// TestMasters_LossOfEach: processes of the network on each master are killed, then each master loses its power. Pods
// exchange packets meanwhile, and new pods start.
func TestMasters_LossOfEach(t *testing.T) {
	world.Test(t, world.Node, world.Disruptive)
	if !strings.Contains(*upFlags, "--control-planes=3 --nodes=6") {
		t.Skip("it needs a lab with three control-plane nodes and three workers: make e2e-masters")
	}
	m := beginMasters(t)
	for _, step := range []struct {
		name string
		do   func(*testing.T)
	}{
		{"a process is killed", m.kill},
		{"two of three do not answer", m.majority},
		{"a master loses its power", m.power},
		{"a master returns with an empty disk", m.erased},
	} {
		begin := time.Now()
		if !t.Run(step.name, step.do) {
			return
		}
		t.Logf("%s: %s", step.name, time.Since(begin).Round(time.Second))
	}
}

func beginMasters(t *testing.T) *mastersTest {
	t.Helper()
	m := &mastersTest{ns: world.Namespace(t)}
	m.from, m.to = world.Pod(m.ns, "from", nodes[1]), world.Pod(m.ns, "to", nodes[2])
	world.Run(t, m.from, m.to)
	m.newPod(t) // images and caches
	m.alone = m.newPod(t)
	t.Logf("a pod starts in %s", m.alone)
	return m
}

// newPod gives the time until a pod is ready and is reached.
func (m *mastersTest) newPod(t *testing.T) time.Duration {
	t.Helper()
	begin := time.Now()
	m.started++
	// The userspace datapath loses packets of a node on which a pod starts (docs/limits.md).
	object := world.Pod(m.ns, fmt.Sprintf("new-%d", m.started), "ovn-worker3")
	world.Eventually(t, world.PodWithin, "the API server takes "+object.Name, func() (bool, string) {
		_, err := cluster.client.CoreV1().Pods(m.ns).Create(t.Context(), object, metav1.CreateOptions{})
		return err == nil || apierrors.IsAlreadyExists(err), fmt.Sprint(err)
	})
	pod := world.WaitPod(t, m.ns, object.Name, "Running", world.IsRunning)
	took := time.Since(begin)
	world.Listening(t, pod, world.EchoPort)
	world.MustInPod(t, m.to, "probe", "dial", "tcp", netip.AddrPortFrom(world.Addresses(pod)[0], world.EchoPort).String())
	world.DeletePod(t, m.ns, pod.Name)
	return took.Round(10 * time.Millisecond)
}

// under does something while two flows run, and starts a pod. No packet may be lost, because neither end has anything to
// do with what is lost.
func (m *mastersTest) under(t *testing.T, what string, within time.Duration, do func()) {
	t.Helper()
	target := netip.AddrPortFrom(world.Addresses(m.to)[0], world.EchoPort)
	flows := map[string]*flow{}
	for _, network := range []string{"tcp", "udp"} {
		flows[network] = startFlowOnNode(t, m.from, network, target)
	}
	reads := routeReads(t, m.from.Spec.NodeName, m.to.Spec.NodeName)
	do()
	took := m.newPod(t)
	t.Logf("%s: a pod starts in %s", what, took)
	t.Logf("%s: ovs-vswitchd of the flows' nodes has read routes %v times, before %v", what, routeReads(t, m.from.Spec.NodeName, m.to.Spec.NodeName), reads)
	if took > m.alone+within {
		t.Errorf("%s: a pod took %s to start, and %s with nothing lost", what, took, m.alone)
	}
	for network, flow := range flows {
		gap := flow.stop()
		t.Logf("%s: no answer over %s for at most %s", what, network, gap.Round(time.Millisecond))
		if flow.lost > 0 {
			t.Errorf("%s: %d packets over %s lost, the last at %s", what, flow.lost, network, flow.lostAt.Format(time.TimeOnly))
		}
	}
}

// noneTwice looks for rows of one owner with one id, as from a commit that was done on two connections.
func (m *mastersTest) noneTwice(t *testing.T, what string) {
	t.Helper()
	for _, table := range northboundTables {
		seen := map[string]bool{}
		rows := world.MustOnNode(t, masterNodes()[0], "ovn-nbctl", "--no-leader-only", "--bare", "--columns=external_ids",
			"list", table)
		for row := range strings.SplitSeq(rows, "\n") {
			if row != "" && seen[row] {
				t.Errorf("%s: two rows of %s have %s", what, table, row)
			}
			seen[row] = true
		}
	}
}

// pluginAsks runs the verbs that use a database, and gives the node whose member leads meanwhile. The plugin asks the same
// member whichever leads.
func (m *mastersTest) pluginAsks(t *testing.T, database string) (leader string) {
	t.Helper()
	for _, node := range masterNodes() {
		if m.leads(t, database, node) {
			leader = node
		}
	}
	path := []string{"trace", "pod/" + m.ns + "/" + m.from.Name, fmt.Sprintf("pod/%s/%s:%d", m.ns, m.to.Name, world.EchoPort)}
	for _, verb := range [][]string{{database, "--", "show"}, path} {
		if out, code := kubectlOffload(t, verb...); code != 0 || !strings.Contains(out, "ovn-worker") {
			t.Errorf("%s is led by %s: kubectl offload %v ends with %d: %s", database, leader, verb, code, out)
		}
	}
	return leader
}

func (m *mastersTest) kill(t *testing.T) {
	for _, component := range []string{"nb", "sb", "relay", "northd", "controller"} {
		led := map[string]bool{}
		for _, node := range masterNodes() {
			within := othersLead
			if component != "relay" && m.leads(t, component, node) {
				within = leaderDied
			}
			what := fmt.Sprintf("%s killed on %s, leader %t", component, node, within == leaderDied)
			m.under(t, what, within, func() { restart(t, component+"@"+node) })
			m.members(t)
			if component == "nb" || component == "sb" {
				led[m.pluginAsks(t, component)] = true
			}
		}
		if len(led) == 1 {
			t.Errorf("%s: one member has led all the time, so the plugin may have asked no other: %v", component, led)
		}
		m.noneTwice(t, component+" killed")
	}
}

// leads says whether the process on a node is the active one.
func (m *mastersTest) leads(t *testing.T, component, node string) bool {
	t.Helper()
	switch component {
	case "nb", "sb":
		out, err := m.daemon(t, "ovnkube-db", component+"-ovsdb", node, "status", component)
		return err == nil && strings.Contains(out, "Role: leader")
	case "northd":
		out, err := world.OnNode(node, "ovn-appctl", "-t", "/run/ovn/ovn-northd.ctl", "status")
		return err == nil && strings.Contains(out, "active")
	}
	lease, err := cluster.client.CoordinationV1().Leases(system).Get(t.Context(), "ovn-kubernetes-master", metav1.GetOptions{})
	return err == nil && lease.Spec.HolderIdentity != nil && strings.HasPrefix(*lease.Spec.HolderIdentity, node+"-")
}

// daemon runs ovn-daemon in a container of an app's pod on a node.
func (m *mastersTest) daemon(t *testing.T, app, container, node string, args ...string) (string, error) {
	t.Helper()
	pods, err := cluster.client.CoreV1().Pods(system).List(t.Context(), metav1.ListOptions{
		LabelSelector: "app=" + app, FieldSelector: "spec.nodeName=" + node,
	})
	if err != nil || len(pods.Items) == 0 {
		return "", fmt.Errorf("%d pods of %s on %s: %w", len(pods.Items), app, node, err)
	}
	kubectl, config := cluster.Kubectl()
	world.Pace(t, pods.Items[0].Name, args...)
	cmd := exec.Command(kubectl, append([]string{
		"--kubeconfig", config, "exec", "-n", system, pods.Items[0].Name, "-c", container, "--", "ovn-daemon",
	}, args...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	return out.String(), err
}

// members waits until each cluster has three connected members again.
func (m *mastersTest) members(t *testing.T) {
	t.Helper()
	for _, node := range masterNodes() {
		for _, database := range []string{"nb", "sb"} {
			world.Eventually(t, 2*time.Minute, database+" of "+node+" belongs to a cluster of three", func() (bool, string) {
				out, err := m.daemon(t, "ovnkube-db", database+"-ovsdb", node, "status", database)
				if err != nil {
					return false, out + err.Error()
				}
				_, servers, _ := strings.Cut(out, "Servers:\n")
				return strings.Contains(out, "Status: cluster member") && !strings.Contains(out, "Leader: unknown") && strings.Count(servers, " at ") == 3, out
			})
		}
	}
}

// signal reaches the databases' servers of a node.
func signal(t *testing.T, node, name string) {
	t.Helper()
	world.MustOnNode(t, node, "sh", "-c", `for p in /proc/[0-9]*; do case $(tr '\0' ' ' <$p/cmdline 2>/dev/null) in
		ovsdb-server*ovn[ns]b_db.json*) kill -`+name+` ${p#/proc/};; esac; done`)
}

// majority: the control plane stops, the data plane goes on, and each part says what is wrong.
func (m *mastersTest) majority(t *testing.T) {
	target := netip.AddrPortFrom(world.Addresses(m.to)[0], world.EchoPort)
	flow := startFlowOnNode(t, m.from, "udp", target)
	lost := masterNodes()[1:]
	for _, node := range lost {
		signal(t, node, "STOP")
	}
	defer func() {
		for _, node := range lost {
			signal(t, node, "CONT")
		}
	}()
	for _, node := range nodes[1:] {
		world.Eventually(t, time.Minute, "the agent of "+node+" says what is lost", func() (bool, string) {
			out, err := world.OnNode(node, "curl", "-s", "http://127.0.0.1:9410/readyz")
			return err == nil && strings.Contains(out, "the Southbound is not connected") && strings.Contains(out, "no leader"), out
		})
	}
	world.Eventually(t, time.Minute, "the controller says what is lost", func() (bool, string) {
		var all []string
		for _, node := range masterNodes() {
			out, _ := world.OnNode(node, "curl", "-s", "http://127.0.0.1:9411/readyz")
			all = append(all, out)
		}
		return strings.Contains(strings.Join(all, " "), "the Northbound: the database is not connected"), strings.Join(all, "; ")
	})
	if flow.stop(); flow.lost > 0 {
		t.Errorf("%d packets lost", flow.lost)
	}
	for _, node := range lost {
		signal(t, node, "CONT")
	}
	m.members(t)
	m.newPod(t)
}

func (m *mastersTest) power(t *testing.T) {
	for _, choose := range []func(*testing.T) string{
		func(*testing.T) string { return masterNodes()[0] },
		func(*testing.T) string { return masterNodes()[1] },
		func(*testing.T) string { return masterNodes()[2] },
		m.northdAway,
	} {
		node := choose(t)
		var led []string
		for _, part := range []string{"nb", "sb", "northd", "controller"} {
			if m.leads(t, part, node) {
				led = append(led, part)
			}
		}
		m.under(t, fmt.Sprintf("%s, which leads %v, loses its power", node, led), leaderDied, func() {
			if err := theLab().PowerOff(node); err != nil {
				t.Fatal(err)
			}
		})
		if err := theLab().PowerOn(node); err != nil {
			t.Fatal(err)
		}
		m.members(t)
		m.noneTwice(t, node+" lost its power")
	}
}

// northdAway has northd active on another master than that of the Southbound's leader. So the lock does not end with the
// leader.
func (m *mastersTest) northdAway(t *testing.T) (active string) {
	t.Helper()
	for _, node := range masterNodes() {
		if m.leads(t, "sb", node) && m.leads(t, "northd", node) {
			restart(t, "northd@"+node)
		}
	}
	world.Eventually(t, world.Soon, "northd is active on another master than that of the Southbound's leader",
		func() (bool, string) {
			for _, node := range masterNodes() {
				if m.leads(t, "northd", node) {
					active = node
				}
			}
			return active != "" && !m.leads(t, "sb", active), active
		})
	return active
}

func (m *mastersTest) erased(t *testing.T) {
	node := masterNodes()[2]
	for _, do := range []func() error{
		func() error { return theLab().PowerOff(node) },
		func() error { return theLab().Erase(node, "/var/lib/ovn") },
		func() error { return theLab().PowerOn(node) },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	m.members(t)
	m.newPod(t)
}
