// Command cni is the CNI plugin that the container runtime executes; it is
// installed as /opt/cni/bin/ovn-k8s-cni-overlay. It hands the command to the
// agent on its node and prints the agent's answer: see pkg/cni/shim.
//
// It reads only what the CNI specification names (stdin and CNI_*), holds no
// credentials and writes nothing but stdout.
package main

import (
	"os"

	"github.com/ovn-offload/ovn-offload/pkg/cni/shim"
)

func main() {
	if err := shim.Main("ovn-offload CNI plugin"); err != nil {
		if err.Print() != nil {
			os.Exit(2)
		}
		os.Exit(1)
	}
}
