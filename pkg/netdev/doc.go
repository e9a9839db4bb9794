// Package netdev is the only door to the kernel's network devices: netlink,
// sysctls and network namespaces.
//
// Place in the data flow:
//
//	pkg/cni   a pod's veth, addresses and routes  \
//	                                               > NS -> netlink socket of that namespace
//	pkg/node  the node's bridge, management port  /
//
// An NS is one network namespace with a netlink socket that was made inside it,
// so calls need no thread switch and may come from any goroutine; only Sysctl
// has to enter the namespace, on a thread of its own. Links are named, never
// held: every call finds the link anew, and a link that is not there is
// ErrNotFound. Calls that say Replace, Set or Delete are idempotent.
//
// netdevtest has a kernel in memory with the same methods. Users declare the small interface that they need of an NS.
package netdev
