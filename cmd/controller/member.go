package main

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/ovn-offload/ovn-offload/pkg/expose"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/offload/unixctl"
	"github.com/ovn-offload/ovn-offload/pkg/raft"
)

// raftPorts are those of the members to each other.
func raftPorts() map[string]int { return map[string]int{"nb": 6643, "sb": 6644} }

// memberCommand makes the file of a member of a cluster, before ovsdb-server starts in the same container.
func memberCommand(o *options, level *slog.Level) *cobra.Command {
	cfg := raft.Defaults()
	var members string
	command := &cobra.Command{
		Use:   "member nb|sb",
		Short: "makes the file of this node's member of a database's cluster, and records the member",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			port, ok := raftPorts()[args[0]]
			if !ok {
				return fmt.Errorf("database %q: want nb or sb", args[0])
			}
			var err error
			if cfg.Members, cfg.First, err = raft.ParseMembers(members, port); err != nil {
				return err
			}
			client, err := api.New(api.Config{Kubeconfig: o.kubeconfig, Server: o.apiserver, UserAgent: "ovn-offload-member/" + version})
			if err != nil {
				return err
			}
			cfg.Database, cfg.Logger = args[0], expose.Logger(os.Stderr, *level)
			return raft.Start(cmd.Context(), client, cfg)
		},
	}
	flags := command.Flags()
	flags.StringVar(&cfg.Namespace, "namespace", cfg.Namespace, "namespace of the record")
	flags.StringVar(&cfg.Node, "node", "", "name of this Node")
	flags.StringVar(&members, "members", "", "all members, NODE=ADDRESS,...; the first creates the cluster")
	flags.StringVar(&cfg.File, "file", "", "file of the database")
	flags.StringVar(&cfg.Schema, "schema", "", "file of its schema")
	flags.DurationVar(&cfg.Election, "election-timer", cfg.Election, "time without a leader after which a member of a new cluster asks for votes")
	return command
}

// watchClusters is nil where the databases have one member.
func (o options) watchClusters(client *api.Client, log *slog.Logger) *raft.Watch {
	if !o.clustered {
		return nil
	}
	control := func(key string) raft.Control {
		return unixctl.Client{Daemon: "ovsdb-server", Socket: fmt.Sprintf("%s/ovn%s_db.ctl", o.runDir, key)}
	}
	return &raft.Watch{
		Client: client, Namespace: o.leaseNamespace, Databases: raft.Databases(control), Every: 10 * time.Second, Logger: log,
	}
}
