package raft

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
)

// Control gives the answer of an ovsdb-server to a command.
type Control interface {
	Call(ctx context.Context, method string, args ...string) (string, error)
}

// Database is a cluster that has a member on this node.
type Database struct {
	Key, Name string // such as nb and OVN_Northbound
	Control   Control
}

// Databases are OVN's, whose members on this node control gives.
func Databases(control func(key string) Control) []Database {
	return []Database{{"nb", "OVN_Northbound", control("nb")}, {"sb", "OVN_Southbound", control("sb")}}
}

// Watch asks the local members for the state of their clusters, for metrics, and has them drop servers that are not
// recorded. ovsdb-server reports no change of a cluster, hence the interval.
type Watch struct {
	Client     *api.Client
	Namespace  string
	Databases  []Database
	Every      time.Duration
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

type gauges struct{ leader, hasLeader, members *prometheus.GaugeVec }

func newGauges(registerer prometheus.Registerer) gauges {
	gauge := func(name, help string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"database"})
		registerer.MustRegister(g)
		return g
	}
	return gauges{
		leader:    gauge("ovn_offload_raft_leader", "1 while the member on this node leads the cluster of the database."),
		hasLeader: gauge("ovn_offload_raft_connected", "1 while the member on this node belongs to the cluster and knows its leader."),
		members:   gauge("ovn_offload_raft_members", "Servers of the cluster, as the member on this node knows them."),
	}
}

// Run works until ctx ends.
func (w Watch) Run(ctx context.Context) error {
	gauges := newGauges(w.Registerer)
	ticker := time.NewTicker(w.Every)
	defer ticker.Stop()
	said := map[string]string{}
	for {
		for _, database := range w.Databases {
			problem := ""
			if err := w.look(ctx, database, gauges); err != nil && ctx.Err() == nil {
				problem = err.Error()
			}
			if problem != said[database.Key] && problem != "" {
				w.Logger.Warn("cluster is not in order", "database", database.Name, "error", problem)
			}
			if problem == "" && said[database.Key] != "" {
				w.Logger.Info("cluster is in order", "database", database.Name)
			}
			said[database.Key] = problem
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// look reads the status before the record: a server is recorded before it joins, so a server that the record lacks does
// not come any more.
func (w Watch) look(ctx context.Context, database Database, gauges gauges) error {
	ctx, cancel := context.WithTimeout(ctx, w.Every)
	defer cancel()
	text, err := database.Control.Call(ctx, "cluster/status", database.Name)
	var status Status
	if err == nil {
		status, err = parseStatus(text)
	}
	gauges.leader.WithLabelValues(database.Name).Set(number(status.Role == "leader"))
	gauges.hasLeader.WithLabelValues(database.Name).Set(number(status.Member && status.HasLeader))
	gauges.members.WithLabelValues(database.Name).Set(float64(len(status.Servers)))
	if err != nil {
		return fmt.Errorf("asking the member: %w", err)
	}
	if !status.Member {
		return errors.New("the server is joining or was removed")
	}
	if !status.HasLeader {
		return fmt.Errorf("the cluster has no leader: most of its %d members are lost", len(status.Servers))
	}
	record, _, err := records{w.Client, w.Namespace, database.Key}.read(ctx)
	if err != nil {
		return err
	}
	for _, server := range unrecorded(status, record) {
		if _, err := database.Control.Call(ctx, "cluster/kick", database.Name, server); err != nil {
			return fmt.Errorf("dropping server %s: %w", server, err)
		}
		w.Logger.Info("server dropped from the cluster", "database", database.Name, "server", server)
	}
	return nil
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
