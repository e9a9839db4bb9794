// Package attach moves a VF into a pod's namespace and detaches it again.
//
// Place in the data flow:
//
//	pkg/cni: ledger.Take (who has it) -> Mover.Prepare -> ledger (what it was like)
//	pkg/cni ADD      -> Mover.Attach -> pkg/netdev: the PF's side, the netdev, the RDMA device
//	pkg/cni DEL, sweep -> Mover.Detach -> the same backwards -> ledger.Release
//
// Each call first finds the VF and then does only what is missing. So a call can be repeated after a crash at any point,
// and a VF that the kernel has returned to the host namespace needs no special case. The netdev is found by its device,
// never by a recorded name. The ledger has the original settings before the first change, and the claim ends when they
// are restored. A VF with vfio has no netdev: only the PF's side is set.
//
// The representor is not part of this package: pkg/cni or the DPU sets it up before Attach and removes it before Detach.
package attach
