package offload

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// tableTimeout bounds what a scrape waits for ovs-vswitchd.
const tableTimeout = 2 * time.Second

// Tables is a prometheus.Collector of how full the datapath's tables are. It asks at each scrape, and gives no series
// for a table that does not answer.
type Tables struct {
	sw   Switch
	proc string

	limit, used *prometheus.Desc
}

// NewTables takes the directory in which the kernel counts the connections of the node, /proc/sys/net/netfilter.
func NewTables(sw Switch, proc string) *Tables {
	return &Tables{
		sw: sw, proc: proc,
		limit: prometheus.NewDesc("ovn_offload_flow_limit", "Most entries of a table: dp: datapath flows, ct: connections.", []string{"table"}, nil),
		used:  prometheus.NewDesc("ovn_offload_flow_table_used_ratio", "Part of the limit that is used, 0 to 1.", []string{"table"}, nil),
	}
}

// Describe is for the registry.
func (t *Tables) Describe(ch chan<- *prometheus.Desc) { ch <- t.limit; ch <- t.used }

// Collect is for the registry.
func (t *Tables) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), tableTimeout)
	defer cancel()
	for table, read := range map[string]func(context.Context) (entries, limit float64, err error){"dp": t.flows, "ct": t.connections} {
		entries, limit, err := read(ctx)
		if err != nil || limit <= 0 {
			continue
		}
		ch <- prometheus.MustNewConstMetric(t.limit, prometheus.GaugeValue, limit, table)
		ch <- prometheus.MustNewConstMetric(t.used, prometheus.GaugeValue, entries/limit, table)
	}
}

var flowsAndLimit = regexp.MustCompile(`\(current (\d+)\).*\(limit (\d+)\)`)

// flows sums the flows of all datapaths; each has the same limit.
func (t *Tables) flows(ctx context.Context) (entries, limit float64, err error) {
	text, err := t.sw.Call(ctx, "upcall/show")
	if err != nil {
		return 0, 0, err
	}
	for _, m := range flowsAndLimit.FindAllStringSubmatch(text, -1) {
		current, _ := strconv.ParseFloat(m[1], 64) // digits
		entries += current
		limit, _ = strconv.ParseFloat(m[2], 64)
	}
	return entries, limit, nil
}

// connections are those of the userspace datapath, which tells its own, or else the kernel's.
func (t *Tables) connections(ctx context.Context) (entries, limit float64, err error) {
	if limit, err = number(t.sw.Call(ctx, "dpctl/ct-get-maxconns")); err == nil {
		entries, err = number(t.sw.Call(ctx, "dpctl/ct-get-nconns"))
		return entries, limit, err
	}
	if limit, err = t.file("nf_conntrack_max"); err != nil {
		return 0, 0, err
	}
	entries, err = t.file("nf_conntrack_count")
	return entries, limit, err
}

func (t *Tables) file(name string) (float64, error) {
	text, err := os.ReadFile(filepath.Join(t.proc, name))
	return number(string(text), err)
}

func number(text string, err error) (float64, error) {
	if err != nil {
		return 0, fmt.Errorf("reading the size of a table: %w", err)
	}
	return strconv.ParseFloat(strings.TrimSpace(text), 64)
}
