package dpu

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// own sets what the host's Node says of its management port.
func (p *pair) own(claim string) {
	p.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: host, Annotations: map[string]string{contract.ManagementPortKey: claim}}}
	nodes := p.api.CoreV1().Nodes()
	_, err := nodes.Update(p.t.Context(), node, metav1.UpdateOptions{})
	if err != nil {
		_, err = nodes.Create(p.t.Context(), node, metav1.CreateOptions{})
	}
	must(p.t, err)
	p.until("the informer has the node", func() bool {
		seen := p.view.Node(host)
		return seen != nil && seen.Annotations[contract.ManagementPortKey] == claim
	})
}

// The host's management port is its VF's representor, and no other pod gets it.
func TestManagementPort_IsRepresentorOfClaimedVF(t *testing.T) {
	p := newPair(t)
	p.start()
	inv := hostInventory()
	second, _ := inv.Handle("0000:03:00.3")
	claim, err := ClaimManagement(second, "")
	must(t, err)
	if want := `{"default":{"DeviceId":"0000:03:00.3","PfId":0,"FuncId":1,"PfMac":"5c:00:00:00:00:01"}}`; claim != want {
		t.Errorf("claim %s, want %s", claim, want)
	}
	if got, err := p.current().Management(); got != nil || err != nil {
		t.Errorf("without a node: %+v, %v", got, err)
	}
	p.own(claim)
	if got, err := p.current().Management(); err != nil || got.Name != "rep1" {
		t.Errorf("%+v, %v", got, err)
	}
	p.addPod("thief")
	p.write("thief", vfDetails(1, "t"))
	p.wantError("thief", "function c1pf0vf1 is that of the host's management port")
	p.own("") // the function is free, and the pod has it at once
	p.wantReady("thief", "t")
	p.wantPorts("rep1 default_thief t")

	for what, want := range map[string]string{
		claim:                               "function c1pf0vf1 is that of pod default/thief",
		`{"default":{"PfId":0,"FuncId":9}}`: "host worker has no function pf0vf9",
		`{"default":{"PfId":"x"}}`:          "management port",
	} {
		p.own(what)
		if got, err := p.current().Management(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v, want %q", what, got, err, want)
		}
	}
}
