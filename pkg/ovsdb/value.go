package ovsdb

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	lib "github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// set writes the columns of a row into a model: whole values, or with diff the
// changes as update2 notifications have them (ovsdb-server(7)). It reports
// whether a managed column was among them.
func (t *table) set(model reflect.Value, content lib.Row, diff bool) (managed bool, err error) {
	for i := range t.columns {
		c := &t.columns[i]
		value, ok := content[c.name]
		if !ok {
			continue
		}
		native, err := lib.OvsToNative(c.schema, value)
		if err != nil {
			return managed, fmt.Errorf("column %s: %w", c.name, err)
		}
		managed = managed || c.managed
		field := model.Elem().FieldByIndex(c.field)
		fresh := reflect.ValueOf(native)
		if diff {
			fresh = patch(field, fresh)
		}
		if !fresh.Type().ConvertibleTo(field.Type()) {
			return managed, fmt.Errorf("column %s: a %s where the model has a %s", c.name, fresh.Type(), field.Type())
		}
		field.Set(fresh.Convert(field.Type()))
	}
	return managed, nil
}

// patch applies a difference to a value and returns a new one: elements of a
// set toggle; a pair of a map is removed where it is the same, else written;
// anything else is replaced.
func patch(old, diff reflect.Value) reflect.Value {
	switch diff.Kind() {
	case reflect.Slice:
		out := reflect.MakeSlice(old.Type(), 0, old.Len()+diff.Len())
		for i := range old.Len() {
			if !contains(diff, old.Index(i)) {
				out = reflect.Append(out, old.Index(i))
			}
		}
		for i := range diff.Len() {
			if !contains(old, diff.Index(i)) {
				out = reflect.Append(out, diff.Index(i))
			}
		}
		return out
	case reflect.Map:
		if pairs, ok := diff.Interface().(map[string]string); ok {
			return reflect.ValueOf(patchPairs(old.Interface().(map[string]string), pairs))
		}
		out := reflect.MakeMapWithSize(diff.Type(), old.Len()+diff.Len())
		for iter := old.MapRange(); iter.Next(); {
			out.SetMapIndex(iter.Key(), iter.Value())
		}
		for iter := diff.MapRange(); iter.Next(); {
			if have := out.MapIndex(iter.Key()); have.IsValid() && have.Equal(iter.Value()) {
				out.SetMapIndex(iter.Key(), reflect.Value{})
			} else {
				out.SetMapIndex(iter.Key(), iter.Value())
			}
		}
		return out
	}
	return diff
}

// patchPairs is patch for the maps that may be large: a node's variables are.
func patchPairs(old, diff map[string]string) map[string]string {
	out := maps.Clone(old)
	if out == nil {
		out = map[string]string{}
	}
	for key, value := range diff {
		if have, ok := out[key]; ok && have == value {
			delete(out, key)
		} else {
			out[key] = value
		}
	}
	return out
}

func contains(set, element reflect.Value) bool {
	for i := range set.Len() {
		if set.Index(i).Equal(element) {
			return true
		}
	}
	return false
}

// without is the elements of a set that another has not.
func without(set, other reflect.Value) reflect.Value {
	present := make(map[any]struct{}, other.Len())
	for i := range other.Len() {
		present[other.Index(i).Interface()] = struct{}{}
	}
	rest := reflect.MakeSlice(set.Type(), 0, 0)
	for i := range set.Len() {
		if _, ok := present[set.Index(i).Interface()]; !ok {
			rest = reflect.Append(rest, set.Index(i))
		}
	}
	return rest
}

// same compares the values of one column; nil and empty are the same, and sets
// have no order.
func same(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Map:
		return sameMap(a.Interface(), b.Interface())
	case reflect.Slice:
		return sameSet(a, b)
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() == b.IsNil()
		}
		return a.Elem().Equal(b.Elem())
	}
	return a.Equal(b)
}

func sameMap(a, b any) bool {
	if x, ok := a.(map[string]string); ok {
		y := b.(map[string]string)
		return len(x) == len(y) && includes(y, x)
	}
	return reflect.ValueOf(a).Len() == 0 && reflect.ValueOf(b).Len() == 0 || reflect.DeepEqual(a, b)
}

// includes reports whether have has every pair of want.
func includes(have, want map[string]string) bool {
	for key, value := range want {
		if got, ok := have[key]; !ok || got != value {
			return false
		}
	}
	return true
}

func sameSet(a, b reflect.Value) bool {
	if a.Len() != b.Len() {
		return false
	}
	x, isStrings := a.Interface().([]string)
	if !isStrings {
		for i := range a.Len() {
			if !contains(b, a.Index(i)) {
				return false
			}
		}
		return true
	}
	y := b.Interface().([]string)
	if slices.Equal(x, y) {
		return true
	}
	x, y = slices.Clone(x), slices.Clone(y)
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}
