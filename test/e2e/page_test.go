//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/web"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// TestPage_MapAndPoliciesNameWhatDrops: packets that nothing drops are an edge of the map. Once a policy drops those of a pod,
// the edge has its name, and the table of policies has its drops. A policy that selects no pod has matched nothing.
func TestPage_MapAndPoliciesNameWhatDrops(t *testing.T) {
	world.Test(t, world.Tools)
	ns := world.Namespace(t)
	guarded, neighbor, client := world.Pod(ns, "guarded", nodes[2], world.Behind("web")), world.Pod(ns, "neighbor",
		nodes[2]), world.Pod(ns, "client", nodes[1])
	world.Run(t, guarded, neighbor, client)
	world.LabelPod(t, guarded, `{"app":"guarded"}`)
	target := world.Endpoints(guarded)[0]
	world.Reaches(t, neighbor, true, target)
	keepsSending(t, client, "true", target.String())
	keepsSending(t, neighbor, "true", target.String())
	page, q := openPage(t, "", "--direct"), url.Values{"namespaces": {ns}}
	edges := func() []web.Edge { // none while the page does not have the map
		var view struct{ Answer web.Map }
		if code := page.view(t, "map", q, &view); code != http.StatusOK {
			t.Logf("the map: status %d", code)
		}
		return view.Answer.Edges
	}
	has := func(all []web.Edge, from string, is func(web.Edge) bool) bool {
		return slices.ContainsFunc(all, func(e web.Edge) bool { return e.From == "pod/"+ns+"/"+from && is(e) })
	}
	world.Eventually(t, flowsWithin, "both pods are in the map, and nothing drops", func() (bool, string) {
		all := edges()
		drops := slices.ContainsFunc(all, func(e web.Edge) bool { return e.Dropped > 0 })
		// Without a policy, datapath flows match no ports. The map then cannot say which end is the client.
		between := func(name string) bool {
			ends := []string{"pod/" + ns + "/" + name, "pod/" + ns + "/guarded"}
			return slices.ContainsFunc(all, func(e web.Edge) bool {
				return e.Packets > 0 && slices.Contains(ends, e.From) && slices.Contains(ends, e.To)
			})
		}
		return !drops && between("client") && between("neighbor"), fmt.Sprintf("%+v", all)
	})

	world.CreatePolicy(t, ns, "lets-client", world.AllowPods("guarded", "client"))
	world.CreatePolicy(t, ns, "selects-none", world.AllowPods("absent", "client"))
	world.Reaches(t, neighbor, false, target)
	by := "netpol/" + ns + "/lets-client"
	world.Eventually(t, flowsWithin, "the map names the policy that drops", func() (bool, string) {
		all := edges()
		return has(all, "neighbor", func(e web.Edge) bool { return e.Dropped > 0 && slices.Contains(e.By, by) }) &&
			has(all, "client", func(e web.Edge) bool { return e.Packets > 0 && e.Dropped == 0 }), fmt.Sprintf("%+v", all)
	})
	world.Eventually(t, flowsWithin, "the table has its drops, and the policy without any packet", func() (bool, string) {
		var view struct{ Answer web.Policies }
		page.view(t, "policies", q, &view)
		drops := slices.ContainsFunc(view.Answer.Policies, func(p web.Policy) bool {
			return p.Policy == by && p.Dropped > 0 && p.Packets > p.Dropped && p.Pods != nil && *p.Pods == 1 && !p.Nothing
		})
		nothing := slices.ContainsFunc(view.Answer.Policies, func(p web.Policy) bool {
			return p.Policy == "netpol/"+ns+"/selects-none" && p.Nothing && p.Pods != nil && *p.Pods == 0
		})
		return drops && nothing, fmt.Sprintf("%+v", view.Answer)
	})
}
