package missing

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/node/nodetest"
)

// asking is a pod that runs and asks for a network of ours, and for one of another CNI type.
func asking() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: "1", Annotations: map[string]string{
			contract.NetworksKey: "backend,macvlan",
			contract.PodNetworksKey: `{"default":{"ip_addresses":["10.244.1.5/24"],"mac_address":"0a:58:0a:f4:01:05"},` +
				`"shop/backend":{"ip_addresses":["10.82.0.2/16"],"mac_address":"0a:58:0a:52:00:02","role":"secondary"}}`,
		}},
		Spec:   corev1.PodSpec{NodeName: "n1"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

// TestWatch_WarnsOncePerPodThatRunsWithout: a port that comes within the pause, a pod that does not run yet and networks
// of others are no reason for an Event.
func TestWatch_WarnsOncePerPodThatRunsWithout(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(w *world)
		want   string
	}{
		"neither":                  {func(*world) {}, "1 the pod runs without interface net1 on network shop/backend: neither networks.native nor Multus makes it"},
		"native":                   {func(w *world) { w.native = true }, "1 the pod runs without interface net1 on network shop/backend: networks.native was not set when it started"},
		"a port":                   {func(w *world) { w.ports["Pod/shop/db@shop/backend"] = true }, "0 "},
		"a port of the default":    {func(w *world) { w.ports["Pod/shop/db"] = true }, "1 the pod runs without"},
		"pending":                  {func(w *world) { w.pod.Status.Phase = corev1.PodPending }, "0 "},
		"no address of ours":       {func(w *world) { w.pod.Annotations[contract.NetworksKey] = "macvlan" }, "0 "},
		"an annotation with error": {func(w *world) { w.pod.Annotations[contract.NetworksKey] = "a@eth0" }, "0 "},
		"gone":                     {func(w *world) { w.goes = true }, "0 "},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &world{pod: asking(), ports: map[string]bool{}}
			tt.change(w)
			watch := w.watch()
			for range 3 {
				watch.Changed(contract.PodOwner("shop", "db"), contract.NodeOwner("n1"))
			}
			if w.goes {
				w.pod = nil
			}
			time.Sleep(2 * Pause)
			synctest.Wait()
			if got := fmt.Sprint(len(w.warned), " ", strings.Join(w.warned, ";")); !strings.HasPrefix(got, tt.want) || tt.want == "0 " && got != tt.want {
				t.Errorf("%s: %s, want %s", name, got, tt.want)
			}
		})
	}
}

// TestWatch_LooksAgainAtLaterPodOfName: and when the database is connected again.
func TestWatch_LooksAgainAtLaterPodOfName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{pod: asking(), ports: map[string]bool{}}
		watch := w.watch()
		step := func(what string, want int) {
			t.Helper()
			watch.Changed(contract.PodOwner("shop", "db"))
			time.Sleep(2 * Pause)
			synctest.Wait()
			nodetest.Equal(t, what, fmt.Sprint(len(w.warned)), fmt.Sprint(want))
		}
		w.disconnected = true
		step("not connected", 0)
		w.disconnected = false
		step("connected", 1)
		step("the same pod", 1)
		w.pod = asking()
		w.pod.UID = types.UID("2")
		step("a later pod", 2)
	})
}

type world struct {
	pod                        *corev1.Pod
	ports                      map[string]bool
	warned                     []string
	native, goes, disconnected bool
}

func (w *world) watch() *Watch {
	return New(Deps{
		Pod:     func(string, string) *corev1.Pod { return w.pod },
		HasPort: func(owner contract.Owner) bool { return w.ports[owner.String()] }, Connected: func() bool { return !w.disconnected },
		Warn: func(_ contract.Owner, _, note string) { w.warned = append(w.warned, note) }, Native: w.native,
	})
}
