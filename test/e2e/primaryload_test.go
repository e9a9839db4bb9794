//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// load is what networks cost a cluster: rows of the databases, OpenFlows of each node, and the memory of processes, not
// file-backed, in MB.
type load struct {
	rows   map[string]int
	flows  map[string]int
	memory map[string]int
}

// loadOf measures the three nodes.
func loadOf(t *testing.T) load {
	t.Helper()
	l := load{map[string]int{}, map[string]int{}, map[string]int{}}
	for _, table := range networkTables() {
		l.rows["NB "+table] = len(strings.Fields(nbctl(t, "--bare", "--columns=_uuid", "list", table)))
	}
	for _, table := range []string{"Datapath_Binding", "Port_Binding", "Logical_Flow"} {
		l.rows["SB "+table] = len(strings.Fields(sbctl(t, "--bare", "--columns=_uuid", "list", table)))
	}
	count := regexp.MustCompile(`flow_count=(\d+)`)
	for _, node := range nodes[:3] {
		found := count.FindStringSubmatch(world.MustOnNode(t, node, "ovs-ofctl", "dump-aggregate", "br-int"))
		if found == nil {
			t.Fatalf("no count of flows on %s", node)
		}
		l.flows[node], _ = strconv.Atoi(found[1])
		maps.Copy(l.memory, memoryOn(t, node))
	}
	return l
}

// memoryOn is what the processes of the network on a node have.
func memoryOn(t *testing.T, node string) map[string]int {
	t.Helper()
	const script = `cd /proc && for p in [0-9]*; do awk -v p=$p '/^Name:/{n=$2} /^RssAnon:/{print n, $2}' $p/status 2>/dev/null; done`
	used := map[string]int{}
	for line := range strings.Lines(world.MustOnNode(t, node, "sh", "-c", script)) {
		var name string
		var kilobytes int
		if n, _ := fmt.Sscan(line, &name, &kilobytes); n == 2 && strings.HasPrefix(name, "ov") {
			used[node+" "+name] += kilobytes / 1024
		}
	}
	return used
}

func (l load) String() string {
	var lines []string
	for _, part := range []map[string]int{l.rows, l.flows, l.memory} {
		for _, key := range slices.Sorted(maps.Keys(part)) {
			lines = append(lines, fmt.Sprintf("%s: %d", key, part[key]))
		}
	}
	return strings.Join(lines, "\n")
}

// loadWithoutOthers measures when the namespaces of earlier tests, which may still go, have gone with their rows.
func loadWithoutOthers(t *testing.T) (l load) {
	t.Helper()
	world.Eventually(t, world.PodWithin, "no namespace goes, and the rows stay", func() (bool, string) {
		namespaces, err := cluster.client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		for _, ns := range namespaces.Items {
			if ns.DeletionTimestamp != nil {
				return false, ns.Name
			}
		}
		before := l
		l = loadOf(t)
		return maps.Equal(l.rows, before.rows), fmt.Sprintf("%v, and before %v", l.rows, before.rows)
	})
	return l
}

// leavesNothing waits until the rows are those of before, and the OpenFlows, too. Neighbors that routers have learned meanwhile are
// a few.
func (l load) leavesNothing(t *testing.T) load {
	t.Helper()
	const learned = 50
	var now load
	world.Eventually(t, world.PodWithin, "rows and flows are as before", func() (bool, string) {
		now = loadOf(t)
		for node, n := range now.flows {
			if n > l.flows[node]+learned {
				return false, fmt.Sprintf("%s has %d OpenFlows, and had %d", node, n, l.flows[node])
			}
		}
		return maps.Equal(now.rows, l.rows), fmt.Sprintf("%v, and before %v", now.rows, l.rows)
	})
	return now
}

// refusedByDepth are the packets that a node's switch has dropped because their actions were too many or too deep.
func refusedByDepth(t *testing.T, node string) (n int) {
	t.Helper()
	for _, counter := range []string{
		"datapath_drop_recirc_error", "drop_action_too_many_resubmit", "drop_action_recursion_too_deep", "drop_action_stack_too_deep",
		"drop_action_recirculation_conflict", "xlate_actions_oversize", "xlate_actions_too_many_output",
	} {
		text := strings.TrimSpace(world.MustOnNode(t, node, "ovs-appctl", "coverage/read-counter", counter))
		count, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("%s: %v", counter, err)
		}
		n += count
	}
	return n
}

// countsDepth shows that refusedByDepth counts: a bridge of a node gets a packet that conntrack always leads back.
func countsDepth(t *testing.T, node string) {
	t.Helper()
	const packet = "ffffffffffff02000000000108004500001c0000000040110000c0000201c000020200010002000800000000"
	before := refusedByDepth(t, node)
	world.MustOnNode(t, node, "sh", "-ec", `ovs-vsctl add-br deep -- set Bridge deep datapath_type=$(ovs-vsctl get Bridge br-int datapath_type) fail_mode=secure
ovs-ofctl add-flow deep 'ip,actions=ct(table=0)'; ovs-ofctl packet-out deep 'in_port=LOCAL,packet=`+packet+`,actions=resubmit(,0)'; ovs-vsctl del-br deep`)
	if refusedByDepth(t, node) == before {
		t.Error("no counter has the packet of a loop, so the counters show nothing")
	}
}

// broadcast are the actions of a node's external bridge for a question of ARP that comes from outside.
func broadcast(t *testing.T, node string) string {
	t.Helper()
	out := world.MustOnNode(t, node, "ovs-appctl", "ofproto/trace", "breth0",
		"in_port=eth0,arp,dl_src=02:00:00:00:00:99,dl_dst=ff:ff:ff:ff:ff:ff,arp_op=1,arp_spa=172.18.255.98,arp_tpa=172.18.255.99")
	_, actions, found := strings.Cut(out, "Datapath actions: ")
	if !found || !strings.ContainsAny(actions, "0123456789") {
		t.Fatalf("a question of ARP goes nowhere: %s", out)
	}
	return strings.TrimSpace(actions)
}

// reachOutside checks that a pod of each namespace reaches an external host, which asks for the node's MAC again, and that the
// switch of the pods' node refuses no packet of them.
func reachOutside(t *testing.T, node string, namespaces ...string) {
	t.Helper()
	world.ServeOutside(t)
	var pods []*corev1.Pod
	for _, ns := range namespaces {
		world.Create(t, world.Pod(ns, "outer", node))
	}
	for _, ns := range namespaces {
		pods = append(pods, world.Running(t, ns, "outer"))
	}
	before := refusedByDepth(t, node)
	for i, pod := range pods {
		target := world.OfFamily(world.NodeAddresses(t, outside), addressOn(t, pod, namespaces[i]+"/main"))
		world.MustOnNode(t, outside, "ip", "neigh", "flush", "dev", "eth0")
		want := world.OfFamily(world.NodeAddresses(t, node), target)
		if seen, err := seenAs(pod, "tcp", target); err != nil || seen != want {
			t.Errorf("%s: the external host sees %v, want %v: %v", pod.Namespace, seen, want, err)
		}
	}
	if now := refusedByDepth(t, node); now != before {
		t.Errorf("the switch has refused %d packets", now-before)
	}
	countsDepth(t, node)
}
