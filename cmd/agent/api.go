package main

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/tcrule"
	"github.com/ovn-offload/ovn-offload/pkg/nodeflows"
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

// askDriverCommand is by exec as well. The agent that runs serves flows and changes nothing for who reads them: this process does it.
func askDriverCommand() *cobra.Command {
	socket := flowapi.Socket
	cmd := &cobra.Command{
		Use: "ask-driver UFID", Args: cobra.ExactArgs(1),
		Short: "offers the rule of a flow that the NIC's driver refused to it once more, deletes it, and prints the driver's text as JSON",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			ns, err := netdev.Open("")
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, ns.Close()) }()
			offer := func(link, flow string) (tcrule.Answer, error) { return tcrule.Offer(ns, link, flow) }
			asked, err := nodeflows.Ask(cmd.Context(), flowapi.Client{URL: "http://agent", HTTP: flowapi.Local(socket)}, offer, args[0])
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(asked)
		},
	}
	cmd.Flags().StringVar(&socket, "socket", socket, "Unix socket of the agent")
	return cmd
}
