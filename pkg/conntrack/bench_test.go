package conntrack

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// large is br-int in a cluster of many services with ten servers each.
type large struct {
	fake
	services int
	peak     uint64 // of the heap, while lines come
	lines    int
}

func (l *large) tell(line func(string), text string) {
	if l.lines++; l.lines%1000 == 0 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		l.peak = max(l.peak, m.HeapAlloc)
	}
	line(text)
}

func (l *large) Dump(_ context.Context, _, _ string, flow func(string)) error {
	const before = "cookie=0x%x, table=14, priority=120,tcp,reg0=0x4/0x4,metadata=0x4,nw_dst=10.97.%d.%d,tp_dst=80 actions=load:0xa6048e3->NXM_NX_XXREG1[96..127],ct(table=15,zone=NXM_NX_REG13[0..15],nat)"
	const balanced = "cookie=0x%x, table=%d, priority=120,ct_state=+new+trk,tcp,metadata=0x4,nw_dst=10.97.%d.%d,tp_dst=80 actions=load:0xa6048e3->NXM_NX_XXREG1[96..127],load:0x50->NXM_NX_XXREG0[32..47],group:%d"
	const hairpin = "cookie=0x%x, table=68, priority=100,ct_mark=0x2/0x2,tcp,reg1=0xa610000,reg2=0x50/0xffff,nw_src=10.245.%d.%d,nw_dst=10.245.%d.%d,tp_dst=8080 actions=load:0x1->NXM_NX_REG10[7]"
	for i := range l.services {
		l.tell(flow, fmt.Sprintf(before, i, i/250, i%250))
		l.tell(flow, fmt.Sprintf(balanced, i, 17, i/250, i%250, 2*i))
		l.tell(flow, fmt.Sprintf(balanced, i, 21, i/250, i%250, 2*i+1))
		for n := range 10 {
			l.tell(flow, fmt.Sprintf(hairpin, i, i/250, i%250, n, i%250))
		}
	}
	return nil
}

func (l *large) Groups(_ context.Context, _, _ string, group func(string)) error {
	for i := range 2 * l.services {
		buckets := strings.Builder{}
		for n := range 10 {
			fmt.Fprintf(&buckets, ",bucket=bucket_id:%d,weight:100,actions=ct(commit,table=22,zone=NXM_NX_REG13[0..15],nat(dst=10.245.%d.%d:8080),exec(load:0x1->NXM_NX_CT_MARK[1]))", n, n, i/2%250)
		}
		l.tell(group, fmt.Sprintf(" group_id=%d,type=select,selection_method=dp_hash%s", i, buckets.String()))
	}
	return nil
}

// BenchmarkTables is one look at the tables on a node with one balanced connection.
func BenchmarkTables(b *testing.B) {
	c, ok := parseConnection("tcp,orig=(src=10.244.1.7,dst=10.97.3.4,sport=5,dport=80),reply=(src=10.245.1.4,dst=10.244.1.7,sport=8080,dport=5),zone=19")
	if !ok {
		b.Fatal("not read")
	}
	cfg := Defaults()
	cfg.Registerer = prometheus.NewRegistry()
	l := &large{services: 5000}
	k := New(cfg, Deps{Flows: l})
	for b.Loop() {
		if all, err := k.readAll(b.Context(), map[frontend]bool{c.frontend(): true}); err != nil || !all[c.frontend()][c.server()] {
			b.Fatal(all, err)
		}
	}
	b.ReportMetric(float64(l.peak)/(1<<20), "peak-MB")
}
