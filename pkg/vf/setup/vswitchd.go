package setup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/offload/unixctl"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

const (
	restartTimeout = 30 * time.Second
	restartPoll    = 100 * time.Millisecond
)

// Database is the node's Open_vSwitch database; *ovsdb.DB is one.
type Database interface {
	EditKeys(ctx context.Context, table, column string, edit func(have map[string]string) map[string]string) error
}

// Vswitchd is the node's ovs-vswitchd with its settings.
type Vswitchd struct {
	Client unixctl.Client
	DB     Database
	// Observed gives its settings; not ok while it does not run.
	Observed func() (_ offload.Observed, ok bool)
	Links    Links
}

// Links are those of the host; *netdev.NS has them.
type Links interface {
	Links() ([]netdev.Link, error)
	DeleteRules(link string) error
}

// DeleteRules leaves NICs alone, which may have rules of others.
func (v Vswitchd) DeleteRules() error {
	links, err := v.Links.Links()
	errs := []error{err}
	for _, link := range links {
		if link.Type == "openvswitch" {
			errs = append(errs, v.Links.DeleteRules(link.Name))
		}
	}
	return errors.Join(errs...)
}

// Observe is what a Runner asks.
func (v Vswitchd) Observe() *OVS {
	observed, ok := v.Observed()
	if !ok {
		return nil
	}
	return &OVS{Observed: observed, Supervised: v.supervised()}
}

// supervised compares the process that runs with the one that the ovs-node pod
// says it would start again. Without a supervisor, a node
// whose ovs-vswitchd ends has no network.
func (v Vswitchd) supervised() bool {
	base := filepath.Join(v.Client.Dir, v.Client.Daemon)
	runs, err := os.ReadFile(base + ".pid")
	if err != nil {
		return false
	}
	kept, err := os.ReadFile(base + ".kept")
	runs, kept = bytes.TrimSpace(runs), bytes.TrimSpace(kept)
	return err == nil && len(runs) > 0 && bytes.Equal(runs, kept)
}

// Merge sets keys of other_config.
func (v Vswitchd) Merge(ctx context.Context, keys map[string]string) error {
	return v.DB.EditKeys(ctx, vswitch.OpenvSwitchTable, "other_config", func(map[string]string) map[string]string { return keys })
}

// Restart tells the process to end, leaving the kernel's datapath with its
// flows, and waits for the next one to answer.
func (v Vswitchd) Restart(ctx context.Context) error {
	if !v.supervised() {
		return errors.New("restarting ovs-vswitchd: it has no supervisor")
	}
	ctx, cancel := context.WithTimeout(ctx, restartTimeout)
	defer cancel()
	before, err := v.Client.Instance()
	if err == nil {
		_, err = v.Client.Call(ctx, "exit")
	}
	if err != nil {
		return fmt.Errorf("telling ovs-vswitchd to end: %w", err)
	}
	tick := time.NewTicker(restartPoll)
	defer tick.Stop()
	for {
		now, err := v.Client.Instance()
		if err == nil && now != before {
			if _, err = v.Client.Call(ctx, "version"); err == nil {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("ovs-vswitchd has ended and is not back: %w", errors.Join(ctx.Err(), err))
		case <-tick.C:
		}
	}
}
