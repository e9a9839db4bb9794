package dpu

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// A DEL does not wait for a DPU without a heartbeat, and waits for one with a heartbeat.
func TestUnplug_WaitsForLiveDPUOnly(t *testing.T) {
	p := newPair(t)
	p.start()
	port := hostPort(p.addPod("web"), "s", 0)
	_, err := p.host.Plug(t.Context(), port)
	must(t, err)
	must(t, p.host.Wait(t.Context(), port))
	p.kill()
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := p.host.Unplug(short, port.Plugged); err == nil || !strings.Contains(err.Error(), "has not let go") {
		t.Errorf("of a DPU that should be alive: %v", err)
	}
	_, err = p.host.Plug(t.Context(), port)
	must(t, err)
	p.host.Ready = func() error { return errors.New("away") }
	must(t, p.host.Unplug(t.Context(), port.Plugged))
	p.wantPorts("rep0 default_web s")
	p.start()
	p.wantPorts()
}

func refuse(clienttesting.Action) (bool, runtime.Object, error) {
	return true, nil, errors.New("no API server")
}

func TestHost_ErrorsNameTheirReason(t *testing.T) {
	p := newPair(t)
	pod := p.addPod("web")
	port := hostPort(pod, "s", 0)
	p.host.Ready = func() error { return errors.New("the DPU of this host is not ready: OVS does not run") }
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := p.host.Wait(short, port); err == nil || !strings.Contains(err.Error(), "OVS does not run") {
		t.Errorf("waiting in vain: %v", err)
	}
	for name, tc := range map[string]struct {
		spoil func()
		want  string
	}{
		"no device":       {func() { port.VF = nil }, "a pod needs a VF"},
		"another NIC":     {func() { port.VF = &vf.Handle{Device: "0000:18:02.0", Card: vf.CardOther} }, "VF 0000:18:02.0 is of another NIC than the DPU"},
		"another's UID":   {func() { port.UID = "x" }, "deleted or replaced"},
		"API server away": {func() { p.api.PrependReactor("patch", "pods", refuse) }, "no API server"},
	} {
		port = hostPort(pod, "s", 0)
		tc.spoil()
		if _, err := p.host.Plug(t.Context(), port); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

// Another DPU's software may name no sandbox: its error counts, its Ready could
// belong to any pod.
func TestHost_ReadyWithoutSandboxDoesNotCount(t *testing.T) {
	p := newPair(t)
	pod := p.addPod("web")
	for value, want := range map[string]string{
		`{"default":{"Status":"Ready"}}`:                "names no sandbox",
		`{"default":{"Status":"Error","Reason":"why"}}`: "the DPU of this host: why",
		`{"default":{}}`:                                "the DPU of this host",
		`{`:                                             contract.DPUStatusKey,
		``:                                              "has not answered",
	} {
		must(t, p.host.Annotate(t.Context(), p.view.Pod("default", "web"), map[string]string{contract.DPUStatusKey: value}))
		p.until("the informer has it", func() bool { return p.view.Pod("default", "web").Annotations[contract.DPUStatusKey] == value })
		if err := p.host.Check(hostPort(pod, "s", 0).Plugged); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", value, err, want)
		}
	}
}
