package controller

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
)

// BenchmarkNetworks: primary networks with one subnet come one after the other, each in a namespace of its own, on ten
// nodes with gateway routers, and go. The controller works on a real database. It reports the time until all rows are
// there, and until none is left.
func BenchmarkNetworks(b *testing.B) {
	const nodes = 10
	for _, n := range []int{125, 250, 500, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				var objects []k8sruntime.Object
				for i := range nodes {
					objects = append(objects, gatewayNode(fmt.Sprint("n", i), i+2))
				}
				for i := range n {
					objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
						Name: fmt.Sprint("tenant-", i), Labels: map[string]string{contract.PrimaryNetworkLabel: ""},
					}})
				}
				w := wholeWorld(b, nil, objects...)
				w.startAndLead()
				w.counts(b, "Logical_Switch.name", "ext_", nodes)
				before := w.server.Content()
				start := time.Now()
				for i := range n {
					w.putPrimary(i)
					if i%50 == 49 { // the fake drops none of its watchers, and panics if one is too slow
						w.counts(b, "Logical_Router.name", "net", i+1)
					}
				}
				w.counts(b, "Static_MAC_Binding.logical_port", "rtot-", 2*n*nodes)
				w.counts(b, "NAT.type", "snat", (n+7)*nodes)
				b.ReportMetric(time.Since(start).Seconds(), "s-until-there")
				runtime.GC()
				var memory runtime.MemStats
				runtime.ReadMemStats(&memory)
				b.ReportMetric(float64(memory.HeapAlloc)/1e6, "MB-live")
				start = time.Now()
				for i := range n {
					if err := w.policies.Resource(kube.NADs()).Namespace(fmt.Sprint("tenant-", i)).Delete(b.Context(), "main", metav1.DeleteOptions{}); err != nil {
						b.Fatal(err)
					}
					if i%50 == 49 {
						w.counts(b, "Logical_Router.name", "net", n-i-1)
					}
				}
				w.counts(b, "Static_MAC_Binding.logical_port", "rtot-", 0)
				b.ReportMetric(time.Since(start).Seconds(), "s-until-gone")
				if after := w.server.Content(); len(after) != len(before) {
					b.Errorf("%d networks left something:\n%s\nbefore:\n%s", n, after, before)
				}
				w.stop()
			}
		})
	}
}

// counts waits for a number of rows with a text in a column.
func (w *world) counts(b *testing.B, column, text string, want int) {
	b.Helper()
	table, column, _ := strings.Cut(column, ".")
	got := 0
	for deadline := time.Now().Add(10 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if got = strings.Count(w.server.Dump(table, column), text); got == want {
			return
		}
	}
	b.Fatalf("%s has %d rows %q, want %d: %s", table, got, text, want, w.logs)
}
