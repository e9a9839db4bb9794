package raft

import (
	"fmt"
	"strings"
)

// Status is what a server knows about its cluster, of the command cluster/status.
type Status struct {
	// Member is false while the server joins, and after it has left. Role is leader, follower or candidate.
	Member bool
	Role   string
	// HasLeader is false while no leader is known.
	HasLeader bool
	// Servers are the beginnings of the server ids of all members, as ovsdb-server abbreviates them.
	Servers []string
}

// parseStatus reads the text of cluster/status.
func parseStatus(text string) (Status, error) {
	var s Status
	servers := false
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		switch {
		case servers && strings.HasPrefix(line, " "):
			id, _, _ := strings.Cut(strings.TrimSpace(line), " ")
			s.Servers = append(s.Servers, id)
		case key == "Status":
			s.Member = value == "cluster member"
		case key == "Role":
			s.Role = value
		case key == "Leader":
			s.HasLeader = value != "unknown"
		}
		servers = servers && strings.HasPrefix(line, " ") || key == "Servers"
	}
	if s.Role == "" {
		return s, fmt.Errorf("cluster/status without a role: %q", text)
	}
	return s, nil
}

// unrecorded are the servers of a cluster that no node has in the record. While the record names no member of the
// cluster, nothing is known about any of them.
func unrecorded(s Status, record Record) []string {
	var unknown []string
	recorded := 0
	for _, id := range s.Servers {
		if record.has(id) {
			recorded++
		} else {
			unknown = append(unknown, id)
		}
	}
	if recorded == 0 {
		return nil
	}
	return unknown
}

// has says whether a server whose id begins so is recorded.
func (r Record) has(id string) bool {
	for _, member := range r.Members {
		if strings.HasPrefix(member.Server, id) {
			return true
		}
	}
	return false
}
