// Package raft makes members of the clusters of OVN's databases, and keeps the clusters to the members that are
// recorded. OVSDB's RAFT itself is in ovsdb-server.
//
// It is a package of its own, because it runs before the databases exist, and nothing else writes their files.
//
// Data flow: Start, before ovsdb-server in the same container, reads the file on disk (Inspect) and the record in the
// ConfigMap ovn-raft, decides (Decide, a pure function), and writes both. Watch, beside a running member, compares the
// servers of the cluster with the record, and has the cluster drop servers that are not in the record.
//
// A second cluster beside a first one would lose the first one's data. So a cluster is created only while none is
// recorded, by one node, and it is recorded before its first server runs. A server is recorded before it joins.
package raft

import (
	"fmt"
	"maps"
	"slices"
)

// File is what a node's disk has of a database.
type File struct {
	Kind Kind
	// Cluster and Server are the ids in the file of a cluster's member. Cluster is empty before the first contact of a
	// joining member.
	Cluster, Server string
	// Starts are the tokens beside the file: that of the last start, and that of a start that was not recorded.
	Starts []string
}

// Kind is the kind of a file.
type Kind string

// The kinds of files. A file that ovsdb-tool cannot read is Unreadable.
const (
	Missing    Kind = "missing"
	Standalone Kind = "standalone"
	Clustered  Kind = "clustered"
	Unreadable Kind = "unreadable"
)

// Record is what all masters know about the cluster of one database.
type Record struct {
	Cluster string            `json:"cluster,omitempty"`
	Members map[string]Member `json:"members,omitempty"` // by node
	// Seed, if set while Cluster is empty, is the node whose file becomes the cluster: the last resort of a person.
	Seed string `json:"seed,omitempty"`
}

// Member is one server of the cluster.
type Member struct {
	Server  string `json:"server"`
	Address string `json:"address"` // of its RAFT port
	// Start is the token of the member's last start. A disk with another token is an old copy.
	Start string `json:"start"`
}

// Action is what to do before the server starts.
type Action string

// The actions.
const (
	Keep   Action = "keep"   // start with the file
	Create Action = "create" // make a cluster of the file's content, or an empty one
	Join   Action = "join"   // set the file aside and join the recorded cluster
	Wait   Action = "wait"   // ask again later
)

// Decision is an action and its reason.
type Decision struct {
	Action Action
	Reason string
	// Remotes are the RAFT addresses of the other members, for Join.
	Remotes []string
}

// Decide says how the member of a node starts. The first node creates the cluster where no seed is recorded.
func Decide(node, first string, file File, record Record) Decision {
	if record.Cluster == "" {
		return decideNew(node, first, file, record)
	}
	own, known := record.Members[node]
	foreign := foreign(file, own, record)
	if known && foreign == "" {
		return Decision{Action: Keep, Reason: "the file is that of the recorded server"}
	}
	if !known && foreign == "" {
		foreign = "the cluster has removed the node's server"
	}
	var remotes []string
	for _, other := range slices.Sorted(maps.Keys(record.Members)) {
		if other != node {
			remotes = append(remotes, record.Members[other].Address)
		}
	}
	if len(remotes) == 0 {
		return Decision{Action: Wait, Reason: fmt.Sprintf("%s, and cluster %s has no other member: restore the file, or see docs/high-availability.md", foreign, record.Cluster)}
	}
	return Decision{Action: Join, Reason: foreign, Remotes: remotes}
}

func decideNew(node, first string, file File, record Record) Decision {
	if record.Seed != "" {
		first = record.Seed
	}
	switch {
	case node != first:
		return Decision{Action: Wait, Reason: fmt.Sprintf("no cluster is recorded yet, and node %s creates it", first)}
	case file.Kind == Unreadable:
		return Decision{Action: Wait, Reason: "the database's file cannot be read: restore or remove it"}
	}
	return Decision{Action: Create, Reason: fmt.Sprintf("no cluster is recorded, and the file is %s", file.Kind)}
}

// foreign is the reason why a file is not that of the node's recorded server; "" if it is.
func foreign(file File, own Member, record Record) string {
	switch {
	case file.Kind != Clustered:
		return fmt.Sprintf("the file is %s", file.Kind)
	case file.Cluster != "" && file.Cluster != record.Cluster:
		return fmt.Sprintf("the file is of another cluster, %s", file.Cluster)
	case own.Server != "" && file.Server != own.Server:
		return fmt.Sprintf("the file is of another server, %s", file.Server)
	case own.Server != "" && !slices.Contains(file.Starts, own.Start):
		return "the disk is older than the last start of the server"
	}
	return ""
}
