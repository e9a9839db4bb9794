package ovsdb

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/model"
	lib "github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// Schema has the tables and columns of a database that we use, and the columns that we share with other clients.
type Schema struct {
	// Model has the tables and columns that we use.
	Model model.ClientDBModel
	// Probe is the table that has a row as soon as the database is set up. No commit is planned before.
	Probe string
	// Parents names, for each table, the set columns that hold children. They
	// are changed by mutation only and are not part of the table's models.
	Parents map[string][]string
	// References names, for each table, the set columns that refer to rows of
	// other owners: a row says which by their names (Row.References).
	References map[string][]string
	// Used are the tables whose rows others name in texts (Row.Uses), or refer to while no other row holds them.
	Used []string
	// Unmanaged names, for each table, the columns that others write: they are
	// read, never compared or written.
	Unmanaged map[string][]string
	// Shared names, for each table, the map columns into which others write
	// keys of their own: only the keys that we want are compared and written.
	Shared map[string][]string
	// OwnerOf gives the owner of a row from its unique index, for a table without external_ids. The owner "" means that
	// the row is not ours.
	OwnerOf map[string]func(model any) (owner, id string)
	// Elements names, for each table, the set columns that may be large: transactions have the added and removed
	// elements and not the whole set.
	Elements map[string][]string
}

// table describes one table of the connected server.
type table struct {
	name    string
	typ     reflect.Type
	uuid    []int
	root    bool
	columns []column // those of the model that are not parent columns, sorted by name
	parents []string
	strong  map[string]bool // the parent columns that contain their children
	indexed bool            // its rows are found by their names
	named   int             // position in columns of the one that names a row, or -1
	extIDs  int             // position in columns of external_ids, or -1
	ownerOf func(model any) (owner, id string)
}

type column struct {
	name    string
	field   []int
	schema  *lib.ColumnSchema
	managed bool
	shared  bool
	refers  bool
	element bool
}

// tables checks the model against the server's schema. A column or table that
// the server lacks is an error that names it.
func (s Schema) tables(server lib.DatabaseSchema) (map[string]*table, map[reflect.Type]*table, error) {
	if _, errs := model.NewDatabaseModel(server, s.Model); len(errs) > 0 {
		return nil, nil, fmt.Errorf("database %s version %s: %v", server.Name, server.Version, errs)
	}
	byName, byType := map[string]*table{}, map[reflect.Type]*table{}
	for name, typ := range s.Model.Types() {
		t := newTable(name, typ.Elem(), server.Tables[name])
		t.parents = s.Parents[name]
		t.strong = map[string]bool{}
		for _, parent := range t.parents {
			ref, err := server.Tables[name].Columns[parent].TypeObj.Key.RefType()
			t.strong[parent] = err == nil && ref == lib.Strong
		}
		t.columns = slices.DeleteFunc(t.columns, func(c column) bool { return slices.Contains(t.parents, c.name) })
		for i := range t.columns {
			c := &t.columns[i]
			c.managed = !slices.Contains(s.Unmanaged[name], c.name)
			c.shared = slices.Contains(s.Shared[name], c.name)
			c.refers = slices.Contains(s.References[name], c.name)
			c.element = slices.Contains(s.Elements[name], c.name)
		}
		t.named = t.index("name")
		t.indexed = t.parents != nil || slices.Contains(s.Used, name)
		t.extIDs = t.index("external_ids")
		t.ownerOf = s.OwnerOf[name]
		byName[name], byType[typ.Elem()] = t, t
	}
	return byName, byType, nil
}

func newTable(name string, typ reflect.Type, server lib.TableSchema) *table {
	t := &table{name: name, typ: typ, root: server.IsRoot}
	for i := range typ.NumField() {
		field := typ.Field(i)
		tag := field.Tag.Get("ovsdb")
		if tag == "_uuid" {
			t.uuid = field.Index
			continue
		}
		t.columns = append(t.columns, column{name: tag, field: field.Index, schema: server.Columns[tag]})
	}
	return t
}

// index is the position of a column, or -1.
func (t *table) index(name string) int {
	return slices.IndexFunc(t.columns, func(c column) bool { return c.name == name })
}

// mapColumn is the value of a map column of a model.
func (t *table) mapColumn(model any, i int) map[string]string {
	if i < 0 {
		return nil
	}
	m, _ := reflect.ValueOf(model).Elem().FieldByIndex(t.columns[i].field).Interface().(map[string]string)
	return m
}

// nameOf is the name of a model's row; in a table without names, what external_ids have as NameKey, mostly "".
func (t *table) nameOf(model any) string {
	if t.named < 0 {
		return t.mapColumn(model, t.extIDs)[NameKey]
	}
	return reflect.ValueOf(model).Elem().FieldByIndex(t.columns[t.named].field).String()
}
