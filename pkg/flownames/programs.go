package flownames

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/trace"
)

// Programs is a Source that runs programs of OVN.
type Programs trace.Run

// Southbound implements Source.
func (run Programs) Southbound(ctx context.Context, beginnings map[string]bool) (map[string][]trace.Row, time.Time, error) {
	found, err := rows(ctx, trace.Run(run), "sb", southbound, beginnings)
	return found, time.Time{}, err
}

// Northbound implements Source.
func (run Programs) Northbound(ctx context.Context, beginnings map[string]bool) (map[string][]trace.Row, error) {
	return rows(ctx, trace.Run(run), "nb", northbound(), beginnings)
}

// atOnce bounds the arguments of a command.
const atOnce = 400

// rows asks one database for the rows of tables whose UUIDs have one of the beginnings.
func rows(ctx context.Context, run trace.Run, database string, tables map[string]string, beginnings map[string]bool) (map[string][]trace.Row, error) {
	out := map[string][]trace.Row{}
	names := slices.Sorted(maps.Keys(tables))
	for chunk := range slices.Chunk(slices.Sorted(maps.Keys(beginnings)), atOnce) {
		command := contract.AtMember("ovn-"+database+"ctl", "--format=json")
		for _, table := range names {
			command = append(command, "--", "--if-exists", "--columns=_uuid,"+tables[table], "list", table)
			command = append(command, chunk...)
		}
		answer, err := run(ctx, database, command)
		if err != nil && strings.Contains(err.Error(), ambiguous) {
			return whole(ctx, run, database, tables, beginnings)
		}
		if err == nil {
			err = add(out, names, answer, nil)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ambiguous is what the programs say when two rows have the same beginning (ovs-vsctl(8), "list").
const ambiguous = "2 or more rows"

// whole reads all rows: the programs name no row when two have the same beginning.
func whole(ctx context.Context, run trace.Run, database string, tables map[string]string, beginnings map[string]bool) (map[string][]trace.Row, error) {
	out := map[string][]trace.Row{}
	names := slices.Sorted(maps.Keys(tables))
	command := contract.AtMember("ovn-"+database+"ctl", "--format=json")
	for _, table := range names {
		command = append(command, "--", "--columns=_uuid,"+tables[table], "list", table)
	}
	answer, err := run(ctx, database, command)
	if err == nil {
		err = add(out, names, answer, beginnings)
	}
	return out, err
}

// add takes the answers to a list of each table. With only, rows of other beginnings are left out.
func add(to map[string][]trace.Row, tables []string, answer []byte, only map[string]bool) error {
	answers, err := trace.ParseAnswers(answer)
	if err != nil {
		return err
	}
	if len(answers) != len(tables) {
		return fmt.Errorf("%d answers for %d tables of a database", len(answers), len(tables))
	}
	for i, table := range tables {
		for _, columns := range answers[i] {
			key := trace.Prefix(columns["_uuid"])
			if only == nil || only[key] {
				to[key] = append(to[key], trace.Row{Table: table, Columns: columns})
			}
		}
	}
	return nil
}
