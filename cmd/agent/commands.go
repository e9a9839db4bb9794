package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/ovn-offload/ovn-offload/pkg/agent"
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
