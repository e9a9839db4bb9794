// Package fieldstest holds the rule that fields of JSON are only added, so that programs of neighbouring releases understand each
// other.
//
// Place in the data flow:
//
//	types of an answer -> Fields -> golden file of a test
package fieldstest

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Fields are those of a type in JSON, as "Type.field.field kind", also of the types of its fields.
func Fields(of ...any) []string {
	found := map[string]bool{}
	for _, value := range of {
		t := reflect.TypeOf(value)
		walk(t, t.Name(), found, nil)
	}
	var out []string
	for line := range found {
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

func walk(t reflect.Type, path string, found map[string]bool, above []reflect.Type) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || slices.Contains(above, t) {
		return
	}
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported() && !field.Anonymous:
		case name == "" && field.Anonymous:
			walk(field.Type, path, found, append(slices.Clone(above), t))
		default:
			if name == "" {
				name = field.Name
			}
			found[path+"."+name+" "+kind(field.Type)] = true
			walk(field.Type, path+"."+name, found, append(slices.Clone(above), t))
		}
	}
}

// kind is that of a field in JSON.
func kind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return kind(t.Elem())
	case reflect.Slice, reflect.Array:
		return "list"
	case reflect.Bool:
		return "bool"
	case reflect.String:
		return "string"
	case reflect.Map, reflect.Struct:
		return "object"
	default:
		return "number"
	}
}

// Check compares with the fields of a file. Those that vanished, or have another kind, are an error, also with update, which adds
// new ones.
func Check(t *testing.T, path string, update bool, of ...any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !update {
		t.Fatal(err)
	}
	now, known := Fields(of...), strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
	for _, line := range known {
		if !slices.Contains(now, line) {
			t.Errorf("%s: %q is gone: former releases read it. Fields are only added", path, line)
		}
	}
	for _, line := range now {
		if !slices.Contains(known, line) && !update {
			t.Errorf("%s: %q is new: add it with -update", path, line)
		}
	}
	if update && !t.Failed() {
		if err := os.WriteFile(path, []byte(strings.Join(now, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
