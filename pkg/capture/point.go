package capture

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
)

// Point is where packets are seen.
type Point string

// The points: the pod's own interface, and the interface on the node that belongs to it.
const (
	Pod         Point = "pod"
	Representor Point = "representor"
)

// Points are those of a name: a point, or all.
func Points(name string) ([]Point, error) {
	switch name {
	case string(Pod), string(Representor):
		return []Point{Point(name)}, nil
	case "all":
		return []Point{Pod, Representor}, nil
	}
	return nil, fmt.Errorf("--at=%s: want pod, representor or all", name)
}

// Request is what is captured.
type Request struct {
	// Port is the pod's logical switch port, and Address an address of the pod on the default network.
	Port    string
	Address netip.Addr
	// Filter is one of tcpdump; empty: all packets.
	Filter string
	// Count, Time and Snap bound each point: packets, duration and bytes of a packet.
	Count, Snap int
	Time        time.Duration
}

// script ends by itself, also when its reader is gone. The namespace of a pod is the one that has its address.
const script = `point=$1 port=$2 address=$3 seconds=$4 snap=$5 count=$6; shift 6
in= dev=
if [ "$point" = representor ]; then
	dev=$(ovs-vsctl --bare --columns=name find Interface external_ids:iface-id="$port")
else
	for ns in /run/netns/*; do
		dev=$(nsenter --net="$ns" ip -o address show to "$address" 2>/dev/null | cut -d' ' -f2)
		if [ -n "$dev" ]; then in="nsenter --net=$ns"; break; fi
	done
fi
if [ -z "$dev" ]; then echo "this node has no $point of $port with address $address" >&2; exit 1; fi
exec timeout --preserve-status -s INT "$seconds" $in tcpdump -Z root -n -U -i "$dev" -s "$snap" -c "$count" -w - -- "$@"`

// Command is what the agent's container runs.
func (r Request) Command(at Point) []string {
	command := []string{
		"sh", "-euc", script, "capture", string(at), r.Port, r.Address.String(),
		strconv.Itoa(int(r.Time.Seconds())), strconv.Itoa(r.Snap), strconv.Itoa(r.Count),
	}
	if r.Filter != "" {
		command = append(command, r.Filter)
	}
	return command
}

var captured = regexp.MustCompile(`(?m)^(\d+) packets? captured\r?$`)

// IsWhole says, of what tcpdump has printed at its end, that all of its packets came. The way to a container may break when
// the command has ended, before its exit code came.
func IsWhole(printed string, packets int) bool {
	found := captured.FindStringSubmatch(printed)
	return found != nil && found[1] == strconv.Itoa(packets)
}

// Unseen says what a point does not show of a pod; "" if it shows all.
func Unseen(at Point, hasVF bool, traffic []v1alpha1.PodTraffic) string {
	switch {
	case !hasVF:
		return ""
	case at == Pod:
		return "RDMA and DPDK, which pass the kernel by"
	case len(traffic) == 0:
		return "what is in hardware; how much that is, is not known"
	}
	return fmt.Sprintf("what is in hardware: %d %% of the packets of %s", traffic[0].Packets.Hardware, traffic[0].Port)
}
