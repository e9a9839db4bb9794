package dpu

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/cni/plug"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// A pod has a port on each of two networks. Each has its own details and status, and goes by itself.
func TestHandshake_OfTwoNetworks(t *testing.T) { onBoth(t, testTwoNetworks) }

func testTwoNetworks(t *testing.T, p *pair) {
	p.start()
	both, err := contract.SetNetwork(network, "blue", map[string]any{"ip_addresses": []string{"10.9.0.7/24"}, "mac_address": "0a:58:0a:09:00:07"})
	must(t, err)
	pod := p.create(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web", UID: "web-uid", Annotations: map[string]string{contract.PodNetworksKey: both},
		},
		Spec: corev1.PodSpec{NodeName: host},
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	first, second := hostPort(pod, "s1", 0), hostPort(pod, "s1", 1)
	second.Pod, second.IfName = second.Pod.On("blue"), "ovn-udn1"
	for _, port := range []plug.Port{first, second} {
		_, err := p.host.Plug(ctx, port)
		must(t, err)
	}
	for _, port := range []plug.Port{first, second} {
		must(t, p.host.Wait(ctx, port))
		must(t, p.host.Check(port.Plugged))
	}
	p.wantPorts("rep0 default_web s1", "rep1 blue_default_web s1")
	list, err := p.host.Plugged(first.Pod)
	if err != nil || len(list) != 2 || list[0] != second.Plugged || list[1] != first.Plugged {
		t.Errorf("plugged: %+v, %v", list, err)
	}
	must(t, p.host.Unplug(ctx, first.Plugged))
	p.wantPorts("rep1 blue_default_web s1")
	must(t, p.host.Check(second.Plugged))
	must(t, p.host.Unplug(ctx, second.Plugged))
	p.wantPorts()
}
