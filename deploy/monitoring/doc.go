// Package monitoring has what an installation shows of itself: the table of all metrics, the rules that record and alert,
// and the boards. It is a package of its own, because it holds data and neither renders the chart nor counts anything.
//
// Place in the data flow:
//
//	table, rules, boards -> Files -> chart/files, docs/metrics.md (`make generate`) -> PrometheusRule, ConfigMaps
//
// Tests hold the four together. The code registers the metrics of the table and no other. Queries use metrics of the
// table, and each metric is in a query or says why not. Prometheus' own tools evaluate the rules on synthetic series,
// and in the lab each query returns data.
package monitoring
