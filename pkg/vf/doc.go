// Package vf knows a node's NICs: physical functions with the mode of their
// switch, VFs, scalable functions, their representors, and bonds of uplinks.
//
// Place in the data flow:
//
//	sysfs   -> Discover (what is there)  \
//	                                      > Enrich (pure) -> Inventory -> the inventory command, the
//	devlink, links, features, RDMA: Facts /                   device plugin, nodeoffloads, pkg/cni
//
// Node.Read does both; Node.Watch does it again when devlink, link or uevent
// messages say so. The mode of a switch is devlink's answer only: mlx5 has a
// switch id and port names in legacy mode too. A representor belongs to the
// function with the same switch id, host, PF and number; what is not certain
// stays unmatched and is a problem in the inventory. No NIC, a plain NIC and
// legacy SR-IOV are normal, and one broken device does not hide the others.
//
// Libraries: netlink, ethtool behind pkg/netdev, and pcidb, of which ghw is
// made, for names. Not ghw, sriovnet or rdmamap for looking around: ghw empties
// its whole list over one malformed device; sriovnet dumps all ports of all
// devices at each call and takes the mode from sysfs; rdmamap keeps its roots
// in package variables and returns no errors. All of it is a few attributes.
package vf
