package lease

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/node/gateway"
)

// CaptureUplink saves the lease of an uplink that has not been taken over in this boot of the host. An uplink that has
// no IPv4 address after a boot keeps the lease of the former one.
func CaptureUplink(file, run string, cfg gateway.Config, ns *netdev.NS) error {
	st, outlook, err := gateway.Foresee(cfg, node.Local{NS: ns})
	if err != nil || st.Saved != nil && !st.HasBooted() || outlook.NIC == "" {
		return err
	}
	has := slices.ContainsFunc(st.Addrs[outlook.NIC], func(p netip.Prefix) bool { return p.Addr().Is4() })
	if st.Saved != nil && !has {
		return nil
	}
	left, err := netdev.Lifetimes(ns, outlook.NIC)
	if err != nil {
		return err
	}
	return Capture(file, run, st.Links[outlook.NIC], left, time.Now())
}

// Forget leaves the lease to the host.
func Forget(file string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the record of a lease: %w", err)
	}
	return nil
}
