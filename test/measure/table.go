package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// table is written as Markdown.
type table struct{ rows [][]string }

func newTable(header ...string) *table {
	dashes := make([]string, len(header))
	for i := range dashes {
		dashes[i] = "---"
	}
	return &table{rows: [][]string{header, dashes}}
}

func (t *table) add(cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		switch value := cell.(type) {
		case time.Duration:
			row[i] = milliseconds(value)
		case float64:
			row[i] = fmt.Sprintf("%.1f", value)
		default:
			row[i] = fmt.Sprint(value)
		}
	}
	t.rows = append(t.rows, row)
}

func (t *table) print() {
	for _, row := range t.rows {
		fmt.Println("| " + strings.Join(row, " | ") + " |")
	}
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}

// addQuantiles adds median, p99 (of few samples: the largest), and their number.
func (t *table) addQuantiles(name string, samples []time.Duration) {
	if len(samples) == 0 {
		t.add(name, "-", "-", "-", 0)
		return
	}
	t.add(name, quantile(samples, 0.5), quantile(samples, 0.9), quantile(samples, 0.99), len(samples))
}

func newQuantiles(what string) *table { return newTable(what, "median", "p90", "p99", "samples") }

// quantile is the nearest rank.
func quantile(samples []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(samples))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
