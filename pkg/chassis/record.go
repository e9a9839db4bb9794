package chassis

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/pki"
)

// revoked is the record of a Node that gets no certificate, and whose certificates
// the Southbound refuses.
const revoked = "revoked"

// record says which chassis a Node is, and which account may ask for its certificate.
type record struct {
	systemID, uid, account string
	revoked                bool
}

func (r record) String() string {
	if r.revoked {
		return revoked
	}
	return r.systemID + " " + r.uid + " " + r.account
}

func parseRecord(text string) (record, error) {
	fields := strings.Fields(text)
	switch {
	case len(fields) > 0 && fields[0] == revoked:
		return record{revoked: true}, nil
	case len(fields) != 3:
		return record{}, fmt.Errorf("record %q is neither %q nor a system-id, a UID and an account", text, revoked)
	}
	return record{systemID: fields[0], uid: fields[1], account: fields[2]}, nil
}

// world is what a decision is made from.
type world struct {
	nodes   map[string]*corev1.Node
	records map[string]string // of RecordMap
	// isDPUHost says that an account of DPUNamespace is named after the Node.
	isDPUHost bool
}

// recordOf gives the record of a Node, nil when there is none. The record of an
// earlier Node of that name counts only when it is revoked.
func (w world) recordOf(node *corev1.Node) (*record, error) {
	text, ok := w.records[node.Name]
	if !ok {
		return nil, nil
	}
	r, err := parseRecord(text)
	if err != nil {
		return nil, fmt.Errorf("record of node %s in ConfigMap %s: %w", node.Name, RecordMap, err)
	}
	if !r.revoked && r.uid != string(node.UID) {
		return nil, nil
	}
	return &r, nil
}

// holder is another Node that is or claims to be a chassis, "" when there is none.
func (w world) holder(systemID, except string) string {
	for name, node := range w.nodes {
		if name == except {
			continue
		}
		r, err := w.recordOf(node)
		switch {
		case err != nil || r != nil && r.revoked:
		case r != nil && r.systemID == systemID, r == nil && node.Annotations[contract.NodeChassisIDKey] == systemID:
			return name
		}
	}
	return ""
}

// chassis is what the Secrets depend on.
func (w world) chassis() (known pki.Chassis) {
	for name, text := range w.records {
		if r, err := parseRecord(text); err == nil && r.revoked {
			known.Revoked = append(known.Revoked, name)
		}
	}
	for name, node := range w.nodes {
		if r, err := w.recordOf(node); node.Annotations[contract.NodeChassisIDKey] != "" && (r == nil || err != nil) {
			known.Waiting = append(known.Waiting, name)
		}
	}
	slices.Sort(known.Revoked)
	slices.Sort(known.Waiting)
	return known
}

// kept leaves out the records of Nodes that are gone.
func (w world) kept() map[string]string {
	kept := map[string]string{}
	for name, text := range w.records {
		r, err := parseRecord(text)
		if node := w.nodes[name]; err != nil || r.revoked || node != nil && string(node.UID) == r.uid {
			kept[name] = text
		}
	}
	return kept
}
