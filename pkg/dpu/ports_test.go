package dpu

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/cni/plug"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

func hostPort(pod *corev1.Pod, sandbox string, vfNumber int) plug.Port {
	inv := hostInventory()
	handle, _ := inv.Handle("0000:03:00.2")
	handle.Function.Number = uint32(vfNumber)
	return plug.Port{
		Plugged: plug.Plugged{
			Pod: contract.PodOwner(pod.Namespace, pod.Name), UID: string(pod.UID),
			Sandbox: sandbox, IfName: "eth0", Attachment: "eth0", Network: "ovn-kubernetes", Representor: true,
		},
		MAC: net.HardwareAddr{0x0a, 0x58, 10, 244, 1, 5}, Addresses: []netip.Prefix{netip.MustParsePrefix("10.244.1.5/24")}, MTU: 1400,
		VF: &handle, Netdev: "ens1f0v0",
	}
}

// Both sides together, from the host's Plug to the DPU's port and back.
func TestHandshake_FromPlugToPortAndBack(t *testing.T) { onBoth(t, testHandshake) }

func testHandshake(t *testing.T, p *pair) {
	p.start()
	pod := p.addPod("web")
	port := hostPort(pod, "s1", 0)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	link, err := p.host.Plug(ctx, port)
	if err != nil || link != "" {
		t.Fatalf("plug: link %q, %v", link, err)
	}
	must(t, p.host.Wait(ctx, port))
	must(t, p.host.Check(port.Plugged))
	got, err := p.api.CoreV1().Pods("default").Get(ctx, "web", metav1.GetOptions{})
	must(t, err)
	for key, want := range map[string]string{
		contract.DPUConnectionKey: `{"default":{"pfId":"0","vfId":"0","sandboxId":"s1","vfNetdevName":"ens1f0v0",` +
			`"pfMac":"5c:00:00:00:00:01","ofDpu":true,"podIfName":"eth0","network":"ovn-kubernetes"}}`,
		contract.DPUStatusKey: `{"default":{"Status":"Ready","SandboxId":"s1"}}`,
	} {
		if got.Annotations[key] != want {
			t.Errorf("%s is\n%s, want\n%s", key, got.Annotations[key], want)
		}
	}
	iface := p.db.Table(vswitch.InterfaceTable)[0].(*vswitch.Interface)
	for key, want := range map[string]string{
		"iface-id": "default_web", "iface-id-ver": "web-uid", "sandbox": "s1", "attached_mac": "0a:58:0a:f4:01:05",
		"ip_addresses": "10.244.1.5/24,fd00:10:244:1::5/64", "pod-if-name": "eth0", "vf-netdev-name": "ens1f0v0",
	} {
		if iface.ExternalIDs[key] != want {
			t.Errorf("external_ids:%s is %q, want %q", key, iface.ExternalIDs[key], want)
		}
	}
	if l, _ := p.links.Link("rep0"); !l.Up || l.MTU != 1400 {
		t.Errorf("representor: %+v", l)
	}
	if list, err := p.host.Plugged(); err != nil || len(list) != 1 || list[0] != port.Plugged {
		t.Errorf("plugged: %+v, %v", list, err)
	}

	// A DEL of another sandbox changes nothing, that of this one waits for the DPU.
	other := port.Plugged
	other.Sandbox = "s0"
	must(t, p.host.Unplug(ctx, other))
	p.wantPorts("rep0 default_web s1")
	must(t, p.host.Unplug(ctx, port.Plugged))
	if n := len(p.db.Table(vswitch.InterfaceTable)); n != 0 || p.status("web") != nil {
		t.Errorf("after Unplug: %d ports, status %v", n, p.status("web"))
	}
	if l, _ := p.links.Link("rep0"); l.Up {
		t.Error("the representor is still up")
	}
	must(t, p.host.Unplug(ctx, port.Plugged))
}

// The DPU says why not, and the host's wait ends with it at once.
func TestPorts_RefusalEndsWaitOfHost(t *testing.T) {
	p := newPair(t)
	p.devices("rep0 c1pf0vf0", "other c2pf0vf1", "own pf0vf2", "sf pf0sf5")
	p.controllers = []uint32{1}
	p.start()
	p.running("holder", 0, "h")
	for name, tc := range map[string]struct{ details, reason string }{
		"absent":         {vfDetails(7, "s"), "no function pf0vf7"},
		"another host's": {vfDetails(1, "s"), "no function pf0vf1"}, // another host's
		"dpus":           {vfDetails(2, "s"), "no function pf0vf2"}, // the DPU's own
		"dpus-sf":        {`{"default":{"pfId":"0","sfId":"5","sandboxId":"s"}}`, "no function pf0sf5"},
		"pf":             {`{"default":{"pfId":"3","vfId":"0","sandboxId":"s"}}`, "no function pf3vf0"},
		"taken":          {vfDetails(0, "s"), "is that of pod default/holder"},
		"malformed":      {`{"default":{"pfId":"zero"}}`, `"zero" is not a function's number`},
		"empty":          {`{"default":{}}`, "sandboxId is missing"},
	} {
		p.addPod(name)
		p.write(name, tc.details)
		p.wantError(name, tc.reason)
	}
	p.wantPorts("rep0 default_holder h")

	pod := p.addPod("asks")
	port := hostPort(pod, "s", 9)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := p.host.Plug(ctx, port)
	must(t, err)
	start := time.Now()
	err = p.host.Wait(ctx, port)
	if err == nil || !strings.Contains(err.Error(), "no function pf0vf9") || ctx.Err() != nil {
		t.Errorf("after %s: %v", time.Since(start), err)
	}
}

// A pod of another node is not listened to, whatever is written on it.
func TestPorts_PodOfAnotherNodeIsIgnored(t *testing.T) {
	p := newPair(t)
	p.start()
	p.create(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "forged", UID: "f",
			Annotations: map[string]string{contract.PodNetworksKey: network, contract.DPUConnectionKey: vfDetails(0, "s")},
		},
		Spec: corev1.PodSpec{NodeName: "elsewhere"},
	})
	p.addPod("web") // the control: afterwards the first was surely looked at
	p.write("web", vfDetails(1, "s"))
	p.wantReady("web", "s")
	p.wantPorts("rep1 default_web s")
	if s := p.status("forged"); s != nil {
		t.Errorf("status %+v was written", s)
	}
}

// A function goes to the next pod when the last one lets go, whichever way.
func TestPorts_FreedFunctionGoesToNextPod(t *testing.T) {
	for name, leave := range map[string]func(p *pair){
		"details removed": func(p *pair) { p.write("a", "") },
		"deleted":         func(p *pair) { p.deletePod("a") },
		"finished": func(p *pair) {
			pod, err := p.api.CoreV1().Pods("default").Get(p.t.Context(), "a", metav1.GetOptions{})
			must(p.t, err)
			pod.Status.Phase = corev1.PodSucceeded
			_, err = p.api.CoreV1().Pods("default").UpdateStatus(p.t.Context(), pod, metav1.UpdateOptions{})
			must(p.t, err)
		},
		"another function": func(p *pair) { p.write("a", vfDetails(1, "sa")) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			p.start()
			p.running("a", 0, "sa")
			p.addPod("b")
			p.write("b", vfDetails(0, "sb"))
			p.wantError("b", "default/a")
			leave(p)
			p.wantReady("b", "sb")
		})
	}
}

// The next sandbox of a pod gets a new row even on the same function: the old
// one says that its flows are there.
func TestPorts_NextSandboxGetsNewRow(t *testing.T) {
	p := newPair(t)
	p.start()
	p.running("web", 0, "s1")
	p.bind(false)
	p.write("web", vfDetails(0, "s2"))
	p.wantPorts("rep0 default_web s2")
	p.wantError("web", "has not opened rep0") // no ovs-vswitchd opens it here
	p.bind(true)
	p.wantReady("web", "s2")
}

// The status of an earlier sandbox is no answer to a later one.
func TestHost_StatusOfEarlierSandboxIsNoAnswer(t *testing.T) {
	p := newPair(t)
	p.start()
	pod := p.addPod("web")
	p.write("web", vfDetails(0, "s1"))
	p.wantReady("web", "s1")
	p.kill()
	port := hostPort(pod, "s2", 0)
	_, err := p.host.Plug(t.Context(), port)
	must(t, err)
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := p.host.Wait(short, port); err == nil || !strings.Contains(err.Error(), "has not answered") {
		t.Errorf("without the DPU: %v", err)
	}
	p.start()
	must(t, p.host.Wait(t.Context(), port))
}

// A scalable function is attached as a VF is.
func TestPorts_ScalableFunctionIsAttached(t *testing.T) {
	p := newPair(t)
	p.start()
	p.addPod("web")
	p.write("web", `{"default":{"pfId":"0","sfId":"88","sandboxId":"s"}}`)
	p.wantReady("web", "s")
	p.wantPorts("repsf default_web s")
}

// Without addresses there is nothing to plug yet; when they come it is.
func TestPorts_WaitForAddressesOfPod(t *testing.T) {
	p := newPair(t)
	p.start()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web", UID: "u",
			Annotations: map[string]string{contract.DPUConnectionKey: vfDetails(0, "s")},
		},
		Spec: corev1.PodSpec{NodeName: host},
	}
	p.create(pod)
	p.running("other", 1, "o")
	p.wantPorts("rep1 default_other o")
	must(t, kube.NewWriter(apitest.Client(p.api)).AnnotatePod(t.Context(), p.view.Pod("default", "web"), map[string]string{contract.PodNetworksKey: network}))
	p.wantReady("web", "s")
}
