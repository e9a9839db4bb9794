package nodeflows

import (
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
)

// TestFindReceivers_OfPacketsThatAPolicyDrops: behind a tunnel the flow that drops does not match the address of the pod, and the
// one before it does. Where two pods have the address, or two pods may be meant, the pod is not known.
func TestFindReceivers_OfPacketsThatAPolicyDrops(t *testing.T) {
	ports := []offload.Port{
		{Name: "db", Pod: contract.PodOwner("shop", "db"), MAC: "0a:58:0a:f4:01:07"}, {Name: "web", Pod: contract.PodOwner("shop", "web"), MAC: "0a:58:0a:f4:01:08"},
		{Name: "one", Pod: contract.PodOwner("red", "one"), MAC: "0a:58:0a:f4:01:09"}, {Name: "other", Pod: contract.PodOwner("blue", "other"), MAC: "0a:58:0a:f4:01:09"},
	}
	flow := func(receiver string, recirculation uint32, next ...uint32) numbered {
		f := flowapi.Flow{From: flowapi.End{Port: "genev_sys_6081"}, Way: flowapi.Way{Recirculation: recirculation, Next: next, Drops: next == nil}}
		return numbered{Flow: f, receiver: receiver}
	}
	elsewhere := flow("0a:58:0a:f4:01:08", 0, 1)
	elsewhere.From.Port = "eth0"
	for name, c := range map[string]struct {
		flows []numbered
		want  string
	}{
		"an earlier flow has the address": {[]numbered{flow("", 1), flow("0a:58:0a:f4:01:07", 0, 1), elsewhere}, "db"},
		"two flows earlier":               {[]numbered{flow("", 2), flow("", 1, 2), flow("0a:58:0a:f4:01:07", 0, 1)}, "db"},
		"its own":                         {[]numbered{flow("0a:58:0a:f4:01:08", 0)}, "web"},
		"of two pods":                     {[]numbered{flow("", 1), flow("0a:58:0a:f4:01:07", 0, 1), flow("0a:58:0a:f4:01:08", 0, 1)}, ""},
		"of two networks":                 {[]numbered{flow("0a:58:0a:f4:01:09", 0)}, ""},
		"of a router":                     {[]numbered{flow("0a:58:0a:f4:01:01", 0)}, ""},
		"in a circle":                     {[]numbered{flow("", 1), flow("", 1, 1)}, ""},
	} {
		findReceivers(c.flows, ports)
		got := ""
		if end := c.flows[0].For; end != nil {
			got = end.Pod
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if len(c.flows) > 1 && c.flows[1].For != nil {
			t.Errorf("%s: a flow that drops nothing: %+v", name, c.flows[1].For)
		}
	}
	dropped := numbered{Flow: flowapi.Flow{Way: flowapi.Way{For: &flowapi.End{Namespace: "shop", Pod: "db"}}}}
	if !chooses(flowapi.Query{Namespace: "shop", Pod: "db"}, &dropped.Flow) || chooses(flowapi.Query{Namespace: "shop", Pod: "web"}, &dropped.Flow) {
		t.Error("flows are chosen by their receiver")
	}
}
