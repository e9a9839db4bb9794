// Package attach takes a VF into a pod's namespace and home again.
//
// Place in the data flow:
//
//	pkg/cni: ledger.Take (who has it) -> Mover.Prepare -> ledger (what it was like)
//	pkg/cni ADD      -> Mover.Attach -> pkg/netdev: the PF's side, the netdev, the RDMA device
//	pkg/cni DEL, sweep -> Mover.Detach -> the same backwards -> ledger.Release
//
// Each call looks where the VF is before it does anything, and does only what is
// lacking; so it may be made again after a crash at any point, and a VF that the
// kernel has brought home by itself is as good as one that is still in the pod.
// The netdev is found by its device, never by a remembered name. What it was
// like is in the ledger before the first change; the claim ends when it is so
// again. A VF that VFIO has got has no netdev: there it is the PF's side only.
//
// The representor is not this package's: whoever has the switch sets it up
// before Attach and takes it down before Detach.
package attach
