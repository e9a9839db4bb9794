package main

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/ovn-offload/ovn-offload/pkg/expose"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/removal"
)

// removalCommand is the last step of the chart's hooks before its removal.
func removalCommand(o *options, level *slog.Level) *cobra.Command {
	var namespace string
	var timeout time.Duration
	command := &cobra.Command{
		Use:   "prepare-removal",
		Short: "ends the agents of all nodes, and waits until every node is cleaned",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := api.NewDynamic(api.Config{Kubeconfig: o.kubeconfig, Server: o.apiserver, UserAgent: "ovn-offload-removal/" + version})
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return removal.Run(ctx, client, namespace, expose.Logger(os.Stderr, *level))
		},
	}
	command.Flags().StringVar(&namespace, "namespace", "ovn-kubernetes", "namespace of the agents")
	command.Flags().DurationVar(&timeout, "timeout", 4*time.Minute, "how long the nodes may take")
	return command
}
