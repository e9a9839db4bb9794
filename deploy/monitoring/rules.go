package monitoring

import (
	"slices"

	"sigs.k8s.io/yaml"
)

// Runbooks is where the pages of alerts are, which the chart can replace.
const Runbooks = "https://github.com/ovn-offload/ovn-offload/blob/main/docs/failures/"

// Alert is a rule that alerts. Two alerts of one name differ in their severity.
type Alert struct {
	Name     string
	Severity string // info, warning or critical
	For      string
	Expr     string
	// Summary is one line. Do is what a person does first, mostly a command. Both may name labels, as in {{ $labels.node }}.
	Summary, Do string
	// Page is the runbook, a file of docs/failures.
	Page string
}

// Record is a rule that records.
type Record struct{ Name, Expr string }

// Records are the shares in hardware.
func Records() []Record {
	ratio := func(by, metric string) string {
		return "sum " + by + "(rate(" + metric + `{place="hardware"}[5m])) / sum ` + by + "(rate(" + metric + "[5m]))"
	}
	const node, namespace = "ovn_offload_datapath_packets_total", "ovn_offload_namespace_packets_total"
	return []Record{
		{"node:ovn_offload_hardware:ratio_rate5m", ratio("by (node) ", node)},
		{"namespace:ovn_offload_hardware:ratio_rate5m", ratio("by (namespace) ", namespace)},
		{"cluster:ovn_offload_hardware:ratio_rate5m", ratio("", node)},
	}
}

// Alerts are all alerts, those of traffic first.
func Alerts() []Alert {
	return slices.Concat(offloadAlerts(), deviceAlerts(), processAlerts(), podAlerts(), planAlerts())
}

const (
	critical = "critical"
	warning  = "warning"
	note     = "info"
)

func offloadAlerts() []Alert {
	return []Alert{
		{
			Name: "OffloadShareLow", Severity: warning, For: "15m", Page: "offload-share.md",
			Expr: "node:ovn_offload_hardware:ratio_rate5m < 0.8 and on (node) sum by (node) (rate(ovn_offload_outside_packets_total[5m])) > 100000" +
				" and on (node) ovn_offload_hw_offload_in_force == 1",
			Summary: "Node {{ $labels.node }} has {{ $value | humanizePercentage }} of its packets in hardware.",
			Do:      "kubectl get nodeoffload {{ $labels.node }} -o yaml: the field traffic has the pods and the reasons",
		},
		{
			Name: "OffloadShareFell", Severity: warning, For: "10m", Page: "offload-share.md",
			Expr: "avg_over_time(node:ovn_offload_hardware:ratio_rate5m[1d] offset 1h) - node:ovn_offload_hardware:ratio_rate5m > 0.1" +
				" and on (node) sum by (node) (rate(ovn_offload_datapath_packets_total[5m])) > 1000",
			Summary: "The share of packets in hardware on node {{ $labels.node }} is {{ $value | humanizePercentage }} less than on the day before.",
			Do:      "kubectl get nodeoffload {{ $labels.node }} -o yaml: compare the reasons with what was changed: an upgrade, a policy, the NIC's firmware",
		},
		{
			Name: "OffloadOff", Severity: warning, For: "10m", Page: "offload-off.md",
			Expr:    `sum by (node) (ovn_offload_offloadpolicy_devices{state="Applied"}) > 0 and on (node) ovn_offload_hw_offload_wanted == 0`,
			Summary: "An OffloadPolicy is applied on node {{ $labels.node }}, and hw-offload is not set in OVS.",
			Do:      "kubectl get nodeoffload {{ $labels.node }} -o yaml: the fields offload and reason",
		},
		{
			Name: "RestartDue", Severity: warning, For: "10m", Page: "offload-off.md",
			Expr:    "ovn_offload_hw_offload_wanted == 1 and on (node) ovn_offload_hw_offload_in_force == 0",
			Summary: "hw-offload is set on node {{ $labels.node }}, and the running ovs-vswitchd began without it.",
			Do:      "kubectl -n ovn-kubernetes get pods -l app=ovs-node --field-selector spec.nodeName={{ $labels.node }}: restart ovs-vswitchd there",
		},
		{
			Name: "FlowTableFull", Severity: critical, For: "5m", Page: "flow-table-full.md",
			Expr:    "ovn_offload_flow_table_used_ratio > 0.9",
			Summary: "Table {{ $labels.table }} of node {{ $labels.node }} is {{ $value | humanizePercentage }} full.",
			Do:      "kubectl get pods -A -o wide --field-selector spec.nodeName={{ $labels.node }}: find what opens so many connections on the node",
		},
	}
}

func deviceAlerts() []Alert {
	return []Alert{
		{
			Name: "OffloadPolicyFails", Severity: warning, For: "10m", Page: "policy-refused.md",
			Expr:    `sum by (node, state) (ovn_offload_offloadpolicy_devices{state=~"Refused|Conflict|Failed"}) > 0`,
			Summary: "{{ $value }} NICs of node {{ $labels.node }} are not as an OffloadPolicy says: {{ $labels.state }}.",
			Do:      "kubectl get nodeoffload {{ $labels.node }} -o jsonpath='{.status.policies}'",
		},
		{
			Name: "VFsExhausted", Severity: warning, For: "15m", Page: "no-vfs.md",
			Expr:    `sum by (resource) (ovn_offload_devices{state="free"}) == 0 and sum by (resource) (ovn_offload_devices{state="claimed"}) > 0`,
			Summary: "No node has a free VF of {{ $labels.resource }}: the next pod that requests one stays Pending.",
			Do:      "kubectl get nodeoffloads",
		},
		{
			Name: "VFUnhealthy", Severity: warning, For: "2m", Page: "no-vfs.md",
			Expr:    `ovn_offload_devices{state="unhealthy"} > 0`,
			Summary: "{{ $value }} VFs of {{ $labels.resource }} on node {{ $labels.node }} are unhealthy.",
			Do:      "kubectl get nodeoffload {{ $labels.node }} -o yaml: each VF with a problem has it in the field problem",
		},
		{
			Name: "DPUAway", Severity: warning, For: "1m", Page: "DPUNotReady.md",
			Expr:    "ovn_offload_dpu_lease_age_seconds > 40 < 300",
			Summary: "The DPU of node {{ $labels.node }} has not reported for {{ $value | humanizeDuration }}.",
			Do:      "kubectl -n ovn-kubernetes get lease -o wide; kubectl describe node {{ $labels.node }}: the Event DPUNotReady has the reason",
		},
		{
			Name: "DPUAway", Severity: critical, For: "1m", Page: "DPUNotReady.md",
			Expr:    "ovn_offload_dpu_lease_age_seconds >= 300",
			Summary: "The DPU of node {{ $labels.node }} has not reported for {{ $value | humanizeDuration }}: pods of the node have no network.",
			Do:      "kubectl describe node {{ $labels.node }}: the Event DPUNotReady has the reason",
		},
	}
}

func processAlerts() []Alert {
	return []Alert{
		{
			Name: "AgentDown", Severity: critical, For: "5m", Page: "agent-not-ready.md",
			Expr:    `up{job="ovn-offload-agent"} == 0`,
			Summary: "The agent of node {{ $labels.node }} does not answer: new pods of the node do not start.",
			Do:      "kubectl -n ovn-kubernetes get pods -l app=ovnkube-node --field-selector spec.nodeName={{ $labels.node }}",
		},
		{
			Name: "ControllerDown", Severity: critical, For: "5m", Page: "control-plane-down.md",
			Expr:    `absent(up{job="ovn-offload-controller"} == 1)`,
			Summary: "No controller answers: new pods do not start, and changes of policies and services wait.",
			Do:      "kubectl -n ovn-kubernetes get pods -l app=ovnkube-master -o wide",
		},
		{
			Name: "ControllerNotLeading", Severity: critical, For: "2m", Page: "control-plane-down.md",
			Expr:    "absent(ovn_offload_leader == 1)",
			Summary: "No controller leads: new pods do not start, and changes of policies and services wait.",
			Do:      "kubectl -n ovn-kubernetes get lease ovn-kubernetes-master; kubectl -n ovn-kubernetes logs deploy/ovnkube-master -c ovn-offload-controller",
		},
		{
			Name: "DatabaseAway", Severity: critical, For: "1m", Page: "control-plane-down.md",
			Expr:    "ovn_offload_ovsdb_connected == 0",
			Summary: "The {{ $labels.job }} on node {{ $labels.node }} is disconnected from the database {{ $labels.database }}.",
			Do:      "kubectl -n ovn-kubernetes get pods -o wide: ovnkube-db for OVN_Northbound, ovs-node of the node for Open_vSwitch",
		},
		{
			Name: "OwnersFailing", Severity: warning, For: "10m", Page: "owners-failing.md",
			Expr:    "ovn_offload_reconcile_failing_keys > 0",
			Summary: "{{ $value }} objects of loop {{ $labels.loop }} fail in the {{ $labels.job }} on node {{ $labels.node }}.",
			Do:      "kubectl get events -A --field-selector type=Warning",
		},
		{
			Name: "OwnersWaiting", Severity: warning, For: "30m", Page: "owners-failing.md",
			Expr:    "ovn_offload_reconcile_waiting_keys > 0",
			Summary: "{{ $value }} objects of loop {{ $labels.loop }} wait in the {{ $labels.job }} on node {{ $labels.node }}.",
			Do:      "kubectl -n ovn-kubernetes logs deploy/ovnkube-master -c ovn-offload-controller, at log level debug: the log names the missing fact",
		},
	}
}

func podAlerts() []Alert {
	return []Alert{
		{
			Name: "GatewayRouterAway", Severity: critical, For: "1m", Page: "gateway-router.md",
			Expr:    "ovn_offload_gateway_router_connected == 0",
			Summary: "Pods of node {{ $labels.node }} do not reach external addresses: the gateway router is not on the bridge.",
			Do:      "kubectl -n ovn-kubernetes logs -c ovn-controller -l app=ovnkube-node --prefix",
		},
		{
			Name: "CNIAddSlow", Severity: warning, For: "10m", Page: "slow-pods.md",
			Expr:    `histogram_quantile(0.99, sum by (node, le) (rate(ovn_offload_cni_command_duration_seconds_bucket{command="ADD",result="ok"}[10m]))) > 2`,
			Summary: "One of a hundred pods on node {{ $labels.node }} waits more than {{ $value | humanizeDuration }} for its network.",
			Do:      "the board Attachment and connections has the stages; kubectl -n ovn-kubernetes get pods -o wide",
		},
		{
			Name: "CNIAddFails", Severity: warning, For: "10m", Page: "slow-pods.md",
			Expr: `sum by (node) (rate(ovn_offload_cni_command_duration_seconds_count{command="ADD",result="error"}[10m]))` +
				` / sum by (node) (rate(ovn_offload_cni_command_duration_seconds_count{command="ADD"}[10m])) > 0.01`,
			Summary: "{{ $value | humanizePercentage }} of the attempts to give a pod of node {{ $labels.node }} its network fail.",
			Do:      "kubectl get events -A --field-selector reason=FailedCreatePodSandBox: the code of the error has a page",
		},
	}
}

func planAlerts() []Alert {
	const remaining = "ovn_offload_certificate_expiry_seconds - time()"
	return []Alert{
		{
			Name: "DPUTokenExpires", Severity: warning, For: "1h", Page: "DPUTokenExpires.md",
			Expr:    "(ovn_offload_dpu_token_expiry_seconds > 0) - time() < 30 * 86400",
			Summary: "The token of the DPU of node {{ $labels.node }} ends in {{ $value | humanizeDuration }} and was not renewed.",
			Do:      "kubectl describe node {{ $labels.node }}: the Event DPUTokenExpires has the reason",
		},
		{
			Name: "CertificateExpires", Severity: warning, For: "1h", Page: "certificate-expires.md",
			Expr:    `ovn_offload_certificate_expiry_seconds{certificate="chassis"} - time() < 7 * 86400 >= 2 * 86400 or ovn_offload_certificate_expiry_seconds{certificate!="chassis"} - time() < 30 * 86400 >= 2 * 86400`,
			Summary: "Certificate {{ $labels.certificate }} of node {{ $labels.node }} ends in {{ $value | humanizeDuration }} and was not renewed.",
			Do:      "kubectl -n ovn-kubernetes logs deploy/ovnkube-identity",
		},
		{
			Name: "CertificateExpires", Severity: critical, For: "10m", Page: "certificate-expires.md",
			Expr:    remaining + " < 2 * 86400",
			Summary: "Certificate {{ $labels.certificate }} of node {{ $labels.node }} ends in {{ $value | humanizeDuration }}: then its connections end.",
			Do:      "kubectl -n ovn-kubernetes logs deploy/ovnkube-identity",
		},
		{
			Name: "VersionSkew", Severity: note, For: "2h", Page: "version-skew.md",
			Expr:    "count(count by (version) (ovn_offload_build_info)) > 1",
			Summary: "{{ $value }} versions of ovn-offload run at once: an upgrade has not ended.",
			Do:      "kubectl -n ovn-kubernetes rollout status daemonset/ovnkube-node",
		},
		{
			Name: "SubnetsRunOut", Severity: warning, For: "10m", Page: "addresses-run-out.md",
			Expr:    `sum by (family) (ovn_offload_ipam_subnets{state="used"}) / sum by (family) (ovn_offload_ipam_subnets) > 0.9`,
			Summary: "{{ $value | humanizePercentage }} of the {{ $labels.family }} subnets for nodes are in use.",
			Do:      "kubectl get nodes; kubectl -n ovn-kubernetes get configmap ovn-config -o jsonpath='{.data.net_cidr}'",
		},
		{
			Name: "AddressesRunOut", Severity: warning, For: "10m", Page: "addresses-run-out.md",
			Expr:    `sum by (node, family) (ovn_offload_ipam_addresses{state="used"}) / sum by (node, family) (ovn_offload_ipam_addresses) > 0.9`,
			Summary: "{{ $value | humanizePercentage }} of the {{ $labels.family }} addresses of node {{ $labels.node }} are in use.",
			Do:      "kubectl get pods -A --field-selector spec.nodeName={{ $labels.node }}",
		},
		{
			Name: "NetworkAddressesRunOut", Severity: warning, For: "10m", Page: "addresses-run-out.md",
			Expr:    `sum by (kind, network, family) (ovn_offload_ipam_network_addresses{state="used"}) / sum by (kind, network, family) (ovn_offload_ipam_network_addresses) > 0.9`,
			Summary: "{{ $value | humanizePercentage }} of the {{ $labels.family }} addresses of {{ $labels.kind }} {{ $labels.network }} are in use.",
			Do:      "kubectl get network-attachment-definitions,namespacesubnets -A",
		},
	}
}

// Rules is the file of rules, as Prometheus reads it and as a PrometheusRule has it.
func Rules() ([]byte, error) {
	var records, alerts []map[string]any
	for _, r := range Records() {
		records = append(records, map[string]any{"record": r.Name, "expr": r.Expr})
	}
	for _, a := range Alerts() {
		alerts = append(alerts, map[string]any{
			"alert": a.Name, "expr": a.Expr, "for": a.For,
			"labels":      map[string]string{"severity": a.Severity, "component": "ovn-offload"},
			"annotations": map[string]string{"summary": a.Summary, "description": a.Summary + " Do: " + a.Do, "runbook_url": Runbooks + a.Page},
		})
	}
	return yaml.Marshal(map[string]any{"groups": []map[string]any{
		{"name": "ovn-offload-records", "rules": records}, {"name": "ovn-offload-alerts", "rules": alerts},
	}})
}
