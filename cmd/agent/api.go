package main

import (
	"net/http"

	"github.com/spf13/cobra"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
)

// apiCommand is how kubectl offload asks the agent that runs: by exec, with the rights of pods/exec and no others.
func apiCommand() *cobra.Command {
	socket := flowapi.Socket
	cmd := &cobra.Command{
		Use: "api PATH", Args: cobra.ExactArgs(1), Short: "asks the running agent, such as for /v1/summary, and prints the HTTP response",
		RunE: func(cmd *cobra.Command, args []string) error {
			request, err := http.NewRequestWithContext(cmd.Context(), http.MethodGet, "http://agent"+args[0], nil)
			if err != nil {
				return err
			}
			response, err := flowapi.Local(socket).Do(request)
			if err != nil {
				return err
			}
			defer response.Body.Close() //nolint:errcheck // it was only read
			return response.Write(cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&socket, "socket", socket, "Unix socket of the agent")
	return cmd
}
