package answer

import (
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/streams"
	"github.com/ovn-offload/ovn-offload/pkg/trace"
)

// TestLive_IsComparedWithTheComputedPath: the same decisions are the same, in whatever words a load balancer chooses. A policy that
// only one of them knows, or another verdict, is the difference. Where no packets are, nothing is compared.
func TestLive_IsComparedWithTheComputedPath(t *testing.T) {
	path := []trace.Step{
		{Where: "w1", What: "load balancer: to one of 10.244.2.9:5432, 10.244.2.10:5432", Object: "Service/shop/db"},
		{Where: "rtos-w1", What: "route 10.244.2.0/24"},
		{Where: "w2", What: "ingress[1]: allow-related", Object: "NetworkPolicy/shop/db-ingress"},
		{Where: "shop_db-0", What: "delivered"},
	}
	denied := append(path[:2:2], trace.Step{Where: "w2", What: "ingress policy: drop", Object: "NetworkPolicy/shop/new"})
	for name, c := range map[string]struct {
		steps   []trace.Step
		verdict trace.Verdict
		silent  bool
		want    string
		code    Code
	}{
		"same":     {path, trace.Delivered, false, "the computed path is the same: delivered", Good},
		"dropped":  {path, trace.Dropped, false, "the computed path is another: dropped\n", Degraded},
		"denied":   {denied, trace.Dropped, false, "another: dropped\n  only computed: ingress policy: drop by netpol/shop/new\n  only by flows: ingress[1]: allow-related by netpol/shop/db-ingress", Degraded},
		"unknown":  {path[:2], trace.Delivered, false, "another: delivered\n  only by flows: ingress[1]: allow-related by netpol/shop/db-ingress", Degraded},
		"no flows": {path, trace.Delivered, true, "not compared with the computed path, which is delivered: the flows are idle", Degraded},
	} {
		flows := shopFlows()
		if c.silent {
			flows = nil
		}
		l, err := NewLive(shop(t), streams.Ends{From: "pod/shop/web-0", To: "svc/shop/db", Protocol: "tcp", Port: "5432"}, "", flows, nil)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text(t, l), "computed path") {
			t.Errorf("%s: compared without being asked", name)
		}
		l.Compare(c.steps, c.verdict)
		if got := text(t, l); !strings.Contains(got, c.want) || l.Code != c.code {
			t.Errorf("%s: exit code %d, no %q in\n%s", name, l.Code, c.want, got)
		}
	}
}
