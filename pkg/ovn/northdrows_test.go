package ovn

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

const northSchema = "/usr/share/ovn/ovn-nb.ovsschema" // of the northd that runs

// columnsOfNorthd are the columns of each table that the northd that runs knows.
func columnsOfNorthd(t *testing.T) map[string]map[string]any {
	t.Helper()
	text, err := os.ReadFile(northSchema)
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Tables map[string]struct{ Columns map[string]any }
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	columns := map[string]map[string]any{}
	for name, table := range schema.Tables {
		columns[name] = table.Columns
	}
	return columns
}

// tableOf is the table of each model of the Northbound database.
func tableOf(t *testing.T) map[reflect.Type]string {
	t.Helper()
	database, err := nb.FullDatabaseModel()
	if err != nil {
		t.Fatal(err)
	}
	tables := map[reflect.Type]string{}
	for table, model := range database.Types() {
		tables[model.Elem()] = table
	}
	return tables
}

// write adds rows in one transaction, with the sets that contain them and what they refer to, and waits for their flows. The
// engine does not write them: a northd of another version may lack columns, which are left out here.
func (n *northd) write(rows []ovsdb.Row) {
	n.t.Helper()
	tables, known := tableOf(n.t), columnsOfNorthd(n.t)
	ids, members := map[ovsdb.Name]string{}, map[ovsdb.Name]map[string][]string{} // of a row; of its columns
	for i, row := range rows {
		name, id := nameOf(row, tables), fmt.Sprint("@r", i)
		ids[name] = id
		for _, parent := range row.Parents {
			of := ovsdb.Name{Table: parent.Table, Name: parent.Name}
			if members[of] == nil {
				members[of] = map[string][]string{}
			}
			members[of][parent.Column] = append(members[of][parent.Column], id)
		}
	}
	args := []string{"--timeout=30", "--db=" + n.north, "--wait=sb"}
	for i, row := range rows {
		name := nameOf(row, tables)
		columns := valuesOf(row.Model)
		for column, ids := range members[name] {
			columns[column] = "[" + strings.Join(ids, ",") + "]"
		}
		delete(members, name)
		for _, to := range row.References {
			id := ids[ovsdb.Name{Table: to.Table, Name: to.Name}]
			if id == "" {
				n.t.Fatalf("row %q refers to %s %q, which is not there", row.ID, to.Table, to.Name)
			}
			columns[to.Column] = strings.TrimPrefix(columns[to.Column]+","+id, ",")
		}
		args = append(args, "--", fmt.Sprint("--id=@r", i), "create", name.Table)
		for _, column := range slices.Sorted(maps.Keys(columns)) {
			if _, ok := known[name.Table][column]; ok {
				args = append(args, column+"="+columns[column])
			}
		}
	}
	if len(members) > 0 {
		n.t.Fatalf("rows are in %v, which are not there", slices.Collect(maps.Keys(members)))
	}
	n.run("ovn-nbctl", args...)
}

// clear deletes all rows, and waits until their flows are gone: northd 23.03 never finishes when the same transaction adds
// others of the same names.
func (n *northd) clear() {
	n.t.Helper()
	known := columnsOfNorthd(n.t)
	args := []string{"--timeout=30", "--db=" + n.north, "--wait=sb"}
	for _, table := range slices.Sorted(maps.Values(tableOf(n.t))) {
		if table != nb.NBGlobalTable && known[table] != nil {
			args = append(args, "--", "--all", "destroy", table)
		}
	}
	n.run("ovn-nbctl", args...)
}

// nameOf is the name by which others refer to a row, or its id.
func nameOf(row ovsdb.Row, tables map[reflect.Type]string) ovsdb.Name {
	value := reflect.ValueOf(row.Model).Elem()
	name := ovsdb.Name{Table: tables[value.Type()], Name: row.ID}
	if field := value.FieldByName("Name"); field.IsValid() && field.Kind() == reflect.String {
		name.Name = field.String()
	}
	return name
}

// valuesOf are the columns of a row that have a value, as ovn-nbctl reads them.
func valuesOf(model any) map[string]string {
	columns, value := map[string]string{}, reflect.ValueOf(model).Elem()
	for i := range value.NumField() {
		if column := value.Type().Field(i).Tag.Get("ovsdb"); column != "_uuid" && !value.Field(i).IsZero() {
			columns[column] = valueOf(reflect.Indirect(value.Field(i)))
		}
	}
	return columns
}

func valueOf(value reflect.Value) string {
	switch value.Kind() {
	case reflect.String:
		return strconv.Quote(value.String())
	case reflect.Slice:
		var elements []string
		for i := range value.Len() {
			elements = append(elements, valueOf(value.Index(i)))
		}
		return "[" + strings.Join(elements, ",") + "]"
	case reflect.Map:
		var pairs []string
		for _, key := range value.MapKeys() {
			pairs = append(pairs, valueOf(key)+"="+valueOf(value.MapIndex(key)))
		}
		return "{" + strings.Join(pairs, ",") + "}"
	}
	return fmt.Sprint(value.Interface())
}
