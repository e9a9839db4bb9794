package monitoring

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// promtool runs Prometheus' own tool.
func promtool(t *testing.T, args ...string) (string, error) {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("no promtool on this machine (Debian package prometheus)")
	}
	out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput()
	return string(out), err
}

func TestRules_ArePrometheusRules(t *testing.T) {
	if out, err := promtool(t, "check", "rules", "../chart/files/rules.yaml"); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	wrong := file(t, "groups: [{name: a, rules: [{alert: A, expr: 'rate(b)'}]}]")
	if out, err := promtool(t, "check", "rules", wrong); err == nil {
		t.Errorf("a rate without a range: %s", out)
	}
}

// TestBoards_QueriesAreExpressions, with the variables of Grafana replaced.
func TestBoards_QueriesAreExpressions(t *testing.T) {
	variables := strings.NewReplacer("$node", "n1", "$namespace", "shop", "$__rate_interval", "1m")
	var rules []map[string]any
	for _, all := range expressions() {
		for _, expr := range all {
			rules = append(rules, map[string]any{"record": fmt.Sprint("query:", len(rules)), "expr": variables.Replace(expr)})
		}
	}
	text, err := yaml.Marshal(map[string]any{"groups": []map[string]any{{"name": "queries", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := promtool(t, "check", "rules", "--lint=none", file(t, string(text))); err != nil || len(rules) < 60 {
		t.Errorf("%d queries, %v: %s", len(rules), err, out)
	}
}

// TestConfiguration_IsPrometheus: Debian builds Prometheus without Kubernetes, so the list of targets is another one.
func TestConfiguration_IsPrometheus(t *testing.T) {
	text, err := os.ReadFile("prometheus.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	for _, job := range config["scrape_configs"].([]any) {
		if job.(map[string]any)["kubernetes_sd_configs"] == nil {
			t.Errorf("without Kubernetes: %v", job)
		}
		delete(job.(map[string]any), "kubernetes_sd_configs")
	}
	if text, err = yaml.Marshal(config); err != nil {
		t.Fatal(err)
	}
	if out, err := promtool(t, "check", "config", "--syntax-only", file(t, string(text))); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// episode is synthetic series, of a sample a minute, in which an alert is quiet, fires and is quiet again. In values, "1x10"
// repeats a value, and "+9x10" grows by 9 each minute.
type episode struct {
	alert, severity    string
	series             map[string]string
	quiet, fires, over string
}

// states are the series of a state that is good for an hour, bad for three, and good again.
func states(good, bad string, names ...string) map[string]string {
	series := map[string]string{}
	for _, name := range names {
		series[name] = good + "x59 " + bad + "x179 " + good + "x299"
	}
	return series
}

// during fires two and a half hours after the bad state began.
func during(alert, severity string, series map[string]string) episode {
	return episode{alert, severity, series, "55m", "3h30m", "8h"}
}

func join(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, series := range all {
		for name, values := range series {
			out[name] = values
		}
	}
	return out
}

// counts are counters that grow by good a minute for an hour, by bad for three hours, and by good again.
func counts(name string, good, bad int) map[string]string {
	return map[string]string{name: fmt.Sprintf("0+%dx59 %d+%dx179 %d+%dx299", good, 60*good, bad, 60*good+180*bad, good)}
}

func episodes() []episode {
	const hardware, tc = `ovn_offload_datapath_packets_total{node="n1",place="hardware"}`, `ovn_offload_datapath_packets_total{node="n1",place="tc"}`
	const refused = `ovn_offload_outside_packets_total{node="n1",reason="refused"}`
	const million = 60_000_000 // of packets a minute
	shares := join(counts(hardware, million, million/10), counts(tc, 0, million), counts(refused, 0, million), states("1", "1", `ovn_offload_hw_offload_in_force{node="n1"}`))
	on := func(metric, labels string) string { return metric + `{node="n1"` + labels + `}` }
	cni := func(le string) string {
		return `ovn_offload_cni_command_duration_seconds_bucket{node="n1",command="ADD",result="ok",le="` + le + `"}`
	}
	const cniCount = `ovn_offload_cni_command_duration_seconds_count{node="n1",command="ADD",result="`
	devices := func(state string) string {
		return on("ovn_offload_devices", `,resource="ovn-offload.io/vf",state="`+state+`"`)
	}
	policy := on("ovn_offload_offloadpolicy_devices", `,state="Applied"`)
	return []episode{
		during("OffloadShareLow", warning, shares),
		{"OffloadShareFell", warning, map[string]string{
			hardware: fmt.Sprintf("0+%dx1799 %d+%dx59 %d+%dx599", million, 1800*million, million/2, 1830*million, million),
			tc:       fmt.Sprintf("0+0x1799 0+%dx59 %d+0x599", million/2, 30*million),
		}, "29h", "30h45m", "36h"},
		during("OffloadOff", warning, join(states("1", "1", policy), states("1", "0", on("ovn_offload_hw_offload_wanted", "")))),
		during("RestartDue", warning, join(states("1", "1", on("ovn_offload_hw_offload_wanted", "")), states("1", "0", on("ovn_offload_hw_offload_in_force", "")))),
		during("FlowTableFull", critical, states("0.2", "0.95", on("ovn_offload_flow_table_used_ratio", `,table="ct"`))),
		during("OffloadPolicyFails", warning, states("0", "1", on("ovn_offload_offloadpolicy_devices", `,state="Refused"`))),
		during("VFsExhausted", warning, join(states("1", "0", devices("free")), states("7", "8", devices("claimed")))),
		during("VFUnhealthy", warning, states("0", "2", devices("unhealthy"))),
		during("DPUAway", warning, states("5", "60", on("ovn_offload_dpu_lease_age_seconds", ""))),
		during("DPUAway", critical, states("5", "400", on("ovn_offload_dpu_lease_age_seconds", ""))),
		during("AgentDown", critical, states("1", "0", on("up", `,job="ovn-offload-agent"`))),
		during("ControllerDown", critical, states("1", "_", on("up", `,job="ovn-offload-controller"`))),
		during("ControllerNotLeading", critical, states("1", "0", on("ovn_offload_leader", ""))),
		during("DatabaseAway", critical, states("1", "0", on("ovn_offload_ovsdb_connected", `,database="OVN_Northbound"`))),
		during("OwnersFailing", warning, states("0", "3", on("ovn_offload_reconcile_failing_keys", `,loop="rows"`))),
		during("OwnersWaiting", warning, states("0", "3", on("ovn_offload_reconcile_waiting_keys", `,loop="rows"`))),
		during("GatewayRouterAway", critical, states("1", "0", on("ovn_offload_gateway_router_connected", ""))),
		during("CNIAddSlow", warning, join(counts(cni("1"), 60, 0), counts(cni("2"), 60, 0), counts(cni("10"), 60, 60), counts(cni("+Inf"), 60, 60))),
		during("CNIAddFails", warning, join(counts(cniCount+`ok"}`, 60, 60), counts(cniCount+`error"}`, 0, 6))),
		during("DPUTokenExpires", warning, states("9000000", "2000000", on("ovn_offload_dpu_token_expiry_seconds", ""))),
		during("CertificateExpires", warning, states("9000000", "2000000", on("ovn_offload_certificate_expiry_seconds", `,certificate="ovn-nb-server"`))),
		during("CertificateExpires", warning, states("2000000", "500000", on("ovn_offload_certificate_expiry_seconds", `,certificate="chassis"`))),
		during("CertificateExpires", warning, states("9000000", "500000", on("ovn_offload_certificate_expiry_seconds", `,certificate="ovn-nb-server"`))),
		during("CertificateExpires", critical, states("9000000", "100000", on("ovn_offload_certificate_expiry_seconds", `,certificate="ovn-nb-server"`))),
		during("VersionSkew", note, join(states("1", "1", on("ovn_offload_build_info", `,version="v1"`)), states("_", "1", `ovn_offload_build_info{node="n2",version="v2"}`))),
		during("SubnetsRunOut", warning, join(states("100", "240", `ovn_offload_ipam_subnets{family="IPv4",state="used"}`), states("156", "16", `ovn_offload_ipam_subnets{family="IPv4",state="free"}`))),
		during("AddressesRunOut", warning, join(states("20", "240", on("ovn_offload_ipam_addresses", `,family="IPv4",state="used"`)), states("231", "11", on("ovn_offload_ipam_addresses", `,family="IPv4",state="free"`)))),
		during("NetworkAddressesRunOut", warning, join(states("20", "240", on("ovn_offload_ipam_network_addresses", `,kind="Network",network="red",family="IPv4",state="used"`)),
			states("231", "11", on("ovn_offload_ipam_network_addresses", `,kind="Network",network="red",family="IPv4",state="free"`)))),
	}
}

// test is an episode as promtool reads it.
func (e episode) test() map[string]any {
	var series, checks []map[string]any
	for name, values := range e.series {
		series = append(series, map[string]any{"series": name, "values": values})
	}
	expr := fmt.Sprintf(`count(ALERTS{alertname="%s",alertstate="firing",severity="%s",component="ovn-offload"}) or vector(0)`, e.alert, e.severity)
	for at, firing := range map[string]int{e.quiet: 0, e.fires: 1, e.over: 0} {
		checks = append(checks, map[string]any{"expr": expr, "eval_time": at, "exp_samples": []map[string]any{{"labels": "{}", "value": firing}}})
	}
	return map[string]any{"name": e.alert, "interval": "1m", "input_series": series, "promql_expr_test": checks}
}

// run gives what promtool says of episodes.
func run(t *testing.T, all []episode) (string, error) {
	t.Helper()
	var tests []map[string]any
	for _, e := range all {
		tests = append(tests, e.test())
	}
	rules, err := filepath.Abs("../chart/files/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(map[string]any{"rule_files": []string{rules}, "evaluation_interval": "5m", "tests": tests})
	if err != nil {
		t.Fatal(err)
	}
	return promtool(t, "test", "rules", file(t, string(text)))
}

// TestAlerts_FireAndResolve on synthetic series.
func TestAlerts_FireAndResolve(t *testing.T) {
	all := episodes()
	for _, a := range Alerts() {
		if !slices.ContainsFunc(all, func(e episode) bool { return e.alert == a.Name && e.severity == a.Severity }) {
			t.Errorf("no episode in which %s (%s) fires", a.Name, a.Severity)
		}
	}
	if out, err := run(t, all); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// TestAlerts_EpisodeWithoutCauseFails is the negative control: where nothing is wrong, the test says that the alert has not
// fired.
func TestAlerts_EpisodeWithoutCauseFails(t *testing.T) {
	e := during("DatabaseAway", critical, states("1", "1", `ovn_offload_ovsdb_connected{node="n1",database="OVN_Northbound"}`))
	if out, err := run(t, []episode{e}); err == nil || !strings.Contains(out, e.alert) {
		t.Errorf("%v: %s", err, out)
	}
}
