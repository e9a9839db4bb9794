package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Row is a row of the Northbound database that logical flows were made from.
type Row struct {
	Table string
	// Columns are those that Columns lists, as ovn-nbctl prints them in JSON.
	Columns map[string]any
}

// Tables are those whose rows decide about packets, with the columns that say how.
func Tables() map[string][]string {
	return map[string][]string{
		"ACL":                         {"external_ids", "action", "direction", "match"},
		"Load_Balancer":               {"external_ids", "name"},
		"Logical_Router_Policy":       {"external_ids", "action", "nexthops"},
		"Logical_Router_Static_Route": {"external_ids", "ip_prefix", "nexthop"},
		"NAT":                         {"external_ids", "type", "external_ip", "logical_ip"},
	}
}

// HintsCommand asks the Southbound database which Northbound rows the flows of a path were made from.
func HintsCommand(p Path) []string {
	args := []string{"--if-exists", "--format=json", "--columns=_uuid,external_ids", "list", "Logical_Flow"}
	var seen []string
	for _, f := range p.Flows {
		if !slices.Contains(seen, f.UUID) {
			seen = append(seen, f.UUID)
		}
	}
	return append(args, seen...)
}

// RowsCommand asks the Northbound database for the rows among hints, of all Tables at once.
func RowsCommand(hints map[string]string) []string {
	rows := slices.Compact(slices.Sorted(maps.Values(hints)))
	args := []string{"--format=json"}
	tables := Tables()
	for _, table := range slices.Sorted(maps.Keys(tables)) {
		args = append(args, "--", "--if-exists", "--columns=_uuid,"+strings.Join(tables[table], ","), "list", table)
		args = append(args, rows...)
	}
	return args
}

// Hints reads the answer to HintsCommand: the first digits of a Northbound row's UUID, by those of a flow.
func Hints(answer []byte) (map[string]string, error) {
	rows, err := ParseRows(answer)
	if err != nil {
		return nil, err
	}
	hints := map[string]string{}
	for _, row := range rows {
		if hint := strings.TrimPrefix(MapOf(row["external_ids"])["stage-hint"], "0x"); hint != "" {
			hints[Prefix(row["_uuid"])] = hint
		}
	}
	return hints, nil
}

// Rows reads the answer to RowsCommand: the rows by the first digits of their UUIDs.
func Rows(answer []byte) (map[string]Row, error) {
	found, err := ParseRows(answer)
	if err != nil {
		return nil, err
	}
	rows := map[string]Row{}
	for _, columns := range found {
		rows[Prefix(columns["_uuid"])] = Row{tableOf(columns), columns}
	}
	return rows, nil
}

// tableOf tells the table by its columns: ovn-nbctl prints nothing for a table of which it finds no row.
func tableOf(row map[string]any) string {
	for table, columns := range Tables() {
		if !slices.ContainsFunc(columns, func(column string) bool { _, has := row[column]; return !has }) {
			return table
		}
	}
	return ""
}

// ParseRows reads the format json of ovn-nbctl and ovn-sbctl (ovs-vsctl(8)), of one command.
func ParseRows(answer []byte) ([]map[string]any, error) {
	all, err := ParseAnswers(answer)
	return slices.Concat(all...), err
}

// ParseAnswers is ParseRows for the answers of several commands.
func ParseAnswers(answer []byte) ([][]map[string]any, error) {
	var all [][]map[string]any
	for decoder := json.NewDecoder(bytes.NewReader(answer)); ; {
		var table struct {
			Headings []string
			Data     [][]any
		}
		err := decoder.Decode(&table)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading rows of a database: %w", err)
		}
		var rows []map[string]any
		for _, cells := range table.Data {
			row := map[string]any{}
			for i, heading := range table.Headings {
				row[heading] = cells[i]
			}
			rows = append(rows, row)
		}
		all = append(all, rows)
	}
}

// Prefix gives the first eight digits of ["uuid", "..."].
func Prefix(value any) string {
	if pair, ok := value.([]any); ok && len(pair) == 2 {
		if id, ok := pair[1].(string); ok && len(id) >= 8 {
			return id[:8]
		}
	}
	return ""
}

// MapOf reads ["map", [[key, value], ...]] (RFC 7047, section 5.1).
func MapOf(value any) map[string]string {
	out := map[string]string{}
	pair, ok := value.([]any)
	if !ok || len(pair) != 2 {
		return out
	}
	entries, _ := pair[1].([]any)
	for _, entry := range entries {
		if kv, ok := entry.([]any); ok && len(kv) == 2 {
			key, _ := kv[0].(string)
			out[key], _ = kv[1].(string)
		}
	}
	return out
}
