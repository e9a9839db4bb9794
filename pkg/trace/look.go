package trace

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// Run runs a program of OVN beside one of its databases, "nb" or "sb", and gives what it printed.
type Run func(ctx context.Context, database string, command []string) ([]byte, error)

// Computed is a path of ovn-trace, with the objects that decide.
type Computed struct {
	Path    Path
	Steps   []Step
	Verdict Verdict
}

// Compute asks ovn-trace for the path of a connection's first packet.
func Compute(ctx context.Context, run Run, c Connection) (*Computed, error) {
	of := &Computed{Steps: slices.Clone(c.Before), Verdict: c.Ended}
	if c.Balanced && c.Ended == "" {
		if err := c.enter(ctx, run, of); err != nil {
			return nil, err
		}
	}
	if of.Verdict != "" { // before OVN, or by a load balancer
		return of, nil
	}
	printed, err := run(ctx, "sb", c.Command())
	if err != nil {
		return nil, err
	}
	chosen := of.Path.Chosen
	if of.Path = Parse(string(printed)); len(of.Path.Flows) == 0 {
		return nil, fmt.Errorf("ovn-trace found no path: %s", printed)
	}
	of.Path.Chosen = chosen
	steps, verdict, err := Name(ctx, run, of.Path)
	of.Steps, of.Verdict = append(of.Steps, steps...), verdict
	if err != nil {
		return nil, err
	}
	return of, onDefault(of.Steps)
}

// ErrNetwork is a path that goes on by another network than the default one, such as the primary network of a service's endpoint.
type ErrNetwork string

// Error implements error.
func (e ErrNetwork) Error() string {
	return fmt.Sprintf("the path goes on by the network %s, and paths are computed on the default network only: --live follows its packets", string(e))
}

// onDefault refuses a path on which a load balancer leads to another network: routers to such networks ask for the mark that it leaves on a
// connection, which ovn-trace does not know.
func onDefault(steps []Step) error {
	balanced := false
	for _, step := range steps {
		balanced = balanced || strings.HasPrefix(step.What, "load balancer: to ")
		if owner, err := contract.ParseOwner(step.Object); err == nil && balanced && owner.Network != "" {
			return ErrNetwork(owner.Network)
		}
	}
	return nil
}

// Name finds the rows that a path was made from, and their owners.
func Name(ctx context.Context, run Run, path Path) ([]Step, Verdict, error) {
	text, err := run(ctx, "sb", contract.AtMember("ovn-sbctl", HintsCommand(path)...))
	if err != nil {
		return nil, "", err
	}
	hints, err := Hints(text)
	if err != nil {
		return nil, "", err
	}
	if text, err = run(ctx, "nb", contract.AtMember("ovn-nbctl", RowsCommand(hints)...)); err != nil {
		return nil, "", err
	}
	rows, err := Rows(text)
	if err != nil {
		return nil, "", err
	}
	steps, verdict := Steps(path, hints, rows)
	return steps, verdict, nil
}
