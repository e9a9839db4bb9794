package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ovn-offload/ovn-offload/pkg/agent"
	"github.com/ovn-offload/ovn-offload/pkg/node/preflight"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

const reportTimeout = 30 * time.Second

// inventoryCommand needs no cluster and changes nothing.
func inventoryCommand() *cobra.Command {
	var sysfs string
	var watch bool
	cmd := output(&cobra.Command{Use: "inventory", Short: "lists the node's NICs, their VFs and representors"}, vf.WriteTable,
		func(ctx context.Context, write func(vf.Inventory) error) error {
			return agent.Inventory(ctx, sysfs, watch, write)
		})
	cmd.Flags().StringVar(&sysfs, "sysfs", "/sys", "where sysfs is mounted, of the same network namespace")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "write it again at each change")
	return cmd
}

// offloadCommand needs OVS and no cluster, and changes nothing.
func offloadCommand(cfg *agent.Config) *cobra.Command {
	return output(&cobra.Command{Use: "offload", Short: "says where the traffic of the node's pods is handled now, and why not in hardware"}, offload.WriteTable,
		func(ctx context.Context, write func(offload.Report) error) error {
			ctx, cancel := context.WithTimeout(ctx, reportTimeout)
			defer cancel()
			report, err := agent.ReadOffload(ctx, *cfg)
			if err != nil {
				return err
			}
			return write(report)
		})
}

// verdict is the exit code of a preflight that did not pass.
type verdict int

func (verdict) Error() string { return "" }

// The exit codes of a preflight.
const (
	exitWarnings verdict = 1
	exitFailures verdict = 2
)

// preflightOptions are the flags of the preflight.
type preflightOptions struct {
	root, form, message     string
	hostOVS, warnings, gate bool
	skip                    []string
}

// preflightCommand needs no cluster and changes nothing.
func preflightCommand(cfg *agent.Config) *cobra.Command {
	var o preflightOptions
	cmd := &cobra.Command{
		Use: "preflight", Args: cobra.NoArgs,
		Short: "says whether the node is fit for the network: exit code 0, 1 with warnings, 2 with failures",
		RunE:  func(cmd *cobra.Command, _ []string) error { return o.run(cmd.OutOrStdout(), *cfg) },
	}
	f := cmd.Flags()
	f.StringVarP(&o.form, "output", "o", "text", "text or json")
	f.StringVar(&o.root, "root", "/", "where the root of the host is mounted")
	f.BoolVar(&o.hostOVS, "host-ovs", false, "the host brings its own Open vSwitch")
	f.BoolVar(&o.warnings, "allow-warnings", false, "exit code 0 with warnings, too")
	f.BoolVar(&o.gate, "gate", false, "for the start of the agent: allow warnings, and failures too where the agent has taken the uplink over already")
	f.StringSliceVar(&o.skip, "skip", nil, "checks to leave out, with commas between: "+strings.Join(preflight.Names(), ", "))
	f.StringVar(&o.message, "termination-message", "", "file for the failures, which kubectl describe pod shows; empty: none")
	return cmd
}

func (o preflightOptions) run(out io.Writer, cfg agent.Config) error {
	for _, name := range o.skip {
		if !slices.Contains(preflight.Names(), name) {
			return fmt.Errorf("--skip=%s: no such check; the checks are %s", name, strings.Join(preflight.Names(), ", "))
		}
	}
	if o.form != "text" && o.form != "json" {
		return fmt.Errorf("--output=%s: neither text nor json", o.form)
	}
	report, err := agent.Preflight(cfg, o.root, o.hostOVS)
	if err != nil {
		return err
	}
	report = report.Without(o.skip...)
	write := report.WriteText
	if o.form == "json" {
		write = report.WriteJSON
	}
	if err := write(out); err != nil {
		return err
	}
	return o.conclude(report)
}

// conclude makes the exit code.
func (o preflightOptions) conclude(report preflight.Report) error {
	if o.gate { // the agent waits for its uplink, and its readiness, Events and NodeOffload say so
		report = report.Without(preflight.Uplink)
	}
	switch {
	case report.Verdict == preflight.Fail && (!o.gate || !report.TakenOver):
		if o.message != "" {
			if err := os.WriteFile(o.message, []byte(report.Failures()), 0o600); err != nil {
				return err
			}
		}
		return exitFailures
	case report.Verdict == preflight.Warn && !o.gate && !o.warnings:
		return exitWarnings
	}
	return nil
}

// output lets a command write what it has read as a table or in JSON.
func output[T any](cmd *cobra.Command, table func(io.Writer, T) error, run func(context.Context, func(T) error) error) *cobra.Command {
	form := cmd.Flags().StringP("output", "o", "table", "table or json")
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		out := cmd.OutOrStdout()
		write := func(v T) error { return table(out, v) }
		switch *form {
		case "table":
		case "json":
			encoder := json.NewEncoder(out)
			encoder.SetIndent("", "  ")
			write = func(v T) error { return encoder.Encode(v) }
		default:
			return fmt.Errorf("--output=%s: neither table nor json", *form)
		}
		return run(cmd.Context(), write)
	}
	return cmd
}
