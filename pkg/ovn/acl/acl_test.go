package acl

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// TestEveryPod_HasAddressesOfPodsOnly goes through all addresses of three nodes'
// subnets and those around the cluster's: a router's and a node's own are left out.
func TestEveryPod_HasAddressesOfPodsOnly(t *testing.T) {
	terms := everyPod(contract.Network{Subnets: []contract.Subnet{
		{Prefix: netip.MustParsePrefix("10.244.0.0/16"), NodeBits: 23}, {Prefix: netip.MustParsePrefix("fd00:10:244::/56"), NodeBits: 64},
	}})
	has := func(addr netip.Addr) bool {
		return slices.ContainsFunc(terms[contract.FamilyOf(addr)], func(term string) bool { return inTerm(addr, term) })
	}
	for _, subnet := range []string{"10.244.0.0/23", "10.244.128.0/23", "10.244.254.0/23"} {
		addr := netip.MustParsePrefix(subnet).Addr()
		for offset := range 512 {
			if got := has(addr); got != (offset >= 4) {
				t.Fatalf("%s, at %d of %s: %t", addr, offset, subnet, got)
			}
			addr = addr.Next()
		}
	}
	for text, want := range map[string]bool{
		"10.243.255.9": false, "10.245.0.9": false, "fd00:10:244:7::2": false, "fd00:10:244:7::3": false, "fd00:10:244:7::4": true,
		"fd00:10:244::f462": true, "fd00:10:244:ff:8000::": true, "fd00:10:244:100::9": false,
	} {
		if got := has(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %t, want %t", text, got, want)
		}
	}
}

// inTerm says whether an address is in "address/mask", as ovn-nb(5) has it.
func inTerm(addr netip.Addr, term string) bool {
	first, mask, _ := strings.Cut(term, "/")
	value, masked := netip.MustParseAddr(first).AsSlice(), netip.MustParseAddr(mask).AsSlice()
	for i, b := range addr.AsSlice() {
		if b&masked[i] != value[i]&masked[i] {
			return false
		}
	}
	return true
}

// TestAddressSet_LargeOneIsDivided: address sets stay below the limit, every address is
// in exactly one of the layout that rules refer to, and beside a limit the
// layout beyond it is there too.
func TestAddressSet_LargeOneIsDivided(t *testing.T) {
	for members, want := range map[int]string{1: "[1]", 4000: "[1]", 4500: "[1 2]", 5000: "[1 2]", 5001: "[2 1]", 6000: "[2 1]", 6500: "[2]", 9000: "[2 4]", 11000: "[4 2]"} {
		if got := fmt.Sprint(layouts(members)); got != want {
			t.Errorf("%d members: %s, want %s", members, got, want)
		}
	}
	seen := map[int]int{}
	for i := range 9000 {
		seen[partOf(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("pod-", i)}}, 4)]++
	}
	for part := range 4 {
		if seen[part] < 2000 || seen[part] > 2500 {
			t.Errorf("part %d has %d of 9000 members", part, seen[part])
		}
	}
}
