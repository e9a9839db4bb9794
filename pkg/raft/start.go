package raft

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
)

// Config says which member this is.
type Config struct {
	Namespace string
	// Database is the key of its record: nb or sb.
	Database string
	// File is the database's file, Schema that of its schema.
	File, Schema string
	// Node is this node. Members are the RAFT addresses of all members by node, such as ssl:192.0.2.11:6643. First is
	// the node that creates the cluster.
	Node, First string
	Members     map[string]string
	// Election is the time without a leader after which a member of a new cluster asks for votes.
	Election time.Duration
	// Retry is the time between two attempts.
	Retry  time.Duration
	Logger *slog.Logger
}

// Defaults leaves the member to be set. A new leader is there within 1.4 times Election. OVN's clients try servers 1, 3, 7,
// 15 and 23 s after they lost the leader: the new leader has to be there before the third second.
func Defaults() Config {
	return Config{Namespace: "ovn-kubernetes", Election: 2 * time.Second, Retry: time.Second, Logger: slog.New(slog.DiscardHandler)}
}

// Validate says what is missing.
func (c Config) Validate() error {
	switch {
	case c.Database == "" || c.File == "" || c.Schema == "":
		return errors.New("raft: no database")
	case c.Members[c.Node] == "":
		return fmt.Errorf("raft: node %q is none of the members %v", c.Node, slices.Sorted(maps.Keys(c.Members)))
	case c.Members[c.First] == "":
		return fmt.Errorf("raft: node %q, which creates the cluster, is none of the members", c.First)
	}
	return nil
}

// ParseMembers reads "NODE=ADDRESS,..." and gives the RAFT addresses at a port, and the first node.
func ParseMembers(text string, port int) (members map[string]string, first string, err error) {
	members = map[string]string{}
	for entry := range strings.SplitSeq(text, ",") {
		node, address, ok := strings.Cut(entry, "=")
		if !ok || node == "" || address == "" || members[node] != "" {
			return nil, "", fmt.Errorf("members %q: want NODE=ADDRESS,... with each node once", text)
		}
		if first == "" {
			first = node
		}
		members[node] = fmt.Sprintf("ssl:%s:%d", address, port)
	}
	return members, first, nil
}

// Start makes the file with which ovsdb-server has to start, and returns when it is there and recorded. It asks the API
// server again until ctx ends.
func Start(ctx context.Context, client *api.Client, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	said := ""
	for {
		decision, err := attempt(ctx, client, cfg)
		if err == nil && decision.Action != Wait {
			return nil
		}
		reason := decision.Reason
		if err != nil {
			reason = err.Error()
		}
		if reason != said {
			said = reason
			cfg.Logger.Warn("member waits", "database", cfg.Database, "reason", reason)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", reason, ctx.Err())
		case <-time.After(cfg.Retry):
		}
	}
}

func attempt(ctx context.Context, client *api.Client, cfg Config) (Decision, error) {
	f := files{cfg.File, cfg.Schema}
	unlock, err := f.lock()
	if err != nil {
		return Decision{}, err
	}
	defer unlock()
	r := records{client, cfg.Namespace, cfg.Database}
	record, object, err := r.read(ctx)
	if err != nil {
		return Decision{}, err
	}
	file, err := Inspect(ctx, cfg.File)
	if err != nil {
		return Decision{}, err
	}
	address := cfg.Members[cfg.Node]
	decision := Decide(cfg.Node, cfg.First, file, record)
	switch decision.Action {
	case Wait:
		return decision, nil
	case Create:
		err = f.create(ctx, file.Kind, address, cfg.Election)
		record = Record{}
	case Join:
		err = f.join(ctx, file.Kind, record.Cluster, address, decision.Remotes)
	case Keep:
	}
	if err != nil {
		return decision, err
	}
	former := record.Members[cfg.Node].Start
	if file, err = Inspect(ctx, cfg.File); err != nil {
		return decision, err
	}
	if record.Cluster == "" {
		record.Cluster = file.Cluster
	}
	record.Members = maps.Clone(record.Members)
	if record.Members == nil {
		record.Members = map[string]Member{}
	}
	maps.DeleteFunc(record.Members, func(node string, _ Member) bool { return cfg.Members[node] == "" })
	own := Member{Server: file.Server, Address: address, Start: string(uuid.NewUUID())}
	record.Members[cfg.Node] = own
	// Either token is right until the record has the new one.
	if err := f.writeStarts(former, own.Start); err != nil {
		return decision, err
	}
	if err := r.write(ctx, object, record); err != nil {
		return decision, err
	}
	cfg.Logger.Info("member starts", "database", cfg.Database, "action", decision.Action, "reason", decision.Reason, "cluster", record.Cluster, "server", own.Server)
	return decision, f.writeStarts(own.Start)
}
