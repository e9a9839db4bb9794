// Package acl builds the rules of policies, as ACLs of port groups, and the address sets of pods that rules refer to.
//
// Place in the data flow: pkg/policy (facts) -> BuildPolicy, BuildPodSet (the kind table of pkg/ovn calls them) -> rows.
//
//	acl.go     tiers, priorities, and what all rules have in common
//	match.go   the text of a match
//	policy.go  a policy's port group and rules
//	further.go what a policy for a further network has beside that
//	podset.go  the address sets of pods
//	limit.go   which sets are beyond the limit of a NetworkPolicy
package acl

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// OVN evaluates the tiers in this order until one of them decides.
const (
	TierPrimary  = 0
	tierAdmin    = 1
	tierPolicy   = 2
	TierBaseline = 3
)

// Priorities within a tier.
const (
	PriorityFirst = 32767
	priorityAllow = 1001
	PriorityDeny  = 1000
	// The policies for the whole cluster have the priorities from here downwards.
	priorityAdmin = 32600
	stepsOfPolicy = 32
	PriorityLast  = 0
)

// maxACLName is the schema's limit.
const maxACLName = 63

// LogMeter bounds the log messages of each rule.
const (
	LogMeter          = "acl-logging"
	LogMessagesPerSec = 20
)

// Row places a rule in a port group or a switch.
func Row(id string, acl *nb.ACL, table, parent string) ovsdb.Row {
	return ovsdb.Row{ID: id, Model: acl, Parents: []ovsdb.Parent{{Table: table, Name: parent, Column: "acls"}}}
}

// logRule names a rule, which the log shows, and sets whether it is logged.
func logRule(acl *nb.ACL, name string, logging contract.ACLLogging) {
	if len(name) > maxACLName {
		name = strings.ToValidUTF8(name[:maxACLName], "")
	}
	acl.Name = &name
	severity := logging.Allow
	if acl.Action == nb.ACLActionDrop {
		severity = logging.Deny
	}
	if severity != "" {
		meter := LogMeter
		acl.Log, acl.Severity, acl.Meter = true, &severity, &meter
	}
}

// PolicyGroup is the port group of the pods that a policy selects.
func PolicyGroup(policy contract.Owner) string {
	sum := sha256.Sum256([]byte(policy.String()))
	return "p" + hex.EncodeToString(sum[:16])
}
