package byexec

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/flownames"
	"github.com/ovn-offload/ovn-offload/pkg/sysdump"
)

// Databases runs OVN's programs beside its databases.
type Databases struct {
	Cluster *sysdump.Cluster
	Pods    []corev1.Pod
}

// Databases are those of the agents' cluster.
func (a Agents) Databases() Databases { return Databases{a.Cluster, a.Pods} }

// Run runs a command beside a database, nb or sb.
func (d Databases) Run(ctx context.Context, database string, command []string) ([]byte, error) {
	container, err := d.Cluster.Find(d.Pods, "ovnkube-db", database+"-ovsdb", "")
	if err != nil {
		return nil, err
	}
	var out, errs bytes.Buffer
	if err := d.Cluster.Exec(ctx, container, command, &out, &errs); err != nil {
		return nil, fmt.Errorf("running %s: %w: %s", command[0], err, strings.TrimSpace(errs.String()))
	}
	return out.Bytes(), nil
}

// OnNode is a container of a node's agent.
type OnNode struct{ Node, Container string }

// Exec runs a command in a container of a node's agent.
func (d Databases) Exec(ctx context.Context, on OnNode, command []string, out, errs io.Writer) error {
	in, err := d.Cluster.Find(d.Pods, App, on.Container, on.Node)
	if err != nil {
		return err
	}
	return d.Cluster.Exec(ctx, in, command, out, errs)
}

// Named are the answers of nodes, with names from the databases for their flows if the query asks for the rules.
func (a Agents) Named(ctx context.Context, nodes []string, q flowapi.Query) (answers []*flowapi.Flows, missing []string) {
	answers, missing = a.Flows(ctx, nodes, q)
	if !q.Why {
		return answers, missing
	}
	changed, err := flownames.NameAll(ctx, a.Databases().Run, a.source, flowapi.Each(answers...))
	if err != nil { // flows are an answer without names, too
		changed = []string{err.Error()}
	}
	return answers, append(missing, changed...)
}

// AddRules asks for the rules of flows, one by one, and for their names.
func (a Agents) AddRules(ctx context.Context, flows []*flowapi.Flow) error {
	if err := flowapi.Sources(a.source).AddRules(ctx, flows); err != nil {
		return err
	}
	_, err := flownames.NameAll(ctx, a.Databases().Run, a.source, flows)
	return err
}
