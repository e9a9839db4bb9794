package reroute

import (
	"fmt"
	"io/fs"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/cni/plug"
	"github.com/ovn-offload/ovn-offload/pkg/cni/podlink"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
)

// TestFollow_LeavesOthersAlone: nothing is done twice, without a namespace, to another interface of the name, during an ADD, and for
// another pod of the name.
func TestFollow_LeavesOthersAlone(t *testing.T) {
	const entry = `{"ns/red":{"ip_addresses":["10.8.0.7/24"],"mac_address":"0a:58:0a:08:00:07","routes":[{"dest":"203.0.113.%d/32","nextHop":"10.8.0.1"}],"role":"secondary","network":"red"}}`
	owner := contract.PodOwner("ns", "web")
	pod := func(uid string, route int) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "web", UID: types.UID("u" + uid), Annotations: map[string]string{contract.PodNetworksKey: fmt.Sprintf(entry, route)},
		}}
	}
	for name, c := range map[string]struct {
		change func(d *Deps)
		mac    string
		want   int // routes after the change
	}{
		"a change":              {want: 1},
		"no namespace known":    {change: func(d *Deps) { d.Netns = func(plug.Plugged) string { return "" } }},
		"the namespace is gone": {change: func(d *Deps) { d.OpenNS = func(string) (Netns, error) { return nil, fs.ErrNotExist } }},
		"during an ADD":         {change: func(d *Deps) { d.Busy = func(contract.Owner) bool { return true } }},
		"another pod":           {change: func(d *Deps) { d.Pod = func(string, string) *corev1.Pod { return pod("2", 1) } }},
		"the pod is gone":       {change: func(d *Deps) { d.Pod = func(string, string) *corev1.Pod { return nil } }},
		"another interface":     {mac: "0a:58:0a:08:00:08"},
	} {
		t.Run(name, func(t *testing.T) {
			fake := netdevtest.NewFake()
			fake.AddNS("/ns/a")
			mac := contract.MAC{0x0a, 0x58, 0x0a, 0x08, 0, 7}
			if c.mac != "" {
				mac[5]++
			}
			fake.AddLink("/ns/a", netdev.Link{Name: "lo"})
			fake.AddLink("/ns/a", netdev.Link{Name: "net1", MAC: []byte(mac)})
			ns, err := fake.Open("/ns/a")
			if err != nil {
				t.Fatal(err)
			}
			network, err := contract.ParsePodNetwork(pod("1", 0).Annotations[contract.PodNetworksKey], "ns/red")
			if err != nil {
				t.Fatal(err)
			}
			network.Routes = nil
			if err := podlink.Of(pod("1", 0), "ns/red", "net1", network).Configure(ns); err != nil {
				t.Fatal(err)
			}
			opened := 0
			d := Deps{
				Pod: func(string, string) *corev1.Pod { return pod("1", 1) },
				Plugged: func(...contract.Owner) ([]plug.Plugged, error) {
					return []plug.Plugged{{Pod: owner.On("ns/red"), UID: "u1", IfName: "net1", Netns: "/ns/a"}}, nil
				},
				Netns:  func(p plug.Plugged) string { return p.Netns },
				Busy:   func(contract.Owner) bool { return false },
				OpenNS: func(path string) (Netns, error) { opened++; return fake.Open(path) },
			}
			if c.change != nil {
				c.change(&d)
			}
			r := New(d, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
			for range 2 {
				if err := r.follow(owner); err != nil {
					t.Fatal(err)
				}
			}
			if routes, err := ns.Routes("net1"); err != nil || len(routes) != c.want || opened > 1 {
				t.Errorf("routes %v, error %v, opened %d times", routes, err, opened)
			}
		})
	}
}
