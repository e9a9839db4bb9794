package ovsdb

// OwnerKey and IDKey are the keys in external_ids of a row's owner, a Kubernetes object, and of its id among the owner's
// rows. UsesKey has the row's Row.Uses, as "Table/name Table/name"; absent where there are none. NameKey has the name of a
// row, to which others refer, in a table without names.
const (
	OwnerKey = "ovn-offload.io/owner"
	IDKey    = "ovn-offload.io/id"
	UsesKey  = "ovn-offload.io/uses"
	NameKey  = "ovn-offload.io/name"
)

// Row is one wanted row of an owner.
type Row struct {
	// ID tells the rows of one owner in one table apart; stable across builds.
	ID string
	// Model points to a struct with `ovsdb` tags. Its external_ids may hold further keys; the engine adds OwnerKey and
	// IDKey. Its _uuid is ignored. In a table without external_ids, Schema.OwnerOf must give the owner and ID.
	Model any
	// Parents are the set columns that must contain this row's UUID. A row of a
	// table that is not a root of its schema needs at least one.
	Parents []Parent
	// References are what this row's own reference columns hold.
	References []Reference
	// Uses are the rows that this row names in a text, as a match names an address set. They may have another owner.
	// The row's owner waits for missing ones, and no used row is deleted.
	Uses []Name
}

// Name names a row of a table: by its name or, where the table has none, as "".
type Name struct{ Table, Name string }

// Reference is one member of a reference column: a row of Table, which may have
// another owner, by its name.
type Reference struct {
	Column, Table, Name string
}

// Parent is a set column of reference type in another row.
type Parent struct {
	Table string
	// Name is that of the parent row, which may have another owner.
	Name   string
	Column string
}

// Want has all rows that one owner wants. A deleted object wants none.
type Want struct {
	Owner string
	Rows  []Row
}
