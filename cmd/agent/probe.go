package main

import (
	"encoding/json"
	"net"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/ovn-offload/ovn-offload/pkg/conncheck/probe"
	"github.com/ovn-offload/ovn-offload/pkg/perf/load"
)

// probeCommand is what the pods of kubectl offload test and perf run.
func probeCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "probe", Short: "both ends of the packets of kubectl offload test and perf", Hidden: true}
	var name string
	var port int
	serve := &cobra.Command{
		Use: "serve", Args: cobra.NoArgs, Short: "answers with a name",
		RunE: func(cmd *cobra.Command, _ []string) error { return probe.Serve(cmd.Context(), name, port) },
	}
	serve.Flags().StringVar(&name, "name", "", "what it answers")
	serve.Flags().IntVar(&port, "port", probe.DefaultPort, "port of TCP, UDP and SCTP")
	cmd.AddCommand(serve, askCommand(), keepCommand(), keptCommand(), sinkCommand(), loadCommand())
	return cmd
}

// keepCommand and keptCommand are what the pods of kubectl offload test --setup-disrupt run.
func keepCommand() *cobra.Command {
	var texts map[string]string
	cmd := &cobra.Command{
		Use: "keep", Args: cobra.NoArgs, Short: "holds connections",
		RunE: func(cmd *cobra.Command, _ []string) error {
			connections := map[string]probe.Connection{}
			for id, text := range texts {
				var c probe.Connection
				if err := c.UnmarshalText([]byte(text)); err != nil {
					return err
				}
				connections[id] = c
			}
			return probe.Keep(cmd.Context(), probe.Socket, connections)
		},
	}
	cmd.Flags().StringToStringVar(&texts, "connection", nil, "ID=PROTOCOL/ADDRESS:PORT")
	return cmd
}

func keptCommand() *cobra.Command {
	return &cobra.Command{
		Use: "kept", Args: cobra.NoArgs, Short: "prints what became of the connections as JSON",
		RunE: func(cmd *cobra.Command, _ []string) error {
			states, err := probe.Kept(cmd.Context(), probe.Socket)
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(states)
		},
	}
}

// sinkCommand and loadCommand are what the pods of kubectl offload perf run.
func sinkCommand() *cobra.Command {
	var address netip.Addr
	cmd := &cobra.Command{
		Use: "sink", Args: cobra.NoArgs, Short: "takes what load sends, and answers",
		RunE: func(cmd *cobra.Command, _ []string) error { return load.Serve(cmd.Context(), address) },
	}
	cmd.Flags().TextVar(&address, "address", address, "where it listens")
	return cmd
}

func loadCommand() *cobra.Command {
	var q load.Question
	cmd := &cobra.Command{
		Use: "load", Args: cobra.NoArgs, Short: "sends to a sink, and prints what came of it as JSON",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return json.NewEncoder(cmd.OutOrStdout()).Encode(load.Run(cmd.Context(), q))
		},
	}
	f := cmd.Flags()
	f.StringVar((*string)(&q.Kind), "kind", string(load.Stream), "stream, rr or crr")
	f.StringVar(&q.Protocol, "protocol", "tcp", "tcp or udp")
	f.StringVar(&q.Host, "host", "", "address of the sink")
	f.IntVar(&q.Streams, "streams", 1, "connections at the same time")
	f.IntVar(&q.Size, "size", 0, "bytes of a write, a datagram or a request; 0: the default of the kind")
	f.DurationVar(&q.Time, "time", 10*time.Second, "time to send")
	f.DurationVar(&q.Idle, "idle", time.Second, "time before, in which CPU time is measured")
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
	f.DurationVar(&q.Over, "over", 0, "time over which the bytes are sent, by TCP; 0: at once")
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
