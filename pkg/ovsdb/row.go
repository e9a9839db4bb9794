package ovsdb

// OwnerKey and IDKey are the external_ids under which every row of ours says
// for which Kubernetes object it exists and which of that object's rows it is.
const (
	OwnerKey = "ovn-offload.io/owner"
	IDKey    = "ovn-offload.io/id"
)

// Row is one wanted row of an owner.
type Row struct {
	// ID tells the rows of one owner in one table apart; stable across builds.
	ID string
	// Model points to a struct with `ovsdb` tags. Its external_ids may hold
	// further keys; the engine adds OwnerKey and IDKey. Its _uuid is ignored.
	// In a table without external_ids, Schema.OwnerOf must give the owner and ID.
	Model any
	// Parents are the set columns that must contain this row's UUID. A row of a
	// table that is not a root of its schema needs at least one.
	Parents []Parent
	// References are what this row's own reference columns hold.
	References []Reference
}

// Reference is one member of a reference column: a row of Table, which may have
// another owner, by its name.
type Reference struct {
	Column, Table, Name string
}

// Parent is a set column of reference type in another row.
type Parent struct {
	Table string
	// Name is the value of the name (or, where the table has none, the target's
	// index) column of the parent row, which may have another owner.
	Name   string
	Column string
}

// Want is everything that one owner wants: no rows means that it is gone.
type Want struct {
	Owner string
	Rows  []Row
}
