// Package dpu splits a node in two: the host, which has the pods and their
// functions (VFs or scalable functions), and the DPU on its NIC, which has OVS
// and the functions' representors. Pod annotations join them:
//
//	host: pkg/cni -> Host.Plug -> dpu.connection-details --\
//	                                                        API server
//	host: pkg/cni <- Host.Wait <- dpu.connection-status  <-/    |
//	                                                            v
//	DPU:  informer, inventory, OVSDB -> Ports -> plug.OVS -> br-int
//	                                          -> dpu.connection-status
//	DPU:  Heartbeat -> Lease ovn-dpu-<host> -> host: Watch -> Host.Ready, CNI STATUS
//
// Ports is level-triggered: for a pod it compares what the pod's details claim
// with what the switch has, whatever event came before, so a lost, repeated or
// late annotation changes nothing. It believes the API server about which pods
// are the host's, the switch of the NIC about which functions are, and the host
// about nothing: a function that another live pod has is refused. What cannot be
// is said in the status at once, and the host's CNI error repeats it.
//
// A status names its sandbox, so that the answer to an earlier sandbox is never
// taken for that to a later one.
package dpu
