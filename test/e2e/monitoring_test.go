//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/deploy/monitoring"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

const (
	// seriesOfNode is the most that a node may have by default, those of Prometheus about the scrape included.
	seriesOfNode = 200
	// seriesOfTraffic are those that a node with a NIC has in addition: TestMetrics_SeriesOfNode of pkg/offload, and a
	// link for each of up to four uplinks.
	seriesOfTraffic = 40
	// scrapes is how long Prometheus takes for the rates of one minute.
	scrapes = 3 * time.Minute
)

// TestMonitoring_EachQueryReturnsData: a Prometheus with the configuration of docs/monitoring.md finds and scrapes each
// process with a token. Each query of a board and each metric of an alert has data then, but for those that need a NIC, a
// DPU or another setting, and a node has no more series than promised.
func TestMonitoring_EachQueryReturnsData(t *testing.T) {
	world.Test(t, world.Tools)
	tier.Full(t, "it waits for the rates of a minute")
	onlyInLab(t, "Prometheus runs on the machine of the test")
	p := startPrometheus(t)
	world.Eventually(t, world.Soon, "all processes answer", func() (bool, string) {
		jobs, err := p.query(`count by (job) (up{job=~"ovn-offload-.*"} == 1)`)
		silent, _ := p.query(`up == 0`)
		return len(jobs) == 3 && len(silent) == 0, fmt.Sprint(jobs, silent, err)
	})
	ns := world.Namespace(t)
	for i := range 3 {
		world.Run(t, world.Pod(ns, fmt.Sprint("p", i), nodes[1]))
	}
	world.Eventually(t, scrapes, "the rates of the last minute", func() (bool, string) {
		series, err := p.query(`sum(rate(ovn_offload_cni_command_duration_seconds_count{command="ADD",node="` + nodes[1] + `"}[1m])) > 0`)
		return len(series) > 0, fmt.Sprint(series, err)
	})
	t.Run("boards", func(t *testing.T) { checkBoards(t, p) })
	t.Run("alerts", func(t *testing.T) { checkAlerts(t, p) })
	t.Run("labels", func(t *testing.T) { checkLabels(t, p) })
	t.Run("series", func(t *testing.T) { checkSeries(t, p) })
	if series, err := p.query("ovn_offload_nothing_of_the_kind"); err != nil || len(series) > 0 {
		t.Errorf("the control, a metric that does not exist: %v, %v", series, err)
	}
}

// variables are those of boards: all nodes and namespaces, and the time of four scrapes.
var variables = strings.NewReplacer("$node", ".*", "$namespace", ".*", "$__rate_interval", "1m")

func checkBoards(t *testing.T, p *scraper) {
	asked, empty := 0, []string{}
	for _, board := range monitoring.Boards() {
		for _, row := range board.Rows {
			for _, panel := range row.Panels {
				for _, q := range panel.Queries {
					asked++
					series, err := p.query(variables.Replace(q.Expr))
					needs := monitoring.Needs(q.Expr)
					switch {
					case err != nil:
						t.Errorf("%s: %s: %s: %v", board.Title, panel.Title, q.Expr, err)
					case len(series) == 0 && len(needs) == 0:
						t.Errorf("%s: %s: no data for %s", board.Title, panel.Title, q.Expr)
					case len(series) == 0:
						empty = append(empty, fmt.Sprintf("%s (needs %s)", panel.Title, strings.Join(needs, ", ")))
					}
				}
			}
		}
	}
	t.Logf("%d queries, %d of them of what no node of the lab has: %s", asked, len(empty), empty)
	if asked < 60 || len(empty) > asked/2 {
		t.Errorf("%d queries, %d without data", asked, len(empty))
	}
}

// selector is a metric of an expression with its labels.
var selector = regexp.MustCompile(`\b(up|(?:[a-z]+:)?ovn_offload_[a-z0-9_:]+)(\{[^}]*\})?`)

func checkAlerts(t *testing.T, p *scraper) {
	asked := 0
	for _, alert := range monitoring.Alerts() {
		needs := monitoring.Needs(alert.Expr)
		for _, metric := range selector.FindAllString(alert.Expr, -1) {
			asked++
			if series, err := p.query(metric); err != nil || len(series) == 0 && len(needs) == 0 {
				t.Errorf("%s: %s has no series, %v", alert.Name, metric, err)
			}
		}
	}
	if asked < len(monitoring.Alerts()) {
		t.Errorf("%d metrics of %d alerts", asked, len(monitoring.Alerts()))
	}
	firing, err := p.query(`ALERTS{component="ovn-offload",severity="critical",alertstate="firing"}`)
	if err != nil {
		t.Error(err)
	}
	t.Logf("critical alerts, while other tests stop components: %v", firing)
}

// checkLabels compares what is scraped with the table of metrics.
func checkLabels(t *testing.T, p *scraper) {
	table := map[string]monitoring.Metric{}
	for _, m := range monitoring.Metrics() {
		table[m.Name] = m
	}
	seen := map[string]bool{}
	for _, series := range p.series(t, `{job=~"ovn-offload-.*",__name__=~"ovn_offload_.*"}`) {
		name := monitoring.Names(series["__name__"])[0]
		metric, ok := table[name]
		if !ok {
			t.Errorf("%s is not in the table", series["__name__"])
			continue
		}
		seen[name] = true
		var labels []string
		for _, label := range slices.Sorted(maps.Keys(series)) {
			if !slices.Contains([]string{"__name__", "job", "instance", "le"}, label) && (label != "node" || slices.Contains(metric.Labels, label)) {
				labels = append(labels, label)
			}
		}
		want := slices.Sorted(slices.Values(metric.Labels))
		if label := "zone"; slices.Contains(labels, label) && !slices.Contains(want, label) { // of a controller with several zones
			labels = slices.DeleteFunc(labels, func(l string) bool { return l == label })
		}
		if !slices.Equal(labels, want) {
			t.Errorf("%s has the labels %s, in the table %s", name, labels, want)
		}
	}
	for _, m := range monitoring.Metrics() {
		if !seen[m.Name] && m.Needs == "" {
			t.Errorf("no process has %s", m.Name)
		}
	}
}

func checkSeries(t *testing.T, p *scraper) {
	for _, node := range nodes {
		selector := `{node="` + node + `",job="ovn-offload-agent"}`
		if node != nodes[0] { // the control plane has other processes as well
			selector = `{node="` + node + `",__name__!~"ALERTS.*"}`
		}
		all := p.series(t, selector)
		n := len(all)
		t.Logf("%d series of %s, and %d of a NIC's traffic", n, node, seriesOfTraffic)
		if n+seriesOfTraffic > seriesOfNode || n < seriesOfNode/4 {
			t.Errorf("%d series of %s and %d of a NIC's traffic, at most %d: %v", n, node, seriesOfTraffic, seriesOfNode, countByName(all))
		}
	}
}

func countByName(series []map[string]string) map[string]int {
	counts := map[string]int{}
	for _, labels := range series {
		counts[labels["__name__"]]++
	}
	return counts
}

// query gives the series of an expression now, each with its labels and its value.
func (p *scraper) query(expr string) (series []string, err error) {
	var answer struct {
		Result []struct {
			Metric map[string]string
			Value  []any
		}
	}
	if err := p.decode("/api/v1/query?query="+url.QueryEscape(expr), &answer); err != nil {
		return nil, err
	}
	for _, r := range answer.Result {
		series = append(series, fmt.Sprint(r.Metric, r.Value[1]))
	}
	return series, nil
}

// series gives the labels of all series of the last five minutes that a selector has.
func (p *scraper) series(t *testing.T, selector string) (all []map[string]string) {
	t.Helper()
	if err := p.decode("/api/v1/series?match[]="+url.QueryEscape(selector), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// decode decodes the data of an answer of Prometheus.
func (p *scraper) decode(path string, into any) error {
	text, err := p.read(path)
	if err != nil {
		return err
	}
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("%w: %s", err, text)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", path, answer.Error)
	}
	return json.Unmarshal(answer.Data, into)
}
