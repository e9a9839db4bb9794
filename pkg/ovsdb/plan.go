package ovsdb

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	lib "github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// ErrNoParent is wrapped by the error of an owner whose row needs a row that neither the database nor the commit has: as
// its parent, as a reference, or in Row.Uses. OnChange reports the owner when the needed row is inserted.
var ErrNoParent = errors.New("no such parent row")

// Change is one row that a commit changed.
type Change struct {
	Owner, Table, ID string
	Op               string // insert, update or delete
}

// plan is the difference between what owners want and what a replica holds.
type plan struct {
	ops     []lib.Operation
	changes []Change
	failed  map[string]error // owners whose wants cannot be committed
	held    []string         // owners of stale rows that are in use
}

// entry is one wanted row with its present row, if any.
type entry struct {
	owner string
	row   *Row
	table *table
	have  *row
	ref   string // UUID, or the name of a new row in the transaction
	// refers has the wanted values of reference columns, as UUIDs or names of new rows.
	refers map[string][]string
}

// planner collects the operations of one plan.
type planner struct {
	*replica
	plan
	entries  []*entry
	stale    []*row
	named    map[Parent]*entry // rows of this plan that may be parents; Column is ""
	mutation map[membership]*mutation
	order    []membership
}

type mutation struct{ insert, remove []any }

// plan compares wants with the replica. It reads the replica only; the caller
// holds its lock.
func (r *replica) plan(wants []Want) plan {
	p := &planner{replica: r, plan: plan{failed: map[string]error{}}}
	for {
		known := len(p.failed)
		p.collect(wants)
		if !p.refuse() && len(p.failed) == known {
			break
		}
	}
	p.hold()
	for _, e := range p.entries {
		if err := p.planEntry(e); err != nil {
			// A model that does not fit the schema is a bug of the builder. Plan again without this owner, because
			// operations of other owners may refer to its rows.
			p.failed[e.owner] = err
			rest := slices.DeleteFunc(slices.Clone(wants), func(w Want) bool { return p.failed[w.Owner] != nil })
			again := r.plan(rest)
			for owner, err := range p.failed {
				again.failed[owner] = err
			}
			return again
		}
	}
	p.planMutations()
	p.planDeletes()
	return p.plan
}

// collect pairs each wanted row with the owner's present row. Present rows without a wanted row are stale.
func (p *planner) collect(wants []Want) {
	p.entries, p.stale, p.named, p.mutation = nil, nil, map[Parent]*entry{}, map[membership]*mutation{}
	for _, want := range wants {
		if p.failed[want.Owner] != nil {
			continue
		}
		// Of several rows with one id, the one with the smallest UUID stays.
		have := slices.Clone(p.owned[want.Owner])
		slices.SortFunc(have, func(a, b *row) int { return cmp.Compare(a.uuid, b.uuid) })
		seen := map[[2]string]bool{} // tables and ids of this owner
		for i := range want.Rows {
			e := &entry{owner: want.Owner, row: &want.Rows[i]}
			if e.table = p.tableOf(e.row.Model); e.table == nil {
				p.failed[want.Owner] = fmt.Errorf("row %q is a %T, which is no row of this database", e.row.ID, e.row.Model)
				continue
			}
			// Two such rows would overwrite each other in one row of the database for ever.
			key := [2]string{e.table.name, e.row.ID}
			if seen[key] {
				p.failed[want.Owner] = fmt.Errorf("two rows of table %s have the id %q", e.table.name, e.row.ID)
				continue
			}
			seen[key] = true
			if at := slices.IndexFunc(have, func(w *row) bool { return w.table == e.table && w.id == e.row.ID }); at >= 0 {
				e.have, e.ref = have[at], have[at].uuid
				have = slices.Delete(have, at, at+1)
			} else {
				e.ref = "row" + strconv.Itoa(len(p.entries))
			}
			p.entries = append(p.entries, e)
			if e.table.indexed {
				p.named[Parent{Table: e.table.name, Name: e.table.nameOf(e.row.Model)}] = e
			}
		}
		p.stale = append(p.stale, have...)
	}
}

// tableOf is the table of a model, nil when this database has none for it.
func (p *planner) tableOf(model any) *table {
	if typ := reflect.TypeOf(model); typ != nil && typ.Kind() == reflect.Pointer {
		return p.types[typ.Elem()]
	}
	return nil
}

// refuse records the owners with a row that lacks a parent, a reference or a used row. It reports whether there are new
// ones: rows of other owners may need their rows.
func (p *planner) refuse() bool {
	refused := false
	for _, e := range p.entries {
		if p.failed[e.owner] != nil {
			continue
		}
		if !e.table.root && len(e.row.Parents) == 0 {
			p.failed[e.owner] = fmt.Errorf("row %q of table %s names no parent and would vanish", e.row.ID, e.table.name)
			refused = true
		}
		for _, parent := range e.row.Parents {
			if p.resolve(parent) == "" {
				p.uses.await(Name{parent.Table, parent.Name}, e.owner)
				p.failed[e.owner] = fmt.Errorf("%w: %s %q for %s %q", ErrNoParent, parent.Table, parent.Name, e.table.name, e.row.ID)
				refused = true
			}
		}
		if err := p.refer(e); err != nil {
			p.failed[e.owner] = err
			refused = true
		}
		for _, used := range e.row.Uses {
			if p.resolve(Parent{Table: used.Table, Name: used.Name}) == "" {
				p.uses.await(used, e.owner)
				p.failed[e.owner] = fmt.Errorf("%w: %s %q, which %s %q uses", ErrNoParent, used.Table, used.Name, e.table.name, e.row.ID)
				refused = true
			}
		}
	}
	return refused
}

// hold keeps a stale row while another row that stays uses it.
func (p *planner) hold() {
	goes := map[*row]bool{} // deleted, or replaced by an entry
	used := map[Name]bool{}
	for _, w := range p.stale {
		goes[w] = true
	}
	for _, e := range p.entries {
		if goes[e.have] = true; e.have == nil {
			delete(goes, nil)
		}
		for _, name := range e.row.Uses {
			used[name] = true
		}
	}
	p.stale = slices.DeleteFunc(p.stale, func(w *row) bool {
		if !w.table.indexed {
			return false
		}
		name := Name{w.table.name, w.table.nameOf(w.model)}
		held := used[name]
		for user := range p.uses.users[name] {
			held = held || !goes[user]
		}
		if held {
			p.uses.hold(name, w.owner)
			p.held = append(p.held, w.owner)
		}
		return held
	})
}

// refer finds the rows that an entry refers to.
func (p *planner) refer(e *entry) error {
	e.refers = map[string][]string{}
	for _, r := range e.row.References {
		if at := e.table.index(r.Column); at < 0 || !e.table.columns[at].refers {
			return fmt.Errorf("row %q: table %s has no column %q for references", e.row.ID, e.table.name, r.Column)
		}
		ref := p.resolve(Parent{Table: r.Table, Name: r.Name})
		if ref == "" {
			p.uses.await(Name{r.Table, r.Name}, e.owner)
			return fmt.Errorf("%w: %s %q, which %s %q refers to", ErrNoParent, r.Table, r.Name, e.table.name, e.row.ID)
		}
		e.refers[r.Column] = append(e.refers[r.Column], ref)
	}
	return nil
}

// resolve gives the UUID, or the name in this transaction, of a parent.
func (p *planner) resolve(parent Parent) string {
	if e := p.named[Parent{Table: parent.Table, Name: parent.Name}]; e != nil {
		return e.ref
	}
	if w := p.parent(parent); w != nil {
		return w.uuid
	}
	return ""
}

func (p *planner) planEntry(e *entry) error {
	if e.have == nil {
		content, err := e.table.content(e)
		if err != nil {
			return err
		}
		p.ops = append(p.ops, lib.Operation{Op: lib.OperationInsert, Table: e.table.name, Row: content, UUIDName: e.ref})
		p.note(e.owner, e.table, e.row.ID, lib.OperationInsert)
	} else if err := p.planUpdate(e); err != nil {
		return err
	}
	return p.planParents(e)
}

func (p *planner) planUpdate(e *entry) error {
	content, mutations, err := e.table.difference(e)
	if err != nil {
		return err
	}
	if len(content) > 0 {
		p.ops = append(p.ops, lib.Operation{Op: lib.OperationUpdate, Table: e.table.name, Where: is(e.ref), Row: content})
	}
	if len(mutations) > 0 {
		p.ops = append(p.ops, lib.Operation{Op: lib.OperationMutate, Table: e.table.name, Where: is(e.ref), Mutations: mutations})
	}
	if len(content)+len(mutations) > 0 {
		p.note(e.owner, e.table, e.row.ID, lib.OperationUpdate)
	}
	return nil
}

// planParents adds a row to its wanted parents and removes the row from other parents.
func (p *planner) planParents(e *entry) error {
	var wanted []membership
	for _, parent := range e.row.Parents {
		m := membership{table: parent.Table, parent: p.resolve(parent), column: parent.Column}
		if t := p.tables[parent.Table]; t == nil || !slices.Contains(t.parents, parent.Column) {
			return fmt.Errorf("row %q of table %s: %s has no column %q for children", e.row.ID, e.table.name, parent.Table, parent.Column)
		}
		wanted = append(wanted, m)
	}
	var present []membership
	if e.have != nil {
		present = p.in[e.ref]
	}
	before := len(p.order)
	for _, m := range wanted {
		if !slices.Contains(present, m) {
			p.mutate(m).insert = append(p.mutate(m).insert, lib.UUID{GoUUID: e.ref})
		}
	}
	for _, m := range present {
		// Memberships in rows without an owner are another client's and stay. But only the wanted parents contain the
		// row (strong references).
		parent := p.rows[m.table][m.parent]
		if parent != nil && (parent.owner != "" || parent.table.strong[m.column]) && !slices.Contains(wanted, m) {
			p.mutate(m).remove = append(p.mutate(m).remove, lib.UUID{GoUUID: e.ref})
		}
	}
	if e.have != nil && len(p.order) > before {
		p.note(e.owner, e.table, e.row.ID, lib.OperationUpdate)
	}
	return nil
}

func (p *planner) mutate(m membership) *mutation {
	if p.mutation[m] == nil {
		p.mutation[m] = &mutation{}
		p.order = append(p.order, m)
	}
	return p.mutation[m]
}

// planMutations removes stale rows from all sets that refer to them, and adds the operations that change sets. The
// insert of a new parent has its children, and the set of a deleted parent stays unchanged: neither set may be empty
// where the schema wants a member.
func (p *planner) planMutations() {
	deleted, fresh := map[string]bool{}, map[string]lib.Row{}
	for _, w := range p.stale {
		deleted[w.uuid] = true
	}
	for _, op := range p.ops {
		if op.Op == lib.OperationInsert {
			fresh[op.UUIDName] = op.Row
		}
	}
	for _, w := range p.stale {
		for _, m := range p.in[w.uuid] {
			if p.rows[m.table][m.parent] != nil && !deleted[m.parent] {
				p.mutate(m).remove = append(p.mutate(m).remove, lib.UUID{GoUUID: w.uuid})
			}
		}
	}
	for _, m := range p.order {
		if row := fresh[m.parent]; row != nil {
			row[m.column] = lib.OvsSet{GoSet: p.mutation[m].insert}
			continue
		}
		p.ops = append(p.ops, lib.Operation{Op: lib.OperationMutate, Table: m.table, Where: is(m.parent), Mutations: p.mutation[m].operations(m.column)})
	}
}

func (m *mutation) operations(column string) []lib.Mutation {
	var out []lib.Mutation
	if len(m.insert) > 0 {
		out = append(out, lib.Mutation{Column: column, Mutator: lib.MutateOperationInsert, Value: lib.OvsSet{GoSet: m.insert}})
	}
	if len(m.remove) > 0 {
		out = append(out, lib.Mutation{Column: column, Mutator: lib.MutateOperationDelete, Value: lib.OvsSet{GoSet: m.remove}})
	}
	return out
}

// planDeletes deletes stale rows.
func (p *planner) planDeletes() {
	for _, w := range p.stale {
		p.ops = append(p.ops, lib.Operation{Op: lib.OperationDelete, Table: w.table.name, Where: is(w.uuid)})
		p.note(w.owner, w.table, w.id, lib.OperationDelete)
	}
}

func (p *planner) note(owner string, t *table, id, op string) {
	p.changes = append(p.changes, Change{Owner: owner, Table: t.name, ID: id, Op: op})
}

func is(uuid string) []lib.Condition {
	return []lib.Condition{{Column: "_uuid", Function: lib.ConditionEqual, Value: lib.UUID{GoUUID: uuid}}}
}
