//go:build bench

package arm64

import (
	"flag"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/test/bench/machine"
)

// What test/apiserver says of the cluster.
var (
	pages          = flag.Int("pages", 0, "size of the kernel's pages in KiB")
	node           = flag.String("node", "", "name of the host's Node")
	namespace      = flag.String("namespace", "", "where the pods web1 and web2 are")
	north          = flag.String("north", "", "endpoint of the Northbound database")
	podSubnets     = flag.String("pod-subnets", "", "as the agents' --cluster-cidrs")
	serviceSubnets = flag.String("service-subnets", "", "as the agents' --service-cidrs")
)

// TestDPU_AttachesPodsOnARM64: two pods of a host come to br-int of its DPU and reach each other, in hardware, and one
// of them goes. Before, their ADDs fail: without the host's agent, and without the DPU's, while everything else runs.
func TestDPU_AttachesPodsOnARM64(t *testing.T) {
	if size := os.Getpagesize(); runtime.GOARCH != "arm64" || size != *pages<<10 {
		t.Fatalf("%s with pages of %d bytes, want arm64 and %d KiB", runtime.GOARCH, size, *pages)
	}
	h := newHost(t)
	web1, web2 := h.pod("web1"), h.pod("web2")
	web1.fails("ADD", "error 11: ADD: no answer from ovn-offload-agent")
	h.startHost()
	h.startSwitch()
	web1.fails("ADD", "the DPU of this host is not ready: it has never reported (no Lease)")
	h.wantPort("web1", "")
	h.startDPU()
	h.wantPort("web1", "")
	web1.must("ADD")
	h.wantPort("web1", h.port("pf0vf0"))
	web2.must("ADD")
	h.wantPort("web2", h.port("pf0vf1"))
	web1.must("CHECK")
	h.answers(web1, web2)
	former := web1.addresses()
	web1.must("DEL")
	h.wantPort("web1", "")
	for _, address := range former {
		if web2.reaches(address) {
			t.Errorf("%s answers after DEL", address)
		}
	}
	h.Log(machine.Run(t, "sh", "-c", "uname -mr; grep -h VmLck /proc/[0-9]*/status | sort -u; grep -E 'MemTotal|MemAvailable' /proc/meminfo"))
}

// wantPort compares the Interface of a pod on the DPU with a representor; "": there is none.
func (h *host) wantPort(pod, representor string) {
	h.Helper()
	if got := h.interfaces(pod); got != representor {
		h.Fatalf("%s has the Interface %q, want %q", pod, got, representor)
	}
}

// answers wants the pods to reach each other in both families, with flows in hardware.
func (h *host) answers(web1, web2 pod) {
	h.Helper()
	for _, address := range web2.addresses() {
		h.await("web1 reaches "+address, func() bool { return web1.reaches(address) })
	}
	in, seen := "in_port("+h.interfaces("web1")+")", ""
	h.Cleanup(func() {
		if h.Failed() {
			h.Log(seen)
		}
	})
	h.await("flows of web1 are in hardware", func() bool {
		web1.reaches(web2.addresses()[0])
		seen = h.offloaded()
		return strings.Contains(seen, in)
	})
}
