package monitoring

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Board is a dashboard of Grafana.
type Board struct {
	ID, Title, Text string
	Rows            []Row
}

// Row is a heading with the panels below.
type Row struct {
	Title  string
	Panels []Panel
}

// Panel is one graph, number or table.
type Panel struct {
	Title string
	Kind  string // of Grafana
	Unit  string // of Grafana
	// Width is in Grafana's columns, of which a board has 24.
	Width   int
	Queries []Query
}

// Query is an expression with the text of its legend.
type Query struct{ Expr, Legend string }

// Kinds and units.
const (
	graph, number, table, list = "timeseries", "stat", "table", "alertlist"
	ratio, perSecond, bitrate  = "percentunit", "pps", "bps"
	seconds, short             = "s", "short"
)

// timeline is a graph of a third of the board.
func timeline(title, unit string, queries ...Query) Panel {
	return panel(title, graph, unit, 8, queries)
}

// now is one number, or one for each series.
func now(title, unit string, queries ...Query) Panel { return panel(title, number, unit, 4, queries) }

// worst is a table of the newest values.
func worst(title, unit string, queries ...Query) Panel { return panel(title, table, unit, 12, queries) }

func panel(title, kind, unit string, width int, queries []Query) Panel {
	return Panel{Title: title, Kind: kind, Unit: unit, Width: width, Queries: queries}
}

const rowHeight = 8

// JSON is the board as Grafana imports it.
func (b Board) JSON() ([]byte, error) {
	var panels []any
	y, id := 0, 0
	for _, row := range b.Rows {
		id++
		panels = append(panels, map[string]any{"id": id, "type": "row", "title": row.Title, "collapsed": false, "gridPos": position(0, y, 24, 1)})
		y++
		x := 0
		for _, p := range row.Panels {
			if x+p.Width > 24 {
				x, y = 0, y+rowHeight
			}
			id++
			panels = append(panels, p.json(id, position(x, y, p.Width, rowHeight)))
			x += p.Width
		}
		y += rowHeight
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	err := encoder.Encode(map[string]any{
		"uid": b.ID, "title": b.Title, "description": b.Text, "tags": []string{"ovn-offload"}, "schemaVersion": 39, "editable": true,
		"refresh": "30s", "time": map[string]string{"from": "now-1h", "to": "now"}, "timezone": "", "panels": panels,
		"templating": map[string]any{"list": variables()},
		"links":      []any{map[string]any{"title": "ovn-offload", "type": "dashboards", "tags": []string{"ovn-offload"}, "asDropdown": true, "includeVars": true, "keepTime": true}},
	})
	return out.Bytes(), err
}

func position(x, y, w, h int) map[string]int { return map[string]int{"x": x, "y": y, "w": w, "h": h} }

func source() map[string]string {
	return map[string]string{"type": "prometheus", "uid": "${datasource}"}
}

func (p Panel) json(id int, at map[string]int) map[string]any {
	if p.Kind == list {
		return map[string]any{"id": id, "type": p.Kind, "title": p.Title, "gridPos": at, "options": map[string]any{
			"alertInstanceLabelFilter": `{component="ovn-offload"}`, "viewMode": "list", "maxItems": 20, "sortOrder": 3,
			"stateFilter": map[string]bool{"firing": true, "pending": true},
		}}
	}
	var targets []any
	for i, q := range p.Queries {
		targets = append(targets, map[string]any{
			"refId": string(rune('A' + i)), "datasource": source(), "expr": q.Expr, "legendFormat": q.Legend,
			"instant": p.Kind != graph, "range": p.Kind == graph, "format": map[bool]string{true: "table", false: "time_series"}[p.Kind == table],
		})
	}
	defaults := map[string]any{"unit": p.Unit}
	if p.Unit == ratio {
		defaults["min"], defaults["max"] = 0, 1
	}
	out := map[string]any{
		"id": id, "type": p.Kind, "title": p.Title, "gridPos": at, "datasource": source(), "targets": targets,
		"fieldConfig": map[string]any{"defaults": defaults, "overrides": []any{}},
	}
	if needs := p.Needs(); len(needs) > 0 {
		out["description"] = "Needs " + strings.Join(needs, " and ") + "."
	}
	return out
}

// Needs are what a node must have for the panel's metrics.
func (p Panel) Needs() []string {
	var all []string
	for _, q := range p.Queries {
		for _, need := range Needs(q.Expr) {
			if !strings.Contains(strings.Join(all, " "), need) {
				all = append(all, need)
			}
		}
	}
	return all
}

// variables are the choices above each board.
func variables() []any {
	labels := func(name, title, query string) map[string]any {
		return map[string]any{
			"name": name, "label": title, "type": "query", "datasource": source(), "refresh": 2, "sort": 1,
			"multi": true, "includeAll": true, "allValue": ".*", "current": map[string]any{"text": "All", "value": "$__all"},
			"definition": query, "query": map[string]string{"query": query, "refId": name},
		}
	}
	return []any{
		map[string]any{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
		labels("node", "Node", "label_values(ovn_offload_build_info, node)"),
		labels("namespace", "Namespace", "label_values(ovn_offload_namespace_packets_total, namespace)"),
	}
}

// Files are what the chart has of this package, by path in the chart.
func Files() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, b := range Boards() {
		text, err := b.JSON()
		if err != nil {
			return nil, fmt.Errorf("board %s: %w", b.ID, err)
		}
		files["files/dashboards/"+strings.TrimPrefix(b.ID, "ovn-offload-")+".json"] = text
	}
	rules, err := Rules()
	files["files/rules.yaml"] = rules
	return files, err
}
