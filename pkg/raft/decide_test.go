package raft

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecide_EveryFileAndRecord(t *testing.T) {
	record := Record{Cluster: "c1", Members: map[string]Member{
		"m1": {Server: "s1", Address: "ssl:a1", Start: "t1"},
		"m2": {Server: "s2", Address: "ssl:a2", Start: "t2"},
	}}
	alone := Record{Cluster: "c1", Members: map[string]Member{"m1": record.Members["m1"]}}
	own := File{Kind: Clustered, Cluster: "c1", Server: "s1", Starts: []string{"t1"}}
	with := func(change func(*File)) File { f := own; change(&f); return f }
	for _, tc := range []struct {
		name   string
		node   string
		file   File
		record Record
		want   Action
		from   []string
	}{
		{name: "new cluster, first node, no file", node: "m1", file: File{Kind: Missing}, want: Create},
		{name: "new cluster, first node, file of one member", node: "m1", file: File{Kind: Standalone}, want: Create},
		{name: "new cluster, a crash before the record", node: "m1", file: own, want: Create},
		{name: "new cluster, damaged file", node: "m1", file: File{Kind: Unreadable}, want: Wait},
		{name: "new cluster, another node", node: "m2", file: File{Kind: Missing}, want: Wait},
		{name: "new cluster, another node with a file", node: "m2", file: File{Kind: Standalone}, want: Wait},
		{name: "the seed", node: "m2", file: File{Kind: Clustered, Cluster: "old", Server: "s2"}, record: Record{Seed: "m2"}, want: Create},
		{name: "not the seed", node: "m1", file: own, record: Record{Seed: "m2"}, want: Wait},

		{name: "own file", node: "m1", file: own, record: record, want: Keep},
		{name: "own file, start not recorded", node: "m1", file: with(func(f *File) { f.Starts = []string{"t1", "t9"} }), record: record, want: Keep},
		{name: "own file, only member", node: "m1", file: own, record: alone, want: Keep},
		{name: "joining still", node: "m1", file: with(func(f *File) { f.Cluster = "" }), record: record, want: Keep},

		{name: "empty disk", node: "m1", file: File{Kind: Missing}, record: record, want: Join, from: []string{"ssl:a2"}},
		{name: "damaged file", node: "m1", file: File{Kind: Unreadable}, record: record, want: Join, from: []string{"ssl:a2"}},
		{name: "file of one member", node: "m2", file: File{Kind: Standalone}, record: record, want: Join, from: []string{"ssl:a1"}},
		{name: "another cluster", node: "m1", file: with(func(f *File) { f.Cluster = "c0" }), record: record, want: Join, from: []string{"ssl:a2"}},
		{name: "a server that was replaced", node: "m1", file: with(func(f *File) { f.Server = "s0" }), record: record, want: Join, from: []string{"ssl:a2"}},
		{name: "an old copy of the disk", node: "m1", file: with(func(f *File) { f.Starts = []string{"t0"} }), record: record, want: Join, from: []string{"ssl:a2"}},
		{name: "a copy without a start", node: "m1", file: with(func(f *File) { f.Starts = nil }), record: record, want: Join, from: []string{"ssl:a2"}},
		{name: "new member", node: "m3", file: File{Kind: Missing}, record: record, want: Join, from: []string{"ssl:a1", "ssl:a2"}},
		{name: "a member that had left", node: "m3", file: File{Kind: Clustered, Cluster: "c1", Server: "s3"}, record: record, want: Join, from: []string{"ssl:a1", "ssl:a2"}},
		{name: "the only member has lost its disk", node: "m1", file: File{Kind: Missing}, record: alone, want: Wait},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Decide(tc.node, "m1", tc.file, tc.record)
			if got.Action != tc.want || got.Reason == "" {
				t.Errorf("%s: %s", got.Action, got.Reason)
			}
			if diff := cmp.Diff(tc.from, got.Remotes); diff != "" {
				t.Errorf("remotes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseMembers_ValidAndInvalid(t *testing.T) {
	members, first, err := ParseMembers("m2=192.0.2.2,m1=[fd00::1]", 6643)
	if diff := cmp.Diff(map[string]string{"m2": "ssl:192.0.2.2:6643", "m1": "ssl:[fd00::1]:6643"}, members); err != nil || first != "m2" || diff != "" {
		t.Errorf("first %s, %v:\n%s", first, err, diff)
	}
	for _, text := range []string{"", "m1", "m1=", "=a", "m1=a,m1=b", "m1=a,"} {
		if _, _, err := ParseMembers(text, 1); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

const joining = `cfba
Name: OVN_Northbound
Cluster ID: not yet known
Server ID: cfba (cfba2d27-e75b-4d1a-9e3b-0b1c2d3e4f50)
Address: ssl:127.0.0.1:6643
Status: joining cluster
Remotes for joining: ssl:127.0.0.2:6643
Role: follower
Term: 0
Leader: unknown
Vote: unknown

Connections: (->0000)
Servers:
`

const leading = `b942
Name: OVN_Northbound
Cluster ID: e773 (e773bd4d-d4d7-4470-897b-1fbebfa5534b)
Server ID: b942 (b9420d73-191b-4533-8538-da2cae5c5b9b)
Address: ssl:127.0.0.1:6643
Status: cluster member
Role: leader
Term: 2
Leader: self
Vote: self

Servers:
    cfba (cfba at ssl:127.0.0.3:6643) next_index=6 match_index=5 last msg 993 ms ago
    b942 (b942 at ssl:127.0.0.1:6643) (self) next_index=3 match_index=5
`

func TestStatus_LeaderAndJoiningServer(t *testing.T) {
	for text, want := range map[string]Status{
		leading: {Member: true, Role: "leader", HasLeader: true, Servers: []string{"cfba", "b942"}},
		joining: {Role: "follower"},
	} {
		got, err := parseStatus(text)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v:\n%s", err, diff)
		}
	}
	if _, err := parseStatus("nothing"); err == nil {
		t.Error("a text without a role is accepted")
	}
}

func TestUnrecorded_ServersOfNoRecordedNode(t *testing.T) {
	status := Status{Servers: []string{"cfba", "b942", "43cd"}}
	members := func(servers ...string) Record {
		r := Record{Members: map[string]Member{}}
		for _, server := range servers {
			r.Members["node-"+server] = Member{Server: server}
		}
		return r
	}
	for name, tc := range map[string]struct {
		record Record
		want   []string
	}{
		"all recorded":      {members("cfba-1", "b942-1", "43cd-1"), nil},
		"one replaced":      {members("bb4a-1", "b942-1", "43cd-1"), []string{"cfba"}},
		"nothing recorded":  {Record{}, nil},
		"another cluster's": {members("0001-1", "0002-1"), nil},
	} {
		if diff := cmp.Diff(tc.want, unrecorded(status, tc.record)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
