//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// othersOnNode makes what other software may have on a node: an Open vSwitch bridge with a port and a flow, a port of the
// integration bridge for a logical port that is not ours, an nftables table, a rule and a route.
const othersOnNode = `set -e
ovs-vsctl add-br br-others -- set Bridge br-others datapath_type=$(ovs-vsctl get Bridge br-int datapath_type) external_ids:by=others \
 -- add-port br-others others0 -- set Interface others0 type=internal external_ids:by=others \
 -- add-port br-int others1 -- set Interface others1 type=internal external_ids:iface-id=others-port -- set Open_vSwitch . external_ids:others=kept
ovs-ofctl add-flow br-others table=7,priority=7,tcp,actions=drop
ip addr add 192.0.2.77/32 dev others0; ip link set others0 up
ip route add 198.51.100.0/24 dev others0 table 777; ip rule add pref 777 from 192.0.2.77 lookup 777
nft add table inet others; nft 'add chain inet others input { type filter hook input priority 10; }'; nft add rule inet others input tcp dport 7777 drop`

const othersState = `ovs-vsctl --columns=_uuid,name,ports,datapath_type,external_ids list Bridge br-others
ovs-vsctl --columns=_uuid,name,type,ofport,external_ids list Interface others0 others1; ovs-vsctl port-to-br others1
ovs-vsctl get Open_vSwitch . external_ids:others; ovs-ofctl --no-stats dump-flows br-others
ip -o -4 addr show dev others0; ip route show table 777; ip rule show pref 777; nft list table inet others`

const withoutOthers = `ip rule del pref 777; nft delete table inet others; ovs-vsctl --if-exists del-br br-others -- --if-exists del-port others1 \
 -- --if-exists del-port ours1 -- remove Open_vSwitch . external_ids others`

// othersInNorthbound are a switch, a port on a node's integration bridge and a router that are not ours.
const othersInNorthbound = `ovn-nbctl ls-add others -- lsp-add others others-port -- set Logical_Switch others external_ids:by=others -- lr-add others-router`

// ours are the traces of a pod and a node that are gone: rows of ours. A chain of our nftables table loses its rules.
const (
	oursOnNode = `ovs-vsctl add-port br-int ours1 -- set Port ours1 external_ids:ovn-offload.io/owner=Pod/gone/pod external_ids:ovn-offload.io/id=ours1 \
 -- set Interface ours1 type=internal external_ids:ovn-offload.io/owner=Pod/gone/pod external_ids:ovn-offload.io/id=ours1 \
    external_ids:iface-id=gone_pod external_ids:iface-id-ver=1 external_ids:sandbox=1 external_ids:pod-if-name=eth0
nft flush chain inet ovn-offload output`
	oursInNorthbound = `ovn-nbctl ls-add ours -- set Logical_Switch ours external_ids:ovn-offload.io/owner=Node/gone external_ids:ovn-offload.io/id=ours`
)

// TestOthers_KeepWhatTheyHaveOnNode: controller, agent and database start again, and all that is ours is compared with what is
// there. What other software has on the node and in the database stays as it is. Leftovers of ours go, and a chain of ours has
// its rules again.
func TestOthers_KeepWhatTheyHaveOnNode(t *testing.T) {
	world.Test(t, world.Node, world.Core, world.Disruptive)
	node := nodes[1]
	northbound := func(script string) {
		t.Helper()
		world.MustOnNode(t, nodes[0], "sh", "-c", script)
	}
	northbound(othersInNorthbound)
	t.Cleanup(func() {
		world.OnNode(nodes[0], "sh", "-c", "ovn-nbctl --if-exists ls-del others -- --if-exists ls-del ours -- --if-exists lr-del others-router")
		world.OnNode(node, "sh", "-c", withoutOthers)
	})
	world.MustOnNode(t, node, "sh", "-c", othersOnNode)
	world.Eventually(t, world.PodWithin, "the port of others is up", func() (bool, string) {
		up := nbctl(t, "--bare", "--columns=up", "find", "Logical_Switch_Port", "name=others-port")
		return strings.TrimSpace(up) == "true", up
	})
	state := func() string {
		return world.MustOnNode(t, node, "sh", "-c", othersState) + nbctl(t, "--columns=_uuid,name,ports,external_ids",
			"list", "Logical_Switch", "others") +
			nbctl(t, "--columns=_uuid,name,up,enabled", "list", "Logical_Switch_Port", "others-port") + nbctl(t, "--columns=_uuid,name,ports", "list", "Logical_Router", "others-router")
	}
	before := state()
	world.MustOnNode(t, node, "sh", "-c", oursOnNode)
	restart(t, "agent@"+node)
	restart(t, "controller")
	restart(t, "nb") // a new connection: every owner is built again
	world.Eventually(t, world.PodWithin, "the database takes rows", func() (bool, string) {
		out, err := world.OnNode(nodes[0], "sh", "-c", oursInNorthbound)
		return err == nil, out
	})
	world.Eventually(t, world.PodWithin, "the leftovers of ours are gone, and the rules are back", func() (bool, string) {
		left := world.MustOnNode(t, node, "sh", "-c",
			"ovs-vsctl --bare --columns=name find Interface name=ours1; nft list chain inet ovn-offload output | grep -c dnat || true") +
			nbctl(t, "--bare", "--columns=name", "find", "Logical_Switch", "name=ours")
		return strings.TrimSpace(left) == "4", left
	})
	world.Run(t, world.Pod(world.Namespace(t), "later", node)) // by all of them
	if diff := cmp.Diff(before, state()); diff != "" {
		t.Errorf("what others have, after (+) and before (-):\n%s", diff)
	}
}
