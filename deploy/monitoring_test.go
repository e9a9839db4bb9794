package deploy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/ovn-offload/ovn-offload/deploy/monitoring"
)

const operatorKinds = "monitoring.coreos.com/v1"

// monitoringObjects are those of the chart on a cluster with further kinds, by kind and name.
func monitoringObjects(t *testing.T, text string, kinds ...string) map[string]map[string]any {
	t.Helper()
	c, err := Chart()
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := render(c, with(t, text), kinds...)
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]map[string]any{}
	for document := range strings.SplitSeq(rendered["85-monitoring.yaml"], "\n---\n") {
		var object map[string]any
		if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
			t.Fatalf("%v in %s", err, document)
		}
		if object != nil {
			objects[fmt.Sprint(object["kind"], " ", get(object, "metadata", "name"))] = object
		}
	}
	return objects
}

// get follows names of fields and numbers of items.
func get(value any, path ...any) any {
	for _, step := range path {
		switch at := value.(type) {
		case map[string]any:
			value = at[fmt.Sprint(step)]
		case []any:
			value = at[step.(int)]
		}
	}
	return value
}

// TestMonitoring_OnlyWhereAsked: where the cluster has the operator's kinds, or values ask.
func TestMonitoring_OnlyWhereAsked(t *testing.T) {
	const boards, dpus = "attachment control-plane node overview pods", "controlPlane: {enabled: false}\ndpus: {enabled: true}\n" +
		"network: {podCIDRs: [10.244.0.0/16/24], serviceCIDRs: [10.96.0.0/12]}\nmonitoring: {prometheusRule: never, dashboards: never, podMonitors: always"
	everything := "ClusterRoleBinding ovn-offload-metrics"
	for board := range strings.FieldsSeq(boards) {
		everything += " ConfigMap ovn-offload-dashboard-" + board
	}
	everything += " PodMonitor ovn-offload-agent PodMonitor ovn-offload-controller PodMonitor ovn-offload-identity" +
		" PrometheusRule ovn-offload Secret ovn-offload-metrics ServiceAccount ovn-offload-metrics"
	for _, tc := range []struct{ values, kinds, want string }{
		{"", "", ""},
		{"", operatorKinds, everything},
		{"monitoring: {podMonitors: always, prometheusRule: always, dashboards: always}", "", everything},
		{"monitoring: {podMonitors: never, dashboards: never}", operatorKinds, "PrometheusRule ovn-offload"},
		{"monitoring: {podMonitors: never, prometheusRule: never, dashboards: never}", operatorKinds, ""},
		{"monitoring: {tokenSecret: mine, prometheusRule: never, dashboards: never}", operatorKinds,
			"PodMonitor ovn-offload-agent PodMonitor ovn-offload-controller PodMonitor ovn-offload-identity"},
		{dpus + "}", "", ""}, // tokens are of the hosts' cluster
		{dpus + ", tokenSecret: copied}", "", "PodMonitor ovn-offload-agent"},
	} {
		objects := monitoringObjects(t, tc.values, strings.Fields(tc.kinds)...)
		if got := strings.Join(slices.Sorted(maps.Keys(objects)), " "); got != tc.want {
			t.Errorf("%s on a cluster with %q:\n%s, want\n%s", tc.values, tc.kinds, got, tc.want)
		}
	}
	for _, text := range []string{"monitoring: {podMonitors: true}", "metrics: {perPod: some}", "monitoring: {interval: often}"} {
		if _, err := Render(with(t, text)); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}

// TestPodMonitors_SelectEachPodWithMetrics, and ask with the token of the account that the chart makes.
func TestPodMonitors_SelectEachPodWithMetrics(t *testing.T) {
	const values = "dpuHosts: {enabled: true}\ndpus: {enabled: true}\nmonitoring: {labels: {release: mine}, interval: 10s}"
	monitored := map[string]string{}
	for name, object := range monitoringObjects(t, values, operatorKinds) {
		if !strings.HasPrefix(name, "PodMonitor ") {
			continue
		}
		endpoint := get(object, "spec", "podMetricsEndpoints", 0)
		if get(object, "metadata", "labels", "release") != "mine" || get(endpoint, "interval") != "10s" || get(endpoint, "port") != "metrics" ||
			get(endpoint, "scheme") != "https" || get(endpoint, "honorLabels") != true ||
			get(endpoint, "authorization", "credentials", "name") != "ovn-offload-metrics" || get(endpoint, "authorization", "credentials", "key") != "token" {
			t.Errorf("%s: %v", name, object)
		}
		for _, app := range get(object, "spec", "selector", "matchExpressions", 0, "values").([]any) {
			monitored[app.(string)] = name
		}
	}
	objects, err := decode(renderAll(t, with(t, "dpuHosts: {enabled: true}\ndpus: {enabled: true}")))
	if err != nil {
		t.Fatal(err)
	}
	check := func(app string, spec corev1.PodSpec) {
		has := slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool {
			return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == "metrics" })
		})
		if has != (monitored[app] != "") {
			t.Errorf("pods of %s have metrics: %v, monitored by %q", app, has, monitored[app])
		}
	}
	each(objects, func(d *appsv1.Deployment) { check(d.Spec.Template.Labels["app"], d.Spec.Template.Spec) })
	each(objects, func(d *appsv1.DaemonSet) { check(d.Spec.Template.Labels["app"], d.Spec.Template.Spec) })
	if len(monitored) != 5 {
		t.Errorf("monitored: %v", monitored)
	}
}

// TestPrometheusRule_HasAlertsWithRunbooks: all but the disabled ones, with the pages where values say.
func TestPrometheusRule_HasAlertsWithRunbooks(t *testing.T) {
	const values = "monitoring: {disabledAlerts: [OwnersWaiting, DPUAway], runbooks: 'https://wiki.example/net/'}"
	rule := monitoringObjects(t, values, operatorKinds)["PrometheusRule ovn-offload"]
	var names []string
	for _, r := range get(rule, "spec", "groups", 1, "rules").([]any) {
		names = append(names, get(r, "alert").(string))
		if page, _ := get(r, "annotations", "runbook_url").(string); !strings.HasPrefix(page, "https://wiki.example/net/") || !strings.HasSuffix(page, ".md") {
			t.Errorf("%v: runbook %s", get(r, "alert"), page)
		}
		if strings.Contains(fmt.Sprint(get(r, "annotations", "summary")), "<no value>") {
			t.Errorf("%v: Helm has replaced what is Prometheus' own", r)
		}
	}
	want := 0
	for _, a := range monitoring.Alerts() {
		if a.Name != "OwnersWaiting" && a.Name != "DPUAway" {
			want++
		}
	}
	if len(names) != want || slices.Contains(names, "DPUAway") || slices.Contains(names, "OwnersWaiting") {
		t.Errorf("%d alerts, want %d: %s", len(names), want, names)
	}
	if got := len(get(rule, "spec", "groups", 0, "rules").([]any)); got != len(monitoring.Records()) {
		t.Errorf("%d records", got)
	}
}
