package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// inventoryCommand needs no cluster and changes nothing.
func inventoryCommand() *cobra.Command {
	var output, sysfs string
	var watch bool
	cmd := &cobra.Command{
		Use:   "inventory",
		Short: "lists the node's NICs, their VFs and representors",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, ok := map[string]func(io.Writer, vf.Inventory) error{"table": vf.WriteTable, "json": writeJSON}[output]
			if !ok {
				return fmt.Errorf("--output=%s: neither table nor json", output)
			}
			return inventory(cmd.Context(), sysfs, watch, func(inv vf.Inventory) error {
				return write(cmd.OutOrStdout(), inv)
			})
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	cmd.Flags().StringVar(&sysfs, "sysfs", "/sys", "where sysfs is mounted, of the same network namespace")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "write it again at each change")
	return cmd
}

func inventory(ctx context.Context, sysfs string, watch bool, write func(vf.Inventory) error) error {
	host, err := netdev.Open("")
	if err != nil {
		return err
	}
	defer func() { _ = host.Close() }()
	devices, err := netdev.OpenDevices(host)
	if err != nil {
		return err
	}
	defer func() { _ = devices.Close() }()
	node := vf.Node{
		Sysfs: netdev.OpenSysfs(sysfs), Kernel: devices, Links: host, Events: devices, Names: vf.NewNames(netdev.PCINames),
	}
	if !watch {
		inv, err := node.Read()
		if err != nil {
			return err
		}
		return write(inv)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	err = node.Watch(ctx, func(inv vf.Inventory) {
		if err := write(inv); err != nil {
			stop(err) // nobody reads any more
		}
	})
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func writeJSON(w io.Writer, inv vf.Inventory) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(inv)
}
