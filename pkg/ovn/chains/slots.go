package chains

import (
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// slotCount is the number of shares in which the packets of a function are divided, a power of two. The share of a packet is
// the sum of the last bits of its two addresses: the same in both directions, without state and without a hash in OVS.
const slotCount = 8

// divide gives each replica slots, of which the numbers differ by one at most. Most slots stay with their replicas when
// others come and go.
func divide(replicas []*corev1.Pod) map[*corev1.Pod][]int {
	shares := map[*corev1.Pod][]int{}
	full := 0
	for slot := range slotCount {
		least := slotCount / len(replicas)
		var best *corev1.Pod
		for _, pod := range replicas {
			has := len(shares[pod])
			if has > least || has == least && full == slotCount%len(replicas) {
				continue
			}
			if best == nil || weight(pod, slot) > weight(best, slot) {
				best = pod
			}
		}
		if len(shares[best]) == least {
			full++
		}
		shares[best] = append(shares[best], slot)
	}
	return shares
}

func weight(pod *corev1.Pod, slot int) uint64 {
	sum := fnv.New64a()
	fmt.Fprintf(sum, "%d %s", slot, pod.UID)
	return sum.Sum64()
}

// slots matches the packets of a hop in some slots.
func (b builder) slots(h hop, slots []int) string {
	name := matchName(h.family)
	var pairs []string
	for _, subnet := range b.chain.Ends(h.right, h.family) {
		for last := range slotCount {
			var sources []string
			for _, slot := range slots {
				sources = append(sources, lastBits(netip.PrefixFrom(zero(subnet), 0), (slot-last+slotCount)%slotCount))
			}
			slices.Sort(sources)
			if to := lastBits(subnet, last); to != "" {
				pairs = append(pairs, fmt.Sprintf("(%s.dst == %s && %s.src == {%s})", name, to, name, strings.Join(sources, ", ")))
			}
		}
	}
	return "(" + strings.Join(pairs, " || ") + ")"
}

func zero(of netip.Prefix) netip.Addr {
	if of.Addr().Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// lastBits are the addresses of a subnet with these last bits, as an address with a mask; "" when it has none.
func lastBits(subnet netip.Prefix, bits int) string {
	value, mask := subnet.Addr().AsSlice(), make([]byte, subnet.Addr().BitLen()/8)
	for i := range subnet.Bits() {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	end := len(value) - 1
	if value[end]&mask[end]&(slotCount-1) != byte(bits)&mask[end] {
		return ""
	}
	value[end] |= byte(bits)
	mask[end] |= slotCount - 1
	of := func(bytes []byte) netip.Addr { addr, _ := netip.AddrFromSlice(bytes); return addr }
	return fmt.Sprintf("%s/%s", of(value), of(mask))
}
