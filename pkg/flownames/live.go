package flownames

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ovn-offload/ovn-offload/pkg/trace"
)

const (
	// readEvery is the longest rest between two readings of the Southbound while cookies are missing. It is 20 times what a reading takes if
	// that is shorter.
	readEvery = 10 * time.Second
	// keptFor is how long the index stays in memory without a question.
	keptFor = 5 * time.Minute
)

// Live is a Source in the process that has a replica of the Northbound. OVSDB finds no row by the beginning of its UUID, so
// Live reads the Southbound's tables as a whole, when it does not have a cookie, and keeps 40 bytes of a logical flow.
type Live struct {
	// Read gives columns of all rows of the Southbound's tables.
	Read func(ctx context.Context, tables map[string][]string) (map[string][]json.RawMessage, error)
	// Table gives the models of a table of the Northbound.
	Table func(name string) ([]any, error)

	misses, reads prometheus.Counter

	mu     sync.Mutex
	flows  []logicalFlow          // by key
	others map[uint32][]trace.Row // of other tables
	read   time.Time              // zero: nothing is kept
	next   time.Time              // of the next reading; failed is of the last one
	failed error
	forget *time.Timer
}

// logicalFlow is what names need of a row. hint 0: it has none.
type logicalFlow struct {
	key, hint uint32
	stage     string
}

// NewLive makes a Live that has read nothing.
func NewLive(l *Live, registry prometheus.Registerer) *Live {
	l.misses = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "ovn_offload_flow_names_misses_total", Help: "Cookies that the index of the Southbound did not have when they were asked for.",
	})
	l.reads = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "ovn_offload_flow_names_reads_total", Help: "Readings of the Southbound for the names of flows.",
	})
	registry.MustRegister(l.misses, l.reads)
	return l
}

// Southbound implements Source.
func (l *Live) Southbound(ctx context.Context, beginnings map[string]bool) (map[string][]trace.Row, time.Time, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := l.find(beginnings)
	missing := len(beginnings) - len(found)
	l.misses.Add(float64(missing))
	if missing > 0 && !time.Now().Before(l.next) {
		begun := time.Now()
		l.failed = l.readAll(ctx)
		l.next = time.Now().Add(min(20*time.Since(begun), readEvery))
		found = l.find(beginnings)
	}
	if missing > 0 && l.failed != nil {
		return nil, time.Time{}, l.failed
	}
	if l.forget != nil {
		l.forget.Stop()
	}
	l.forget = time.AfterFunc(keptFor, l.drop)
	return found, l.read, nil
}

func (l *Live) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flows, l.others, l.read, l.next = nil, nil, time.Time{}, time.Time{}
}

// readAll makes the index. Cookies of rows that are gone meanwhile are gone from it.
func (l *Live) readAll(ctx context.Context) error {
	l.reads.Inc()
	tables := map[string][]string{}
	for table, columns := range southbound {
		tables[table] = append(strings.Split(columns, ","), "_uuid")
	}
	now := time.Now()
	all, err := l.Read(ctx, tables)
	if err != nil {
		return err
	}
	flows, err := logicalFlows(all["Logical_Flow"])
	if err != nil {
		return err
	}
	others := map[uint32][]trace.Row{}
	delete(all, "Logical_Flow")
	for table, rows := range all {
		for _, text := range rows {
			row := trace.Row{Table: table}
			if err := json.Unmarshal(text, &row.Columns); err != nil {
				return fmt.Errorf("reading a row of %s: %w", table, err)
			}
			key, err := number(trace.Prefix(row.Columns["_uuid"]))
			if err != nil {
				return fmt.Errorf("reading a row of %s: %w", table, err)
			}
			others[key] = append(others[key], row)
		}
	}
	l.flows, l.others, l.read = flows, others, now
	return nil
}

// logicalFlows reads what names need of rows. There are many: generic types would take three times as long.
func logicalFlows(rows []json.RawMessage) ([]logicalFlow, error) {
	flows := make([]logicalFlow, 0, len(rows))
	stages := map[string]string{} // each once in memory
	for _, text := range rows {
		var row struct {
			UUID     [2]string          `json:"_uuid"`
			IDs      [2]json.RawMessage `json:"external_ids"`
			Pipeline string
			Table    int `json:"table_id"`
		}
		var ids [][2]string
		err := json.Unmarshal(text, &row)
		if err == nil {
			err = json.Unmarshal(row.IDs[1], &ids)
		}
		flow := logicalFlow{}
		if err == nil {
			flow.key, err = number(row.UUID[1][:min(8, len(row.UUID[1]))])
		}
		if err != nil {
			return nil, fmt.Errorf("reading a logical flow: %w", err)
		}
		stage := ""
		for _, pair := range ids {
			switch pair[0] {
			case "stage-name":
				stage = pair[1]
			case "stage-hint":
				flow.hint, _ = number(strings.TrimPrefix(pair[1], "0x")) // 0: none
			}
		}
		if stage == "" {
			stage = fmt.Sprintf("%s table %d", row.Pipeline, row.Table)
		}
		if _, ok := stages[stage]; !ok {
			stages[stage] = stage
		}
		flow.stage = stages[stage]
		flows = append(flows, flow)
	}
	slices.SortFunc(flows, func(a, b logicalFlow) int { return cmp.Compare(a.key, b.key) })
	return flows, nil
}

func number(digits string) (uint32, error) {
	n, err := strconv.ParseUint(digits, 16, 32)
	return uint32(n), err
}

// find gives the rows of the index.
func (l *Live) find(beginnings map[string]bool) map[string][]trace.Row {
	out := map[string][]trace.Row{}
	for beginning := range beginnings {
		key, err := number(beginning)
		if err != nil {
			continue
		}
		at, _ := slices.BinarySearchFunc(l.flows, key, func(f logicalFlow, key uint32) int { return cmp.Compare(f.key, key) })
		for ; at < len(l.flows) && l.flows[at].key == key; at++ {
			out[beginning] = append(out[beginning], l.flows[at].row())
		}
		out[beginning] = append(out[beginning], l.others[key]...)
		if len(out[beginning]) == 0 {
			delete(out, beginning)
		}
	}
	return out
}

// row is what the database would give.
func (f logicalFlow) row() trace.Row {
	ids := []any{[]any{"stage-name", f.stage}}
	if f.hint != 0 {
		ids = append(ids, []any{"stage-hint", fmt.Sprintf("%08x", f.hint)})
	}
	return trace.Row{Table: "Logical_Flow", Columns: map[string]any{"external_ids": []any{"map", ids}}}
}

// Northbound implements Source: it looks through the replica.
func (l *Live) Northbound(_ context.Context, beginnings map[string]bool) (map[string][]trace.Row, error) {
	out := map[string][]trace.Row{}
	if len(beginnings) == 0 {
		return out, nil
	}
	for _, table := range slices.Sorted(maps.Keys(northbound())) {
		models, err := l.Table(table)
		if err != nil {
			return nil, err
		}
		for _, model := range models {
			columns := reflect.ValueOf(model).Elem()
			id := columns.FieldByName("UUID").String()
			if len(id) < 8 || !beginnings[id[:8]] {
				continue
			}
			out[id[:8]] = append(out[id[:8]], trace.Row{Table: table, Columns: columnsOf(columns)})
		}
	}
	return out, nil
}

// columnsOf gives the texts and maps of a model as the database would.
func columnsOf(model reflect.Value) map[string]any {
	out := map[string]any{}
	for i := range model.NumField() {
		name := model.Type().Field(i).Tag.Get("ovsdb")
		switch value := model.Field(i).Interface().(type) {
		case string:
			out[name] = value
		case *string:
			if value != nil {
				out[name] = *value
			}
		case map[string]string:
			pairs := []any{}
			for _, key := range slices.Sorted(maps.Keys(value)) {
				pairs = append(pairs, []any{key, value[key]})
			}
			out[name] = []any{"map", pairs}
		}
	}
	return out
}
