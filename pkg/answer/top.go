package answer

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// Top lists where the most packets are.
type Top struct {
	Header
	By string `json:"by"`
	// Nodes are those that have answered.
	Nodes int      `json:"nodes"`
	Total TopRow   `json:"total"`
	Rows  []TopRow `json:"rows"`
}

// TopRow is the traffic of one pod, node or reason. Packets are those of Seconds, or of the flows that live.
type TopRow struct {
	Name    string        `json:"name"`
	Node    string        `json:"node,omitempty"`
	Traffic offload.Share `json:"traffic"`
	// Rate is packets a second; absent while nothing was measured twice.
	Rate *float64 `json:"packetsPerSecond,omitempty"`
	// Bits is bits a second: of what is counted between two dumps, and not of streams, whose flows say only how many packets they have
	// a second. TC counts bytes without the Ethernet header.
	Bits *float64 `json:"bitsPerSecond,omitempty"`
	// Because is why most of it is outside hardware.
	Because string `json:"because,omitempty"`
	Drops   uint64 `json:"drops,omitempty"`
}

// TopBy are what Top lists by.
func TopBy() []string { return []string{"pod", "node", "reason", "stream", "svc", "policy"} }

// NewTop adds up the summaries of nodes. Outside leaves out what is in hardware as a whole.
func NewTop(s *snapshot.Snapshot, by string, summaries []*flowapi.Summary, missing []string, outside bool) *Top {
	t := &Top{Header: header("Top", s), By: by, Nodes: len(summaries), Rows: []TopRow{}}
	t.missed(missing)
	rows := map[string]*TopRow{}
	for _, summary := range summaries {
		t.Total.add(summary.Total, summary.Seconds)
		if !summary.Taken.IsZero() && (t.Measured.IsZero() || summary.Taken.Before(t.Measured)) {
			t.Measured = summary.Taken
		}
		switch by {
		case "node":
			row := &TopRow{Name: summary.Node}
			row.add(summary.Total, summary.Seconds)
			if len(summary.Outside) > 0 {
				row.Because = becauseOf(flowapi.Placed{Reason: summary.Outside[0].Reason, Detail: summary.Outside[0].Detail})
			}
			rows[summary.Node] = row
		case "reason":
			for _, cause := range summary.Outside {
				row := rows[string(cause.Reason)]
				if row == nil {
					row = &TopRow{Name: string(cause.Reason)}
					rows[row.Name] = row
				}
				row.add(offload.Share{OVS: cause.Count}, summary.Seconds)
			}
		case "pod":
			for _, pod := range summary.Pods {
				row := &TopRow{Name: pod.Namespace + "/" + pod.Name, Node: summary.Node, Drops: pod.Drops.Packets}
				row.add(pod.Traffic, summary.Seconds)
				if pod.Reason != "" {
					row.Because = becauseOf(flowapi.Placed{Reason: pod.Reason, Detail: pod.Detail})
				}
				rows[row.Name] = row
			}
		}
	}
	for _, row := range rows {
		t.keep(*row, outside)
	}
	if t.Next = "kubectl offload status"; t.Total.Traffic.Sum().Packets > 0 {
		t.Next = topNodes
	}
	t.sort()
	return t
}

func (r *TopRow) add(traffic offload.Share, seconds float64) {
	r.Traffic.Add(traffic)
	if seconds <= 0 {
		return
	}
	sum := traffic.Sum()
	r.Rate, r.Bits = plus(r.Rate, float64(sum.Packets)/seconds), plus(r.Bits, 8*float64(sum.Bytes)/seconds)
}

// plus adds to a number that may be not known yet.
func plus(a *float64, b float64) *float64 {
	if a != nil {
		b += *a
	}
	return &b
}

func (t *Top) keep(row TopRow, outside bool) {
	if sum := row.Traffic.Sum(); sum.Packets > 0 && (!outside || row.Traffic.Hardware.Packets < sum.Packets) {
		t.Rows = append(t.Rows, row)
	}
}

// sort has the most packets outside hardware first, then the most packets.
func (t *Top) sort() {
	slices.SortFunc(t.Rows, func(a, b TopRow) int {
		x, y := a.Traffic.Sum().Packets, b.Traffic.Sum().Packets
		return cmp.Or(cmp.Compare(y-b.Traffic.Hardware.Packets, x-a.Traffic.Hardware.Packets), cmp.Compare(y, x), cmp.Compare(a.Name, b.Name))
	})
	if len(t.Rows) > 0 {
		t.Next = next(t.By, t.Rows[0])
	}
}

// In has the next command read what is in a namespace alone; "": in all. Users may read the flows of one, and no node.
func (t *Top) In(namespace string) *Top {
	switch {
	case namespace == "":
	case len(t.Rows) == 0:
		t.Next = inNamespace("kubectl offload flows", namespace)
	case t.By == "node":
		t.Next = inNamespace("kubectl offload flows --node "+t.Rows[0].Name, namespace)
	case t.By == "reason":
		t.Next = inNamespace(t.Next, namespace)
	}
	return t
}

// topNodes has a row of any traffic.
const topNodes = "kubectl offload top --by node"

// next leads from a row further.
func next(by string, row TopRow) string {
	switch by {
	case "reason":
		return "kubectl offload flows --reason " + row.Name
	case "pod", "node":
		return "kubectl offload explain " + by + "/" + row.Name
	case "stream":
		return explainEnd(strings.Fields(row.Name)...)
	}
	return "kubectl offload explain " + row.Name
}

// inNamespace is a command that reads what is in a namespace; "": in all.
func inNamespace(command, namespace string) string {
	if namespace == "" {
		return command
	}
	return command + " -n " + namespace
}

// explainEnd is the command that explains the first end of a stream that is an object.
func explainEnd(ends ...string) string {
	for _, end := range ends {
		if kind, _, _ := strings.Cut(end, "/"); kind == "pod" || kind == "svc" || kind == "node" {
			return "kubectl offload explain " + end
		}
	}
	return topNodes
}

// Text implements Answer.
func (t *Top) Text(p *Page) {
	p.Line("%s answered: %s of the packets in hardware, %s packets/s, %s Mb/s", plural(t.Nodes, "node"), percent(t.Total.Traffic), number(t.Total.Rate), megabits(t.Total.Bits))
	if len(t.Rows) == 0 {
		p.Line("no traffic")
		return
	}
	rows := [][]string{{strings.ToUpper(t.By), "NODE", "PACKETS", "PACKETS/S", "Mb/s", "HARDWARE", "DROPPED", "BECAUSE"}}
	for _, r := range t.Rows {
		rows = append(rows, []string{
			r.Name, cmp.Or(r.Node, "-"), strconv.FormatUint(r.Traffic.Sum().Packets, 10), number(r.Rate), megabits(r.Bits), percent(r.Traffic),
			strconv.FormatUint(r.Drops, 10), cmp.Or(r.Because, "-"),
		})
	}
	p.Names(rows)
}

func percent(share offload.Share) string {
	ratio, ok := share.Ratio()
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*ratio)
}

func number(rate *float64) string {
	if rate == nil {
		return "-"
	}
	return strconv.FormatFloat(*rate, 'f', 0, 64)
}

func megabits(bits *float64) string {
	if bits == nil {
		return "-"
	}
	return strconv.FormatFloat(*bits/1e6, 'f', 1, 64)
}
