package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

const reportTimeout = 30 * time.Second

// offloadCommand needs OVS and no cluster, and changes nothing.
func offloadCommand(o *options) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "offload",
		Short: "says where the traffic of the node's pods is handled now, and why not in hardware",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, ok := map[string]func(io.Writer, offload.Report) error{"table": offload.WriteTable, "json": writeReport}[output]
			if !ok {
				return fmt.Errorf("--output=%s: neither table nor json", output)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), reportTimeout)
			defer cancel()
			report, err := readOffload(ctx, *o)
			if err != nil {
				return err
			}
			return write(cmd.OutOrStdout(), report)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	return cmd
}

func readOffload(ctx context.Context, opts options) (offload.Report, error) {
	a := &agent{opts: opts, metrics: prometheus.NewRegistry()}
	if err := a.open(ctx); err != nil {
		return offload.Report{}, err
	}
	defer a.db.Close()
	if err := a.openDevices(); err != nil {
		return offload.Report{}, err
	}
	inv, err := a.inventory.Read()
	if err != nil {
		return offload.Report{}, err
	}
	if err := a.openSampling(func() *vf.Inventory { return &inv }, nil, nil); err != nil {
		return offload.Report{}, err
	}
	return a.sampling.Read(ctx)
}

func writeReport(w io.Writer, r offload.Report) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}
