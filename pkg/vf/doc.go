// Package vf knows a node's NICs: physical functions with the mode of their
// eswitch, VFs, scalable functions, their representors, and bonds of uplinks.
//
// Place in the data flow:
//
//	sysfs   -> Discover (what is there)  \
//	                                      > Enrich (pure) -> Inventory -> the inventory command, the
//	devlink, links, features, RDMA: Facts /                   device plugin, nodeoffloads, pkg/cni
//
// Node.Read does both; Node.Watch does it again when devlink, link or uevent
// messages say so. The mode of an eswitch is devlink's answer only: mlx5 has a
// switch id and port names in legacy mode too. A representor belongs to the
// function with the same switch id, host, PF and number; an uncertain match
// is a problem in the inventory instead. No NIC, a plain NIC and
// legacy SR-IOV are normal, and one broken device does not mask the others.
//
// sriovnet, rdmamap and ghw answer behind pkg/netdev what they answer rightly: the
// number of an SF, the PF of a VF, RDMA devices and their nodes, and names. What each
// of them would lose elsewhere is in docs/decisions/device-libraries.md.
package vf
