package main

import (
	"encoding/json"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/ovn-offload/ovn-offload/pkg/conncheck/probe"
)

// probeCommand is what the pods of kubectl offload test run.
func probeCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "probe", Short: "both ends of the packets of kubectl offload test", Hidden: true}
	var name string
	var port int
	serve := &cobra.Command{
		Use: "serve", Args: cobra.NoArgs, Short: "answers with a name",
		RunE: func(cmd *cobra.Command, _ []string) error { return probe.Serve(cmd.Context(), name, port) },
	}
	serve.Flags().StringVar(&name, "name", "", "what it answers")
	serve.Flags().IntVar(&port, "port", probe.DefaultPort, "port of TCP, UDP and SCTP")
	cmd.AddCommand(serve, askCommand())
	return cmd
}

func askCommand() *cobra.Command {
	var q probe.Question
	cmd := &cobra.Command{
		Use: "ask", Args: cobra.NoArgs, Short: "asks a server for its name, and prints what came as JSON",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return json.NewEncoder(cmd.OutOrStdout()).Encode(probe.Ask(cmd.Context(), q, podMTU()))
		},
	}
	f := cmd.Flags()
	f.StringVar(&q.Protocol, "protocol", "tcp", "tcp, udp, sctp or icmp")
	f.StringVar(&q.Host, "host", "", "address or name")
	f.IntVar(&q.Family, "family", 4, "4 or 6")
	f.IntVar(&q.Port, "port", probe.DefaultPort, "port")
	f.IntVar(&q.Size, "size", 0, "bytes to send")
	f.BoolVar(&q.OfMTU, "of-mtu", false, "add the size to the largest that one packet has")
	f.BoolVar(&q.DontFragment, "dont-fragment", false, "make no fragments")
	f.IntVar(&q.Times, "times", 1, "number of connections")
	f.BoolVar(&q.Silent, "silent", false, "the server says no name")
	f.DurationVar(&q.Timeout, "timeout", 3*time.Second, "time for one answer")
	return cmd
}

// podMTU is that of a pod's first interface; 0 where there is none, which only sizes of an MTU need.
func podMTU() int {
	link, err := net.InterfaceByName("eth0")
	if err != nil {
		return 0
	}
	return link.MTU
}
