package cni

import (
	"strings"
	"testing"
)

// Where pods that ask for none are to have a device, they get a reserved one;
// one that asks gets what the kubelet gave it, and an exhausted reserve is an error.
func TestSpareDevice_IsForPodsWithoutRequest(t *testing.T) {
	n := newNIC(t)
	spare := []string{vf1}
	n.srv.deps.Functions.Spare = func() []string { return spare }
	n.askFor(webUID)
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	if c, ok := n.led.Holder(vf1); !ok || c.Sandbox != sandboxA || c.Resource != "" {
		t.Errorf("claim %+v", c)
	}
	n.mustDo(delWeb(sandboxA, "/ns/a"))
	if _, ok := n.led.Holder(vf1); ok {
		t.Error("the device is still claimed")
	}
	n.askFor(webUID, vfPool)
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	if _, ok := n.led.Holder(vf0); !ok {
		t.Error("a pod that asks did not get what the kubelet gave it")
	}
	n.mustDo(delWeb(sandboxA, "/ns/a"))
	spare = nil
	n.askFor(webUID)
	if _, err := n.do(addWeb(sandboxB, "/ns/b")); codeOf(err) != CodeDevice || !strings.Contains(err.Error(), "none that is reserved") {
		t.Errorf("without a reserve: %v", err)
	}
	n.wantLinks()
}
