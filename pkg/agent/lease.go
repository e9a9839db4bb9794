package agent

import (
	"context"
	"path/filepath"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/node/lease"
)

// leaseFile is beside the checkpoint of the uplink, and lives as long.
func leaseFile(cfg Config) string {
	return filepath.Join(filepath.Dir(cfg.Node.Checkpoint), "lease.json")
}

// captureLease records the DHCP lease of an uplink that will be taken over.
func (o *ovs) captureLease() error {
	if o.Node.SecondaryOnly {
		return nil // the uplink stays the host's
	}
	return lease.CaptureUplink(leaseFile(o.Config), o.Install.Run, o.Node, o.netns)
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
