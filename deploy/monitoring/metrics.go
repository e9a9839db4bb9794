package monitoring

import (
	"errors"
	"fmt"
	"strings"
)

// Metric is a line of the table of metrics.
type Metric struct {
	Name   string
	Kind   string // gauge, counter, histogram or summary
	Labels []string
	Where  string // the processes
	What   string
	// Needs is what a node or the cluster must have for it; "" for all.
	Needs string
	// Unused says why neither a board nor an alert has it.
	Unused string
}

// The processes.
const (
	agents     = "agent"
	controller = "controller"
	identity   = "identity"
	relay      = "relay"
	all        = "all"
	loops      = "agent, controller"
)

// What a node or a cluster may lack.
const (
	needsNIC     = "a NIC in switchdev mode"
	needsDPU     = "a DPU"
	needsPod     = "`metrics.perPod`"
	needsPolicy  = "an OffloadPolicy"
	needsMasters = "several masters"
	needsRelay   = "the relay"
)

const unusedRaft = "clusters have one server each by default; docs/high-availability.md names the metrics"

// Metrics is the table, by name.
func Metrics() []Metric {
	return append(append(append(cniMetrics(), traffic()...), nodeState()...), control()...)
}

func cniMetrics() []Metric {
	return []Metric{
		{Name: "ovn_offload_cni_command_duration_seconds", Kind: "histogram", Labels: []string{"command", "result"}, Where: agents, What: "from a CNI command's arrival to its answer"},
		{Name: "ovn_offload_cni_add_stage_duration_seconds", Kind: "summary", Labels: []string{"stage"}, Where: agents, What: "the stages of ADD: pod, annotation, device, attach, flows"},
		{Name: "ovn_offload_cni_devices_restored_total", Kind: "counter", Where: agents, What: "pods whose VF disappeared, as when a NIC is reset, and was attached again"},
		{Name: "ovn_offload_devices", Kind: "gauge", Labels: []string{"resource", "state"}, Where: agents, What: "VFs that the node offers: free, claimed (by a pod), unhealthy"},
	}
}

func traffic() []Metric {
	return []Metric{
		{Name: "ovn_offload_datapath_flows", Kind: "gauge", Labels: []string{"place"}, Where: agents, Needs: needsNIC, What: "datapath flows: hardware, partial, tc, ovs"},
		{Name: "ovn_offload_datapath_flows_outside_hardware", Kind: "gauge", Labels: []string{"reason"}, Where: agents, Needs: needsNIC, What: "flows that are not in hardware, by [reason](offload-status.md#reasons)"},
		{Name: "ovn_offload_datapath_packets_total", Kind: "counter", Labels: []string{"place"}, Where: agents, Needs: needsNIC, What: "packets of the node, each once"},
		{Name: "ovn_offload_datapath_bytes_total", Kind: "counter", Labels: []string{"place"}, Where: agents, Needs: needsNIC, What: "bytes of the node; TC counts them without Ethernet headers"},
		{Name: "ovn_offload_outside_packets_total", Kind: "counter", Labels: []string{"reason"}, Where: agents, Needs: needsNIC, What: "packets outside hardware, by reason"},
		{Name: "ovn_offload_namespace_packets_total", Kind: "counter", Labels: []string{"namespace", "place"}, Where: agents, Needs: needsNIC, What: "packets that the namespace's pods on the node sent and received; at most 128 namespaces"},
		{Name: "ovn_offload_namespace_bytes_total", Kind: "counter", Labels: []string{"namespace", "place"}, Where: agents, Needs: needsNIC, What: "bytes of the same packets"},
		{Name: "ovn_offload_pod_packets_total", Kind: "counter", Labels: []string{"namespace", "pod", "place"}, Where: agents, Needs: needsPod, What: "packets that a pod sent and received; with `outside` at most 32 pods, with `all` at most 512"},
		{Name: "ovn_offload_pod_bytes_total", Kind: "counter", Labels: []string{"namespace", "pod", "place"}, Where: agents, Needs: needsPod, What: "bytes of the same packets"},
		{Name: "ovn_offload_datapath_dump_seconds", Kind: "gauge", Where: agents, Needs: needsNIC, What: "time that the last dump of the flows took"},
		{Name: "ovn_offload_datapath_malformed_lines", Kind: "gauge", Where: agents, Needs: needsNIC, What: "lines of the last dump that the agent did not understand"},
		{Name: "ovn_offload_flow_questions_seconds_total", Kind: "counter", Labels: []string{"question"}, Where: agents, What: "time that ovs-vswitchd took to answer viewers of flows: `dump` of all flows, `rules` of single flows"},
		{Name: "ovn_offload_flow_rules_total", Kind: "counter", Labels: []string{"from"}, Where: agents, What: "flows whose rules viewers wanted: `asked` of ovs-vswitchd, or `kept` from a former question, for at most a minute while the flow lives"},
		{Name: "ovn_offload_flow_limit", Kind: "gauge", Labels: []string{"table"}, Where: agents, What: "most entries of a table: `dp`: datapath flows, a limit that ovs-vswitchd adapts to its speed; `ct`: connections"},
		{Name: "ovn_offload_flow_table_used_ratio", Kind: "gauge", Labels: []string{"table"}, Where: agents, What: "part of this limit that is used, 0 to 1"},
	}
}

func nodeState() []Metric {
	return []Metric{
		{Name: "ovn_offload_hw_offload_wanted", Kind: "gauge", Where: agents, What: "1 while `hw-offload` is set in OVS"},
		{Name: "ovn_offload_hw_offload_in_force", Kind: "gauge", Where: agents, What: "1 while the running ovs-vswitchd offloads"},
		{Name: "ovn_offload_nic_link_up", Kind: "gauge", Labels: []string{"pf"}, Where: agents, Needs: needsNIC, What: "1 while the uplink of a PF is up and has a carrier"},
		{Name: "ovn_offload_offloadpolicy_devices", Kind: "gauge", Labels: []string{"state"}, Where: agents, What: "NICs, and OVS of the node, that [OffloadPolicies](offload-policy.md) are about: Applied, Pending, Planned, Waiting, DrainNeeded, RebootNeeded, Refused, Conflict, Failed"},
		{Name: "ovn_offload_dpu_lease_age_seconds", Kind: "gauge", Where: agents, Needs: needsDPU, What: "on a host with a DPU: time since the DPU renewed its Lease"},
		{Name: "ovn_offload_dpu_token_expiry_seconds", Kind: "gauge", Where: agents, Needs: needsDPU, What: "on a DPU: the end of the token for the cluster of the host, in seconds since 1970; 0: never. Renewed after a third of its validity"},
		{Name: "ovn_offload_dpu_pod_status_total", Kind: "counter", Labels: []string{"status"}, Where: agents, Needs: needsDPU, What: "on a DPU: statuses of pods that it has written: Ready, Error, or removed"},
		{Name: "ovn_offload_gateway_flows", Kind: "gauge", Where: agents, What: "flows of the gateway bridge, as wanted"},
		{Name: "ovn_offload_gateway_node_ports", Kind: "gauge", Where: agents, What: "node ports that the bridge sends to the gateway router"},
		{Name: "ovn_offload_gateway_external_endpoints", Kind: "gauge", Where: agents, What: "external endpoints of services that the bridge sends there"},
		{Name: "ovn_offload_gateway_router_connected", Kind: "gauge", Where: agents, What: "1 while the gateway router's port is on the bridge"},
		{Name: "ovn_offload_gateway_vf", Kind: "gauge", Where: agents, What: "1 while a VF has the node's address ([vf.md](vf.md#the-nodes-own-traffic)), 0 while the gateway bridge's own interface has"},
		{Name: "ovn_offload_services_health_check_ports", Kind: "gauge", Where: agents, What: "health check ports of services that the node answers"},
		{Name: "ovn_offload_connections_ended_total", Kind: "counter", Where: agents, What: "ended connections of removed endpoints"},
		{Name: "ovn_offload_connections_check_seconds", Kind: "gauge", Where: agents, What: "duration of the last check of connections of changed services"},
	}
}

func control() []Metric {
	return []Metric{
		{Name: "ovn_offload_build_info", Kind: "gauge", Labels: []string{"version"}, Where: all, What: "1; the label is the version of the process"},
		{Name: "ovn_offload_certificate_expiry_seconds", Kind: "gauge", Labels: []string{"certificate"}, Where: "agent, identity", What: "the end of a certificate, in seconds since 1970: `chassis` of a node or DPU, which is renewed ten days before; the others are Secrets of the databases"},
		{Name: "ovn_offload_flow_names_requests_total", Kind: "counter", Labels: []string{"code"}, Where: controller, Needs: needsRelay, Unused: "the page says where names are missing", What: "requests of relays for the names of flows, by the status of the answer"},
		{Name: "ovn_offload_flow_names_misses_total", Kind: "counter", Where: controller, Needs: needsRelay, Unused: "it explains ovn_offload_flow_names_reads_total", What: "cookies of flows that the index of the Southbound did not have when they were asked for"},
		{Name: "ovn_offload_flow_names_reads_total", Kind: "counter", Where: controller, Needs: needsRelay, Unused: "it grows by one in ten seconds at most", What: "readings of the Southbound for the names of flows"},
		{Name: "ovn_offload_relay_agents", Kind: "gauge", Labels: []string{"state"}, Where: relay, Needs: needsRelay, Unused: "the page shows it", What: "agents that the relay asks for summaries: answers, silent"},
		{Name: "ovn_offload_leader", Kind: "gauge", Where: controller, What: "1 while the process leads"},
		{Name: "ovn_offload_policy_nodes", Kind: "gauge", Labels: []string{"policy", "state"}, Where: "leader", Needs: needsPolicy, What: "nodes that an [OffloadPolicy](offload-policy.md) selects: applied, pending, failed"},
		{Name: "ovn_offload_ipam_subnets", Kind: "gauge", Labels: []string{"family", "state"}, Where: "leader", What: "node subnets of the cluster, used and free"},
		{Name: "ovn_offload_ipam_addresses", Kind: "gauge", Labels: []string{"node", "family", "state"}, Where: "leader", What: "addresses for the pods of a node, used and free"},
		{Name: "ovn_offload_ipam_network_addresses", Kind: "gauge", Labels: []string{"kind", "network", "family", "state"}, Where: "leader", What: "addresses for the pods of a further network (kind `Network`) or of a NamespaceSubnet, used and free. Of a network of topology layer3, those of its fullest node"},
		{Name: "ovn_offload_policy_policies", Kind: "gauge", Where: controller, What: "network policies in force"},
		{Name: "ovn_offload_policy_pod_sets", Kind: "gauge", Where: controller, What: "distinct sets of pods in rules of policies, each an address set a family"},
		{Name: "ovn_offload_reconcile_dirty_keys", Kind: "gauge", Labels: []string{"loop"}, Where: loops, What: "owners that wait for a worker"},
		{Name: "ovn_offload_reconcile_waiting_keys", Kind: "gauge", Labels: []string{"loop"}, Where: loops, What: "owners that wait for a missing fact; not an error"},
		{Name: "ovn_offload_reconcile_failing_keys", Kind: "gauge", Labels: []string{"loop"}, Where: loops, What: "owners whose last attempt failed; each is tried again, after a minute at the latest"},
		{Name: "ovn_offload_reconcile_invalid_keys", Kind: "gauge", Labels: []string{"loop"}, Where: loops, What: "owners whose object has a wrong part; only a change of the object helps, so there is no alert"},
		{Name: "ovn_offload_reconcile_failures_total", Kind: "counter", Labels: []string{"loop"}, Where: loops, What: "failed attempts"},
		{Name: "ovn_offload_reconcile_batch_duration_seconds", Kind: "summary", Labels: []string{"loop"}, Where: loops, What: "time of one batch"},
		{Name: "ovn_offload_ovsdb_connected", Kind: "gauge", Labels: []string{"database"}, Where: loops, What: "1 while the replica follows the database"},
		{Name: "ovn_offload_ovsdb_connections_total", Kind: "counter", Labels: []string{"database"}, Where: loops, What: "connections made; more than one: the database was disconnected"},
		{Name: "ovn_offload_ovsdb_fenced_total", Kind: "counter", Labels: []string{"database"}, Where: controller, What: "transactions refused because [another leader](decisions/fence-of-northbound-writes.md) has taken over, or because the database was restored"},
		{Name: "ovn_offload_ovsdb_operations_total", Kind: "counter", Labels: []string{"database", "op"}, Where: loops, What: "operations sent"},
		{Name: "ovn_offload_ovsdb_transaction_duration_seconds", Kind: "histogram", Labels: []string{"database"}, Where: loops, What: "from sending a transaction to its reply"},
		{Name: "ovn_offload_raft_leader", Kind: "gauge", Labels: []string{"database"}, Where: controller, Needs: needsMasters, What: "1 while the member on this node leads the cluster of the database ([several masters](high-availability.md))", Unused: unusedRaft},
		{Name: "ovn_offload_raft_connected", Kind: "gauge", Labels: []string{"database"}, Where: controller, Needs: needsMasters, What: "1 while this member belongs to the cluster and knows its leader", Unused: unusedRaft},
		{Name: "ovn_offload_raft_members", Kind: "gauge", Labels: []string{"database"}, Where: controller, Needs: needsMasters, What: "servers of the cluster, as this member knows them", Unused: unusedRaft},
	}
}

// listHeading begins the section of docs/metrics.md that is made from the table, up to the next heading.
const listHeading = "\n## List\n"

// WithList replaces the list of metrics in a page.
func WithList(page []byte) ([]byte, error) {
	before, rest, ok := strings.Cut(string(page), listHeading)
	if !ok {
		return nil, errors.New("no heading for the list of metrics")
	}
	_, after, ok := strings.Cut(rest, "\n## ")
	if !ok {
		return nil, errors.New("no heading after the list of metrics")
	}
	var out strings.Builder
	out.WriteString(before + listHeading + "\nMade by `make generate`.\n\n| Metric | Kind | Where | What |\n|---|---|---|---|\n")
	for _, m := range Metrics() {
		name, what := m.Name, m.What
		if len(m.Labels) > 0 {
			name += "{" + strings.Join(m.Labels, ",") + "}"
		}
		if m.Needs != "" {
			what += "; needs " + m.Needs
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n", name, m.Kind, m.Where, what)
	}
	return []byte(out.String() + "\n## " + after), nil
}
