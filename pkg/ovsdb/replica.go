package ovsdb

import (
	"fmt"
	"reflect"
	"slices"

	lib "github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// replica is the content of a database by the server's updates, with the indexes for planning. An update replaces
// models and never changes them, so readers may keep models.
type replica struct {
	tables map[string]*table
	types  map[reflect.Type]*table
	rows   map[string]map[string]*row // table, UUID
	owned  map[string][]*row          // by owner
	named  map[string]map[string][]*row
	in     map[string][]membership // by the UUID of the child
	uses   *uses
}

type row struct {
	table *table
	uuid  string
	model any
	owner string // "" for rows that are not ours
	id    string
}

// membership is one set column that contains a row.
type membership struct {
	table  string
	parent string // UUID
	column string
}

func newReplica(tables map[string]*table, types map[reflect.Type]*table) *replica {
	r := &replica{
		tables: tables, types: types,
		rows: map[string]map[string]*row{}, owned: map[string][]*row{},
		named: map[string]map[string][]*row{}, in: map[string][]membership{}, uses: newUses(),
	}
	for name := range tables {
		r.rows[name], r.named[name] = map[string]*row{}, map[string][]*row{}
	}
	return r
}

// changeSet is the effect of one update: the owners whose managed columns or memberships changed, and the tables in
// which rows without an owner changed.
type changeSet struct{ owners, foreign map[string]struct{} }

// apply applies one update of the server, and calls touched for every owner with a changed row.
func (r *replica) apply(updates lib.TableUpdates2, touched func(owner string)) (changeSet, error) {
	changed := changeSet{owners: map[string]struct{}{}, foreign: map[string]struct{}{}}
	note := func(row *row, managed bool) {
		switch {
		case row == nil:
			return
		case row.owner == "":
			changed.foreign[row.table.name] = struct{}{}
			return
		}
		if touched(row.owner); managed {
			changed.owners[row.owner] = struct{}{}
		}
	}
	for name, rows := range updates {
		t := r.tables[name]
		if t == nil {
			return changeSet{}, fmt.Errorf("update of table %s, which is not monitored", name)
		}
		for uuid, update := range rows {
			if err := r.applyRow(t, uuid, update, note); err != nil {
				return changeSet{}, fmt.Errorf("update of %s %s: %w", name, uuid, err)
			}
		}
	}
	// The update may have the deletion of a child before the change of its parent.
	for name, rows := range updates {
		for uuid := range rows {
			if r.rows[name][uuid] == nil {
				delete(r.in, uuid)
			}
		}
	}
	for _, owner := range r.uses.drainDue() {
		changed.owners[owner] = struct{}{}
	}
	return changed, nil
}

func (r *replica) applyRow(t *table, uuid string, update *lib.RowUpdate2, note func(*row, bool)) error {
	old := r.rows[t.name][uuid]
	content := update.Initial
	if update.Insert != nil {
		content = update.Insert
	}
	switch {
	case content != nil:
		model := reflect.New(t.typ)
		model.Elem().FieldByIndex(t.uuid).SetString(uuid)
		if _, err := t.set(model, *content, false); err != nil {
			return err
		}
		r.remove(old)
		r.insert(&row{table: t, uuid: uuid, model: model.Interface()})
		note(r.rows[t.name][uuid], true)
		return r.applyMembers(t, uuid, *content, note)
	case update.Modify != nil:
		if old == nil {
			return fmt.Errorf("it is not in the replica")
		}
		model := reflect.New(t.typ)
		model.Elem().Set(reflect.ValueOf(old.model).Elem())
		managed, err := t.set(model, *update.Modify, true)
		if err != nil {
			return err
		}
		r.remove(old)
		r.insert(&row{table: t, uuid: uuid, model: model.Interface()})
		// A change of members alone, in a row without an owner, concerns the members: applyMembers notes them.
		if old.owner != "" || !t.onlyMembers(*update.Modify) {
			note(old, managed)
			note(r.rows[t.name][uuid], managed)
		}
		return r.applyMembers(t, uuid, *update.Modify, note)
	default: // delete
		note(old, true)
		r.remove(old)
	}
	return nil
}

// onlyMembers reports whether a change is one of parent columns alone.
func (t *table) onlyMembers(content lib.Row) bool {
	for name := range content {
		if !slices.Contains(t.parents, name) {
			return false
		}
	}
	return true
}

func (r *replica) insert(w *row) {
	t := w.table
	ids := t.mapColumn(w.model, t.extIDs)
	w.owner, w.id = ids[OwnerKey], ids[IDKey]
	if t.ownerOf != nil {
		w.owner, w.id = t.ownerOf(w.model)
	}
	r.rows[t.name][w.uuid] = w
	if w.owner != "" {
		r.owned[w.owner] = append(r.owned[w.owner], w)
	}
	if t.indexed {
		name := t.nameOf(w.model)
		r.named[t.name][name] = append(r.named[t.name][name], w)
	}
	r.uses.insert(w, ids)
}

func (r *replica) remove(w *row) {
	if w == nil {
		return
	}
	t := w.table
	delete(r.rows[t.name], w.uuid)
	if w.owner != "" {
		drop(r.owned, w.owner, w)
	}
	if t.indexed {
		drop(r.named[t.name], t.nameOf(w.model), w)
	}
	r.uses.remove(w, t.mapColumn(w.model, t.extIDs))
}

// drop removes one value from a map of slices, and the key with the last value.
func drop[T comparable](m map[string][]T, key string, value T) {
	rest := slices.DeleteFunc(m[key], func(v T) bool { return v == value })
	if len(rest) == 0 {
		delete(m, key)
		return
	}
	m[key] = rest
}

// applyMembers updates memberships from the parent columns. An insert has the whole set, and a modification has the added
// and the removed members. Both toggle memberships. A changed membership is a change of the child.
func (r *replica) applyMembers(t *table, parent string, content lib.Row, note func(*row, bool)) error {
	for _, name := range t.parents {
		value, ok := content[name]
		if !ok {
			continue
		}
		children, err := uuids(value)
		if err != nil {
			return fmt.Errorf("column %s: %w", name, err)
		}
		for _, child := range children {
			m := membership{table: t.name, parent: parent, column: name}
			note(r.find(child), true)
			// The deletion of a parent does not name its children, so its memberships are dropped here.
			r.in[child] = slices.DeleteFunc(r.in[child], func(m membership) bool { return r.rows[m.table][m.parent] == nil })
			if slices.Contains(r.in[child], m) {
				drop(r.in, child, m)
			} else {
				r.in[child] = append(r.in[child], m)
			}
		}
	}
	return nil
}

// members has the models of the rows in one set column, by the name of the row with the column.
func (r *replica) members(table, column string) map[string][]any {
	models := map[string][]any{}
	for child, in := range r.in {
		for _, m := range in {
			parent := r.rows[table][m.parent]
			if m.table != table || m.column != column || parent == nil {
				continue
			}
			if w := r.find(child); w != nil {
				name := parent.table.nameOf(parent.model)
				models[name] = append(models[name], w.model)
			}
		}
	}
	return models
}

// find gives the row of a UUID, whatever its table.
func (r *replica) find(uuid string) *row {
	for _, rows := range r.rows {
		if w := rows[uuid]; w != nil {
			return w
		}
	}
	return nil
}

func uuids(value any) ([]string, error) {
	switch v := value.(type) {
	case lib.UUID:
		return []string{v.GoUUID}, nil
	case lib.OvsSet:
		out := make([]string, 0, len(v.GoSet))
		for _, element := range v.GoSet {
			uuid, ok := element.(lib.UUID)
			if !ok {
				return nil, fmt.Errorf("%T in a set of references", element)
			}
			out = append(out, uuid.GoUUID)
		}
		return out, nil
	}
	return nil, fmt.Errorf("%T where references are expected", value)
}

// parent finds the row that a Parent names, if possible one with an owner. The one row of a table without names has the
// name "".
func (r *replica) parent(p Parent) *row {
	rows := r.named[p.Table][p.Name]
	for _, w := range rows {
		if w.owner != "" {
			return w
		}
	}
	if len(rows) > 0 {
		return rows[0]
	}
	return nil
}
