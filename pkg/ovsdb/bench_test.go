package ovsdb_test

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

const benchNodes, benchPods = 200, 100_000

func benchWant(i int) ovsdb.Want {
	node, name := fmt.Sprintf("n%d", i%benchNodes), fmt.Sprintf("ns%d_pod%d", i%500, i)
	address := fmt.Sprintf("0a:58:0a:%02x:%02x:%02x 10.%d.%d.%d", i>>16, i>>8&255, i&255, i>>16, i>>8&255, i&255)
	return ovsdb.Want{Owner: "Pod/" + name, Rows: []ovsdb.Row{{
		ID: name,
		Model: &nb.LogicalSwitchPort{
			Name: name, Addresses: []string{address}, PortSecurity: []string{address},
			Options:     map[string]string{"iface-id-ver": name, "requested-chassis": node},
			ExternalIDs: map[string]string{"namespace": "ns", "pod": "true"},
		},
		Parents: []ovsdb.Parent{{Table: nb.LogicalSwitchTable, Name: node, Column: "ports"}},
	}}}
}

// BenchmarkEngine commits 100,000 pods in transactions of ten to a real server,
// and then builds and compares them all. It reports rows a second, the seconds
// of one full comparison with the process' peak memory during it, and the heap
// that the replica keeps.
func BenchmarkEngine(b *testing.B) {
	_, db := open(b)
	for i := range benchNodes {
		name := fmt.Sprintf("n%d", i)
		commit(b, db, ovsdb.Want{Owner: "Node/" + name, Rows: []ovsdb.Row{switchRow(name)}})
	}
	b.Run("Commit", func(b *testing.B) {
		for b.Loop() {
			for i := 0; i < benchPods; i += 10 {
				batch(b, db, i)
			}
			b.ReportMetric(benchPods/b.Elapsed().Seconds(), "rows/s")
		}
	})
	b.Run("BuildAndCompare", func(b *testing.B) {
		debug.FreeOSMemory()
		if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // the peak counts from here
			b.Log(err)
		}
		for b.Loop() {
			for i := 0; i < benchPods; i += 10 {
				if changes := batch(b, db, i); len(changes) > 0 {
					b.Fatalf("a comparison changed %v", changes)
				}
			}
		}
		b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/100kpods")
		b.ReportMetric(peak(b), "peak-MiB")
		runtime.GC()
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		b.ReportMetric(float64(memory.HeapAlloc)/(1<<20), "heap-MiB")
	})
}

// peak is the most memory that this process has had, in MiB (proc_pid_status(5)).
func peak(b *testing.B) float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	_, text, _ := strings.Cut(string(status), "VmHWM:")
	var kilobytes float64
	if _, err := fmt.Sscan(text, &kilobytes); err != nil {
		b.Fatal(err)
	}
	return kilobytes / 1024
}

func batch(b *testing.B, db *ovsdb.DB, from int) []ovsdb.Change {
	wants := make([]ovsdb.Want, 10)
	for i := range wants {
		wants[i] = benchWant(from + i)
	}
	return commit(b, db, wants...)
}
