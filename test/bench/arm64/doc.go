// Package arm64 tests the arm64 image on an arm64 machine, as every BlueField is one: ovn-offload-agent as a host's
// agent and as that of its DPU, the CNI plugin, and the daemons of Open vSwitch and OVN.
//
// Place in the data flow: its test is compiled for arm64 and runs in a virtual machine whose root file system is the
// image (`make bench-arm64`, docs/bench.md). The machine is the host. A network namespace is its DPU, which has the
// simulated NIC. The API server, the controller and the Northbound database are those of test/apiserver, which starts
// the machine, makes Node and pods, and looks at their annotations afterwards.
package arm64
