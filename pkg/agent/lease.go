package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/gateway"
	"github.com/ovn-offload/ovn-offload/pkg/node/lease"
)

// leaseFile is beside the checkpoint of the uplink, and lives as long.
func leaseFile(cfg Config) string {
	return filepath.Join(filepath.Dir(cfg.Node.Checkpoint), "lease.json")
}

// captureLease records the DHCP lease of an uplink that has not been taken over.
func (o *ovs) captureLease() error {
	if o.Node.SecondaryOnly {
		return nil // the uplink stays the host's
	}
	st, outlook, err := gateway.Foresee(o.Node, node.Local{NS: o.netns})
	if err != nil || st.Saved != nil || outlook.NIC == "" {
		return err
	}
	left, err := netdev.Lifetimes(o.netns, outlook.NIC)
	if err != nil {
		return err
	}
	return lease.Capture(leaseFile(o.Config), o.Install.Run, st.Links[outlook.NIC], left, time.Now())
}

// followLease keeps the lease, if there is one.
func (o *ovs) followLease(ctx context.Context) error {
	follower, err := lease.Open(leaseFile(o.Config), lease.Deps{
		Client: lease.DHCP{Timeout: 4 * time.Second, Attempts: 3}, Links: o.netns, Now: time.Now, Logger: o.Logger,
		Warn: func(_ lease.Lease, reason, message string) {
			o.report.Warn(contract.NodeOwner(o.Node.Node), reason, message)
		},
	})
	if err != nil {
		o.Logger.Warn("the DHCP lease of the node is not followed", "error", err)
	}
	if follower == nil {
		return nil
	}
	return follower.Run(ctx)
}

// forgetLease leaves the lease to the host.
func forgetLease(cfg Config) error {
	if err := os.Remove(leaseFile(cfg)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the record of a lease: %w", err)
	}
	return nil
}
