package trace

import (
	"context"
	"fmt"
	"slices"
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
	return of, err
}

// Name finds the rows that a path was made from, and their owners.
func Name(ctx context.Context, run Run, path Path) ([]Step, Verdict, error) {
	text, err := run(ctx, "sb", append([]string{"ovn-sbctl", "--no-leader-only"}, HintsCommand(path)...))
	if err != nil {
		return nil, "", err
	}
	hints, err := Hints(text)
	if err != nil {
		return nil, "", err
	}
	if text, err = run(ctx, "nb", append([]string{"ovn-nbctl", "--no-leader-only"}, RowsCommand(hints)...)); err != nil {
		return nil, "", err
	}
	rows, err := Rows(text)
	if err != nil {
		return nil, "", err
	}
	steps, verdict := Steps(path, hints, rows)
	return steps, verdict, nil
}
