package offload

import (
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/offload/dpflow"
)

// BenchmarkClassify is a dump of 100,000 flows of 200 pods, parsed on the way.
func BenchmarkClassify(b *testing.B) {
	const flows, pods = 100_000, 200
	ports := make([]Port, pods)
	for i := range ports {
		ports[i] = web
		ports[i].Name = fmt.Sprintf("rep%d", i)
	}
	lines := make([]string, flows)
	for i := range lines {
		stage, attrs := i%3, "offloaded:yes, dp:tc"
		if i%10 == 0 {
			attrs = "dp:ovs"
		}
		action := fmt.Sprintf("ct(zone=%d),recirc(%#x)", i%pods, i+1)
		if stage == 2 {
			action = fmt.Sprintf("rep%d", (i+7)%pods)
		}
		recirc := 0
		if stage > 0 {
			recirc = i
		}
		lines[i] = fmt.Sprintf("ufid:%08x-0000-4000-8000-000000000000, recirc_id(%#x),dp_hash(0/0),skb_priority(0/0),in_port(rep%d),skb_mark(0/0),"+
			"ct_state(0x22/0x23),ct_zone(0/0),ct_mark(0/0x3),ct_label(0/0),packet_type(ns=0,id=0),"+
			"eth(src=0a:58:0a:80:01:05,dst=0a:58:0a:80:01:06),eth_type(0x0800),ipv4(src=10.128.1.5/255.255.255.254,dst=10.128.1.6,proto=6,tos=0/0,ttl=0/0,frag=no),"+
			"tcp(src=0/0,dst=0/0), packets:%d, bytes:%d, used:0.520s, %s, actions:%s", i, recirc, i/3%pods, i, i*98, attrs, action)
	}
	b.ReportAllocs()
	for b.Loop() {
		r := Classify(parsed(b, lines), ports, Settings{HWOffload: true})
		if got := r.Total.Sum().Flows; got != flows {
			b.Fatalf("%d flows", got)
		}
	}
}

func parsed(b *testing.B, lines []string) iter.Seq[dpflow.Flow] {
	return func(yield func(dpflow.Flow) bool) {
		for _, line := range lines {
			f, err := dpflow.Parse(line)
			if err != nil {
				b.Fatal(err)
			}
			if !yield(f) {
				return
			}
		}
	}
}

// BenchmarkMetrics_Update is what the sums of 200 pods cost after a dump: Compare is the part that Events need as well.
func BenchmarkMetrics_Update(b *testing.B) {
	const flows, pods = 100_000, 200
	before, after := sample(0), sample(time.Minute)
	after.Report.Ports = nil
	for i := range pods {
		p := web
		p.Name, p.Pod = fmt.Sprintf("rep%d", i), contract.PodOwner(fmt.Sprintf("n%d", i%50), fmt.Sprintf("p%d", i))
		after.Report.Ports = append(after.Report.Ports, PortReport{Port: p})
	}
	for i := range flows {
		place, reason := Hardware, Reason("")
		if i%10 == 0 {
			place, reason = OVS, ReasonAction
		}
		e := End{UFID: fmt.Sprint(i), From: fmt.Sprintf("rep%d", i%pods), To: []string{fmt.Sprintf("rep%d", (i+7)%pods)}, Place: place, Reason: reason}
		before.Report.Ends = append(before.Report.Ends, e)
		e.Packets = 10
		after.Report.Ends = append(after.Report.Ends, e)
	}
	b.Run("compare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			Compare(before, after)
		}
	})
	delta := Compare(before, after)
	b.Run("sums", func(b *testing.B) {
		m := NewMetrics(DetailAll)
		b.ReportAllocs()
		for b.Loop() {
			m.Update(after, &delta)
		}
	})
}
