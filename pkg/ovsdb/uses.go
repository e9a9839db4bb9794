package ovsdb

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// uses has the rows that use other rows by name, and the owners that wait for a row or for the end of its use.
type uses struct {
	// users are rows by the name of the row that they use.
	users map[Name]map[*row]bool

	mu sync.Mutex
	// awaited are owners by a missing row that they need. held are owners by a stale row of theirs that is still in use.
	awaited, held map[Name]map[string]bool
	// due are owners that wait no longer.
	due map[string]bool
}

func newUses() *uses {
	return &uses{users: map[Name]map[*row]bool{}, awaited: map[Name]map[string]bool{}, held: map[Name]map[string]bool{}, due: map[string]bool{}}
}

// usesText is the value of UsesKey.
func usesText(names []Name) string {
	words := make([]string, len(names))
	for i, name := range names {
		words[i] = name.Table + "/" + name.Name
	}
	slices.Sort(words)
	return strings.Join(slices.Compact(words), " ")
}

func parseUses(text string) []Name {
	var names []Name
	for word := range strings.FieldsSeq(text) {
		table, name, _ := strings.Cut(word, "/")
		names = append(names, Name{table, name})
	}
	return names
}

// insert records the uses of a new row, and marks the owners that waited for the row.
func (u *uses) insert(w *row, ids map[string]string) {
	for _, name := range parseUses(ids[UsesKey]) {
		if u.users[name] == nil {
			u.users[name] = map[*row]bool{}
		}
		u.users[name][w] = true
	}
	if w.table.indexed {
		u.call(u.awaited, Name{w.table.name, w.table.nameOf(w.model)})
	}
}

func (u *uses) remove(w *row, ids map[string]string) {
	for _, name := range parseUses(ids[UsesKey]) {
		if delete(u.users[name], w); len(u.users[name]) == 0 {
			delete(u.users, name)
		}
	}
}

// await marks owner when a row of this name is inserted.
func (u *uses) await(name Name, owner string) { u.add(u.awaited, name, owner) }

// hold marks owner when no row uses its row any more.
func (u *uses) hold(name Name, owner string) { u.add(u.held, name, owner) }

func (u *uses) add(to map[Name]map[string]bool, name Name, owner string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if to[name] == nil {
		to[name] = map[string]bool{}
	}
	to[name][owner] = true
}

func (u *uses) call(waiting map[Name]map[string]bool, name Name) {
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.Copy(u.due, waiting[name])
	delete(waiting, name)
}

// drainDue returns the owners that wait no longer, each once.
func (u *uses) drainDue() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	for name, owners := range u.held {
		if len(u.users[name]) == 0 {
			maps.Copy(u.due, owners)
			delete(u.held, name)
		}
	}
	if len(u.due) == 0 {
		return nil
	}
	due := slices.Collect(maps.Keys(u.due))
	clear(u.due)
	return due
}
