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
	restartTimeout = time.Minute
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
	// Services are those of the host, for an Open vSwitch that comes with its system; nil: the agent does not restart that.
	Services Services
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
	out := &OVS{Observed: observed, Supervised: v.kept()}
	if service, err := v.service(context.Background()); !out.Supervised && v.Services != nil {
		out.Supervised, out.Unsupervised = service != "", err
	}
	return out
}

// kept compares the process that runs with the one that the ovs-node pod
// says it would start again. Without a supervisor, a node
// whose ovs-vswitchd ends has no network.
func (v Vswitchd) kept() bool {
	base := filepath.Join(v.Client.Dir, v.Client.Daemon)
	runs, err := os.ReadFile(base + ".pid")
	if err != nil {
		return false
	}
	kept, err := os.ReadFile(base + ".kept")
	runs, kept = bytes.TrimSpace(runs), bytes.TrimSpace(kept)
	return err == nil && len(runs) > 0 && bytes.Equal(runs, kept)
}

// service names the host's service that runs the process, "" for none.
func (v Vswitchd) service(ctx context.Context) (string, error) {
	if v.Services == nil {
		return "", nil
	}
	now, err := v.Client.Instance()
	if err != nil {
		return "", err
	}
	return v.Services.Of(ctx, now.PID)
}

// Merge sets keys of other_config.
func (v Vswitchd) Merge(ctx context.Context, keys map[string]string) error {
	return v.DB.EditKeys(ctx, vswitch.OpenvSwitchTable, "other_config", func(map[string]string) map[string]string { return keys })
}

// Restart tells the process to end, leaving the kernel's datapath with its
// flows, and waits for the next one to answer.
func (v Vswitchd) Restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, restartTimeout)
	defer cancel()
	before, err := v.Client.Instance()
	if err == nil {
		err = v.end(ctx)
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

// end ends the process by the one who starts it again.
func (v Vswitchd) end(ctx context.Context) error {
	if v.kept() {
		_, err := v.Client.Call(ctx, "exit")
		return err
	}
	service, err := v.service(ctx)
	if err == nil && service == "" {
		err = errors.New("it has no supervisor")
	}
	if err != nil {
		return err
	}
	return v.Services.Restart(ctx, service)
}
