package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

func versionCommand() *cobra.Command {
	var o readOptions
	var client bool
	cmd := &cobra.Command{
		Use: "version", Args: cobra.NoArgs, Short: "the versions of the plugin, the controller and the agents, and whether they may run together",
		Long:    "Version compares the versions by the rules of kubectl offload help upgrade.\nExit code 1: versions differ by more than these allow; 3: a version is not known.",
		Example: "  kubectl offload version\n  kubectl offload version --client",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if client {
				return o.say(cmd.OutOrStdout(), answer.ClientVersion(snapshot.New(time.Now(), o.system), version))
			}
			s, err := o.snapshot(cmd.Context(), answer.VersionResources()...)
			if err != nil {
				return err
			}
			v, err := answer.NewVersions(s, version)
			if err != nil {
				return err
			}
			return o.say(cmd.OutOrStdout(), v)
		},
	}
	cmd.Flags().BoolVar(&client, "client", false, "that of the plugin alone, without a cluster")
	return o.flags(cmd)
}
