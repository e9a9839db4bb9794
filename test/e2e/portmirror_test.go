//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
)

// portMirror makes or changes a PortMirror of the pods of a namespace with the label app=web, until the test ends.
func portMirror(t *testing.T, ns, tunnel string) {
	t.Helper()
	apply(t, fmt.Sprintf("apiVersion: ovn-offload.io/v1alpha1\nkind: PortMirror\nmetadata: {name: %[1]s}\nspec:\n"+
		"  sources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}, podSelector: {matchLabels: {app: web}}}\n  collector: {tunnel: %[2]s}\n", ns, tunnel))
	t.Cleanup(func() {
		_ = objectsOf(t, v1alpha1.PortMirrors(), "").Delete(context.Background(), ns, metav1.DeleteOptions{})
	})
}

// copiedOutside tells whether a packet that a filter takes comes to the external host with an address in it, while send sends some.
func copiedOutside(filter string, of netip.Addr, send func()) bool {
	done := make(chan error, 1)
	go func() {
		a := of.As4()
		in := fmt.Sprintf("%02x%02x %02x%02x", a[0], a[1], a[2], a[3])
		_, err := onNode(outside, "sh", "-c", fmt.Sprintf("timeout 5 tcpdump -nnlxx -i eth0 '%s' 2>/dev/null | grep -qm1 '%s'", filter, in))
		done <- err
	}()
	for {
		send()
		select {
		case err := <-done:
			return err == nil
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// TestPortMirror_TunnelLeadsOutside: a host outside gets the copies in packets of GRE or ERSPAN from the node of a selected pod,
// and none of an unselected pod, nor without the mirror.
func TestPortMirror_TunnelLeadsOutside(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	web, other, client := running(t, ns, "web", nodes[1]), running(t, ns, "other", nodes[1]), running(t, ns, "client", nodes[2])
	host := machineAddresses(t, outside)[0]
	filter := fmt.Sprintf("ip proto 47 and src host %s", ofFamily(machineAddresses(t, nodes[1]), host))
	if host.Is6() {
		t.Skip("Open vSwitch makes tunnels of type ip6gre in the kernel only")
	}
	sent := func(to *corev1.Pod) bool {
		return copiedOutside(filter, ofFamily(addresses(t, to), host), func() { mustInPod(t, client, "probe", "dial", "tcp", podPort(t, to).String()) })
	}
	if sent(web) {
		t.Error("GRE comes without a mirror, this shows nothing")
	}
	for _, protocol := range []string{"GRE", "ERSPAN"} {
		portMirror(t, ns, fmt.Sprintf("{protocol: %s, address: %s, key: 7}", protocol, host))
		eventually(t, podWithin, "copies by "+protocol, func() (bool, string) { return sent(web), "" })
		if sent(other) {
			t.Errorf("%s comes of a pod that is not selected", protocol)
		}
	}
	kubectlDelete(t, ns, "portmirror", ns)
	eventually(t, podWithin, "no copies without the mirror", func() (bool, string) { return !sent(web), "" })
}
