package monitoring

// Boards are the five boards.
func Boards() []Board {
	return []Board{overview(), nodeBoard(), podBoard(), controlPlane(), attachment()}
}

// of selects the chosen nodes.
const (
	of         = `{node=~"$node"}`
	ofHardware = `{node=~"$node",place="hardware"}`
	every      = "[$__rate_interval]"
	spaces     = `{node=~"$node",namespace=~"$namespace"}`
)

// rate sums the rate of a counter.
func rate(by, counter, selector string) string {
	return "sum " + by + "(rate(" + counter + selector + every + "))"
}

func overview() Board {
	return Board{
		ID: "ovn-offload-overview", Title: "ovn-offload / Overview", Text: "How much of the traffic the NICs carry, and whether the network works.",
		Rows: []Row{
			{"Now", []Panel{
				now("Packets in hardware", ratio, Query{"cluster:ovn_offload_hardware:ratio_rate5m", ""}),
				now("Nodes with an agent", short, Query{`count(up{job="ovn-offload-agent"} == 1)`, ""}),
				now("Nodes that offload", short, Query{"sum(ovn_offload_hw_offload_in_force)", ""}),
				now("Free VFs", short, Query{`sum by (resource) (ovn_offload_devices{state="free"})`, "{{resource}}"}),
				now("Leaders", short, Query{"sum(ovn_offload_leader)", ""}),
				now("Failing objects", short, Query{"sum(ovn_offload_reconcile_failing_keys)", ""}),
			}},
			{"Traffic", []Panel{
				timeline("Packets by place", perSecond, Query{rate("by (place) ", "ovn_offload_datapath_packets_total", of), "{{place}}"}),
				timeline("Bits by place", bitrate, Query{"8 * " + rate("by (place) ", "ovn_offload_datapath_bytes_total", of), "{{place}}"}),
				timeline("Packets outside hardware by reason", perSecond, Query{rate("by (reason) ", "ovn_offload_outside_packets_total", of), "{{reason}}"}),
			}},
			{"Where to look", []Panel{
				worst("Nodes with the smallest share in hardware", ratio, Query{"bottomk(10, node:ovn_offload_hardware:ratio_rate5m" + of + ")", ""}),
				worst("Namespaces with the smallest share in hardware", ratio, Query{`bottomk(10, namespace:ovn_offload_hardware:ratio_rate5m{namespace=~"$namespace"})`, ""}),
				panel("Alerts", list, "", 12, nil),
				worst("Time since a DPU reported", seconds, Query{"topk(10, ovn_offload_dpu_lease_age_seconds" + of + ")", ""}),
			}},
		},
	}
}

func nodeBoard() Board {
	return Board{
		ID: "ovn-offload-node", Title: "ovn-offload / Node and NIC", Text: "Traffic, tables, NICs and settings of nodes.",
		Rows: []Row{
			{"Traffic", []Panel{
				timeline("Packets in hardware", ratio, Query{"node:ovn_offload_hardware:ratio_rate5m" + of, "{{node}}"}),
				timeline("Packets by place", perSecond, Query{rate("by (node, place) ", "ovn_offload_datapath_packets_total", of), "{{node}} {{place}}"}),
				timeline("Packets outside hardware by reason", perSecond, Query{rate("by (node, reason) ", "ovn_offload_outside_packets_total", of), "{{node}} {{reason}}"}),
			}},
			{"Flows", []Panel{
				timeline("Flows by place", short, Query{"ovn_offload_datapath_flows" + of, "{{node}} {{place}}"}),
				timeline("Flows outside hardware by reason", short, Query{"ovn_offload_datapath_flows_outside_hardware" + of, "{{node}} {{reason}}"}),
				timeline("Used part of tables", ratio, Query{"ovn_offload_flow_table_used_ratio" + of, "{{node}} {{table}}"}),
				timeline("Limits of tables", short, Query{"ovn_offload_flow_limit" + of, "{{node}} {{table}}"}),
				timeline("Time of a dump of the flows", seconds, Query{"ovn_offload_datapath_dump_seconds" + of, "{{node}}"}),
				timeline("Lines of the dump that were not understood", short, Query{"ovn_offload_datapath_malformed_lines" + of, "{{node}}"}),
			}},
			{"NICs", []Panel{
				timeline("VFs", short, Query{"sum by (node, state) (ovn_offload_devices" + of + ")", "{{node}} {{state}}"}),
				timeline("Uplinks", short, Query{"ovn_offload_nic_link_up" + of, "{{node}} {{pf}}"}),
				timeline("VFs attached again", short, Query{"ovn_offload_cni_devices_restored_total" + of, "{{node}}"}),
				timeline("hw-offload", short, Query{"ovn_offload_hw_offload_wanted" + of, "{{node}} wanted"}, Query{"ovn_offload_hw_offload_in_force" + of, "{{node}} in force"}),
				timeline("OffloadPolicies", short, Query{"ovn_offload_offloadpolicy_devices" + of, "{{node}} {{state}}"}),
				timeline("Nodes of OffloadPolicies", short, Query{"sum by (policy, state) (ovn_offload_policy_nodes)", "{{policy}} {{state}}"}),
				timeline("The node's addresses on a VF", short, Query{"ovn_offload_gateway_vf" + of, "{{node}}"}),
			}},
			{"Cost", []Panel{
				timeline("Processor time of agents", "none", Query{`rate(process_cpu_seconds_total{job="ovn-offload-agent",node=~"$node"}` + every + ")", "{{node}}"}),
				timeline("Time of ovs-vswitchd for viewers of flows", "none", Query{rate("by (node, question) ", "ovn_offload_flow_questions_seconds_total", of), "{{node}} {{question}}"}),
				timeline("Flows whose rules viewers wanted", "none", Query{rate("by (node, from) ", "ovn_offload_flow_rules_total", of), "{{node}} {{from}}"}),
				timeline("Memory of agents", "bytes", Query{`process_resident_memory_bytes{job="ovn-offload-agent",node=~"$node"}`, "{{node}}"}),
			}},
		},
	}
}

func podBoard() Board {
	share := func(by, metric string) string {
		return "sum " + by + "(rate(" + metric + `{node=~"$node",namespace=~"$namespace",place="hardware"}` + every + ")) / " + rate(by, metric, spaces)
	}
	return Board{
		ID: "ovn-offload-pods", Title: "ovn-offload / Namespace and pod", Text: "Whose traffic is in hardware. Pods have series of their own with the chart's value metrics.perPod.",
		Rows: []Row{
			{"Namespaces", []Panel{
				timeline("Packets in hardware", ratio, Query{share("by (namespace) ", "ovn_offload_namespace_packets_total"), "{{namespace}}"}),
				timeline("Packets", perSecond, Query{rate("by (namespace, place) ", "ovn_offload_namespace_packets_total", spaces), "{{namespace}} {{place}}"}),
				timeline("Bits", bitrate, Query{"8 * " + rate("by (namespace, place) ", "ovn_offload_namespace_bytes_total", spaces), "{{namespace}} {{place}}"}),
			}},
			{"Pods", []Panel{
				timeline("Packets in hardware", ratio, Query{share("by (namespace, pod) ", "ovn_offload_pod_packets_total"), "{{namespace}}/{{pod}}"}),
				timeline("Packets", perSecond, Query{rate("by (namespace, pod, place) ", "ovn_offload_pod_packets_total", spaces), "{{namespace}}/{{pod}} {{place}}"}),
				timeline("Bits", bitrate, Query{"8 * " + rate("by (namespace, pod, place) ", "ovn_offload_pod_bytes_total", spaces), "{{namespace}}/{{pod}} {{place}}"}),
			}},
			{"Policies", []Panel{
				timeline("Network policies", short, Query{"sum(ovn_offload_policy_policies)", "policies"}, Query{"sum(ovn_offload_policy_pod_sets)", "sets of pods"}),
			}},
		},
	}
}

func controlPlane() Board {
	loop := func(title, metric string) Panel {
		return timeline(title, short, Query{"sum by (job, loop) (" + metric + of + ")", "{{job}} {{loop}}"})
	}
	return Board{
		ID: "ovn-offload-control-plane", Title: "ovn-offload / Control plane", Text: "Loops, databases, addresses, certificates and versions.",
		Rows: []Row{
			{"Loops", []Panel{
				loop("Objects that wait for a worker", "ovn_offload_reconcile_dirty_keys"),
				loop("Objects that wait for a fact", "ovn_offload_reconcile_waiting_keys"),
				loop("Objects that fail", "ovn_offload_reconcile_failing_keys"),
				loop("Objects with a wrong part", "ovn_offload_reconcile_invalid_keys"),
				timeline("Failures", "ops", Query{rate("by (job, loop) ", "ovn_offload_reconcile_failures_total", of), "{{job}} {{loop}}"}),
				timeline("Mean time of a batch", seconds, Query{mean("by (job, loop) ", "ovn_offload_reconcile_batch_duration_seconds"), "{{job}} {{loop}}"}),
			}},
			{"Databases", []Panel{
				timeline("Operations", "ops", Query{rate("by (database, op) ", "ovn_offload_ovsdb_operations_total", of), "{{database}} {{op}}"}),
				timeline("99th percentile of transactions", seconds, Query{
					"histogram_quantile(0.99, sum by (database, le) (rate(ovn_offload_ovsdb_transaction_duration_seconds_bucket" + of + every + ")))", "{{database}}",
				}),
				timeline("Refused transactions", short, Query{"sum by (database) (ovn_offload_ovsdb_fenced_total" + of + ")", "{{database}}"}),
			}},
			{"Allocation", []Panel{
				timeline("Leader", short, Query{"ovn_offload_leader", "{{node}}"}),
				timeline("Subnets", short, Query{"sum by (family, state) (ovn_offload_ipam_subnets)", "{{family}} {{state}}"}),
				timeline("Addresses in use", ratio, Query{`sum by (node, family) (ovn_offload_ipam_addresses{node=~"$node",state="used"}) / sum by (node, family) (ovn_offload_ipam_addresses` + of + ")", "{{node}} {{family}}"}),
				timeline("Addresses of networks in use", ratio, Query{
					`sum by (kind, network, family) (ovn_offload_ipam_network_addresses{state="used"}) / sum by (kind, network, family) (ovn_offload_ipam_network_addresses)`, "{{kind}} {{network}} {{family}}",
				}),
			}},
			{"Life", []Panel{
				worst("Certificates and tokens of DPUs, by time to their end", seconds, Query{"sort((ovn_offload_certificate_expiry_seconds or ovn_offload_dpu_token_expiry_seconds > 0) - time())", ""}),
				worst("Versions", short, Query{"count by (job, version) (ovn_offload_build_info)", ""}),
			}},
		},
	}
}

// mean is that of a summary's or histogram's values.
func mean(by, metric string) string {
	return rate(by, metric+"_sum", of) + " / " + rate(by, metric+"_count", of)
}

func attachment() Board {
	const duration = "ovn_offload_cni_command_duration_seconds"
	quantile := func(q string) Query {
		return Query{"histogram_quantile(" + q + `, sum by (le) (rate(` + duration + `_bucket{node=~"$node",command="ADD",result="ok"}` + every + ")))", q}
	}
	return Board{
		ID: "ovn-offload-attachment", Title: "ovn-offload / Attachment and connections",
		Text: "How pods get their network, and whether the parts of the network are connected.",
		Rows: []Row{
			{"Pods", []Panel{
				timeline("Time of CNI ADD", seconds, quantile("0.5"), quantile("0.99")),
				timeline("Mean time of the stages of ADD", seconds, Query{mean("by (stage) ", "ovn_offload_cni_add_stage_duration_seconds"), "{{stage}}"}),
				timeline("CNI commands", "ops", Query{rate("by (command, result) ", duration+"_count", of), "{{command}} {{result}}"}),
			}},
			{"Connections", []Panel{
				timeline("Databases", short, Query{"ovn_offload_ovsdb_connected" + of, "{{job}} {{node}} {{database}}"}),
				timeline("New connections to databases", short, Query{"sum by (job, database) (increase(ovn_offload_ovsdb_connections_total" + of + "[1h]))", "{{job}} {{database}}"}),
				timeline("Gateway router", short, Query{"ovn_offload_gateway_router_connected" + of, "{{node}}"}),
				timeline("Lease of the DPU: age", seconds, Query{"ovn_offload_dpu_lease_age_seconds" + of, "{{node}}"}),
				timeline("Pods that a DPU has attached", "ops", Query{rate("by (node, status) ", "ovn_offload_dpu_pod_status_total", of), "{{node}} {{status}}"}),
				timeline("Agents that answer", short, Query{`up{job=~"ovn-offload-.*",node=~"$node"}`, "{{job}} {{node}}"}),
			}},
			{"Gateway bridge", []Panel{
				timeline("Flows", short, Query{"ovn_offload_gateway_flows" + of, "{{node}}"}),
				timeline("Service ports", short, Query{"ovn_offload_gateway_node_ports" + of, "{{node}} node ports"},
					Query{"ovn_offload_gateway_external_endpoints" + of, "{{node}} external"}, Query{"ovn_offload_services_health_check_ports" + of, "{{node}} health checks"}),
				timeline("Ended connections", "ops", Query{rate("by (node) ", "ovn_offload_connections_ended_total", of), "{{node}}"}),
				timeline("Time of a check of connections", seconds, Query{"ovn_offload_connections_check_seconds" + of, "{{node}}"}),
			}},
		},
	}
}
