package node

import "github.com/ovn-offload/ovn-offload/pkg/netdev"

// Local is a real namespace as a Host.
type Local struct{ *netdev.NS }

// SysctlValue reads what Sysctl writes.
func (l Local) SysctlValue(key string) (string, error) { return netdev.SysctlValue(l.NS, key) }
