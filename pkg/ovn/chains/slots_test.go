package chains

import (
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func someReplicas(n int) (pods []*corev1.Pod) {
	for i := range n {
		pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i), UID: types.UID(fmt.Sprint("uid-", i))}})
	}
	return pods
}

// TestDivide_IsEvenAndStays: each slot has one replica, the numbers differ by one at most, and the loss of one replica moves
// fewer slots than dividing by a remainder would.
func TestDivide_IsEvenAndStays(t *testing.T) {
	for n := 1; n <= slotCount+2; n++ {
		pods := someReplicas(n)
		owners := map[int]*corev1.Pod{}
		for pod, slots := range divide(pods) {
			if len(slots) < slotCount/n || len(slots) > (slotCount+n-1)/n {
				t.Errorf("%d replicas: %s has the slots %v", n, pod.Name, slots)
			}
			for _, slot := range slots {
				if owners[slot] != nil {
					t.Errorf("%d replicas: slot %d has two", n, slot)
				}
				owners[slot] = pod
			}
		}
		if len(owners) != slotCount {
			t.Errorf("%d replicas: slots %v", n, owners)
		}
		if n < 3 || n > slotCount {
			continue
		}
		moved := 0
		for pod, slots := range divide(pods[:n-1]) {
			for _, slot := range slots {
				if owners[slot] != pod && owners[slot] != pods[n-1] {
					moved++
				}
			}
		}
		if moved > slotCount/2 {
			t.Errorf("%d replicas: %d slots of others move when one is lost", n, moved)
		}
	}
}

func TestLastBits_OfASubnet(t *testing.T) {
	for _, tc := range []struct {
		subnet string
		bits   int
		want   string
	}{
		{"10.1.0.0/24", 5, "10.1.0.5/255.255.255.7"},
		{"0.0.0.0/0", 7, "0.0.0.7/0.0.0.7"},
		{"fd00:1::/64", 2, "fd00:1::2/ffff:ffff:ffff:ffff::7"},
		{"::/0", 0, "::/::7"},
		{"10.1.0.4/30", 5, "10.1.0.5/255.255.255.255"},
		{"10.1.0.4/30", 1, ""},
		{"10.1.0.6/32", 6, "10.1.0.6/255.255.255.255"},
		{"10.1.0.6/32", 7, ""},
	} {
		if got := lastBits(netip.MustParsePrefix(tc.subnet), tc.bits); got != tc.want {
			t.Errorf("%s, bits %d: %q, want %q", tc.subnet, tc.bits, got, tc.want)
		}
	}
}
