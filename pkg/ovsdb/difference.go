package ovsdb

import (
	"fmt"
	"reflect"

	lib "github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// content is a new row: every column that has not its default value.
func (t *table) content(e *entry) (lib.Row, error) {
	content := lib.Row{}
	value := reflect.ValueOf(e.row.Model).Elem()
	for i := range t.columns {
		c := &t.columns[i]
		field := e.field(value, c)
		if i == t.extIDs {
			field = reflect.ValueOf(e.externalIDs())
		}
		if field.IsZero() || (field.Kind() == reflect.Map || field.Kind() == reflect.Slice) && field.Len() == 0 {
			continue
		}
		if err := t.put(content, c, field); err != nil {
			return nil, err
		}
	}
	return content, nil
}

// difference is the managed columns of an entry that are not as wanted: whole
// columns, and for shared maps the keys.
func (t *table) difference(e *entry) (lib.Row, []lib.Mutation, error) {
	content := lib.Row{}
	var mutations []lib.Mutation
	want, have := reflect.ValueOf(e.row.Model).Elem(), reflect.ValueOf(e.have.model).Elem()
	for i := range t.columns {
		c := &t.columns[i]
		field, present := e.field(want, c), have.FieldByIndex(c.field)
		if !c.managed || i == t.extIDs && e.hasIDs(field, present, c.shared) {
			continue
		}
		if i == t.extIDs {
			field = reflect.ValueOf(e.externalIDs())
		}
		changes, err := t.change(content, c, field, present)
		if err != nil {
			return nil, nil, err
		}
		mutations = append(mutations, changes...)
	}
	return content, mutations, nil
}

// change puts a column that is not as wanted into content, or gives the mutations
// that make it so.
func (t *table) change(content lib.Row, c *column, want, have reflect.Value) ([]lib.Mutation, error) {
	switch {
	case c.shared:
		return mergeKeys(c.name, have.Interface().(map[string]string), want.Interface().(map[string]string)), nil
	case same(want, have):
		return nil, nil
	case c.element:
		return t.elements(c, have, want)
	case want.Kind() == reflect.Map:
		return replaceKeys(c.name, have.Interface().(map[string]string), want.Interface().(map[string]string)), nil
	}
	return nil, t.put(content, c, want)
}

// elements changes a set of values by those that it has too many or too few.
func (t *table) elements(c *column, have, want reflect.Value) ([]lib.Mutation, error) {
	var mutations []lib.Mutation
	for _, change := range []struct {
		mutator lib.Mutator
		values  reflect.Value
	}{
		{lib.MutateOperationDelete, without(have, want)},
		{lib.MutateOperationInsert, without(want, have)},
	} {
		if change.values.Len() == 0 {
			continue
		}
		value, err := lib.NativeToOvs(c.schema, change.values.Interface())
		if err != nil {
			return nil, fmt.Errorf("column %s of table %s: %w", c.name, t.name, err)
		}
		mutations = append(mutations, lib.Mutation{Column: c.name, Mutator: change.mutator, Value: value})
	}
	return mutations, nil
}

// field is the wanted value of a column.
func (e *entry) field(model reflect.Value, c *column) reflect.Value {
	field, refs := model.FieldByIndex(c.field), e.refers[c.name]
	switch {
	case !c.refers || len(refs) == 0: // a model never has references itself
		return field
	case field.Kind() != reflect.Pointer:
		return reflect.ValueOf(refs)
	}
	return reflect.ValueOf(&refs[0])
}

func (t *table) put(content lib.Row, c *column, field reflect.Value) error {
	value, err := lib.NativeToOvs(c.schema, field.Interface())
	if err != nil {
		return fmt.Errorf("column %s of table %s: %w", c.name, t.name, err)
	}
	content[c.name] = value
	return nil
}

// externalIDs is what the row's external_ids should be: the model's and ours.
func (e *entry) externalIDs() map[string]string {
	model := e.table.mapColumn(e.row.Model, e.table.extIDs)
	ids := make(map[string]string, len(model)+3)
	for key, value := range model {
		ids[key] = value
	}
	ids[OwnerKey], ids[IDKey] = e.owner, e.row.ID
	if len(e.row.Uses) > 0 {
		ids[UsesKey] = usesText(e.row.Uses)
	}
	return ids
}

// hasIDs compares external_ids without building the wanted map: the owner and
// the id are right, since it was found by them.
func (e *entry) hasIDs(want, have reflect.Value, shared bool) bool {
	w, h := want.Interface().(map[string]string), have.Interface().(map[string]string)
	ours := 2
	if len(e.row.Uses) > 0 {
		ours++
	}
	return (shared || len(h) == len(w)+ours) && h[UsesKey] == usesText(e.row.Uses) && includes(h, w)
}

// mergeKeys changes the pairs of a map that are not as wanted; "" removes a key.
// An insert leaves a present key alone, so that key is deleted first.
func mergeKeys(column string, have, want map[string]string) []lib.Mutation {
	insert, remove := map[any]any{}, []any{}
	for key, value := range want {
		old, ok := have[key]
		if old != value || ok && value == "" { // also where the replica does not know of a key yet
			remove = append(remove, key)
		}
		if value != "" && old != value {
			insert[key] = value
		}
	}
	return mapMutations(column, insert, remove)
}

func mapMutations(column string, insert map[any]any, remove []any) []lib.Mutation {
	var mutations []lib.Mutation
	if len(remove) > 0 {
		mutations = append(mutations, lib.Mutation{Column: column, Mutator: lib.MutateOperationDelete, Value: lib.OvsSet{GoSet: remove}})
	}
	if len(insert) > 0 {
		mutations = append(mutations, lib.Mutation{Column: column, Mutator: lib.MutateOperationInsert, Value: lib.OvsMap{GoMap: insert}})
	}
	return mutations
}

// replaceKeys is mergeKeys for a map that is ours alone: keys that are not wanted go.
func replaceKeys(column string, have, want map[string]string) []lib.Mutation {
	insert, remove := map[any]any{}, []any{}
	for key, old := range have {
		if value, ok := want[key]; !ok || value != old {
			remove = append(remove, key)
		}
	}
	for key, value := range want {
		if old, ok := have[key]; !ok || old != value {
			insert[key] = value
		}
	}
	return mapMutations(column, insert, remove)
}
