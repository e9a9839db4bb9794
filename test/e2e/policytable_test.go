//go:build e2e

package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/policytest"

	"github.com/ovn-offload/ovn-offload/test/tier"
)

// table is three namespaces with three pods each, on all nodes.
type table struct {
	t     *testing.T
	world policytest.World
	// real are the namespaces' names in the cluster by those of the world.
	real map[string]string
}

// TestNetworkPolicy_RandomPoliciesMatchAPI: for sets of policies made at random, what every pod reaches of
// every other, on two ports and by three protocols, is what the API's definition says.
func TestNetworkPolicy_RandomPoliciesMatchAPI(t *testing.T) {
	world.Test(t, world.Policies, world.Disruptive)
	tier.Full(t, "pkg/ovn's TestNetworkPolicy_RulesMatchDefinitionOfAPI compares the rules of such policies with the definition")
	r := rand.New(rand.NewPCG(tier.Seed(t), 0))
	tab := newTable(t)
	tab.compare("no policy")
	for round := range 8 {
		tab.draw(r, round)
		for _, p := range tab.world.Policies {
			world.CreatePolicy(t, p.Namespace, p.Name, p.Spec)
		}
		tab.compare(fmt.Sprint("round ", round))
		for _, p := range tab.world.Policies {
			world.DeletePolicy(t, p.Namespace, p.Name)
		}
	}
	tab.world.Policies = nil
	tab.compare("no policy again")
}

// draw makes one to three policies at random that deny ten connections or more: fewer show little.
func (tab *table) draw(r *rand.Rand, round int) {
	for denied := 0; denied < 10; {
		tab.world.Policies = nil
		for i := range 1 + r.IntN(3) {
			made := policytest.Policy(r, fmt.Sprintf("p%d-%d", round, i), tab.blocks())
			made.Namespace = tab.real[made.Namespace]
			tab.world.Policies = append(tab.world.Policies, made)
		}
		denied = 0
		for _, from := range tab.world.Pods {
			for _, target := range tab.targets(from) {
				if !tab.allows(from, target) {
					denied++
				}
			}
		}
	}
}

// serveBoth answers on both ports by all protocols.
const serveBoth = "probe serve 80 & probe serve-sctp 80 2>/dev/null & probe serve-sctp 81 2>/dev/null & exec probe serve 81"

func newTable(t *testing.T) *table {
	tab := &table{t: t, real: map[string]string{}}
	namespaces, pods := policytest.PodsOf()
	for _, ns := range namespaces {
		tab.real[ns.Name] = world.Namespace(t)
		for key, value := range ns.Labels {
			world.LabelNamespace(t, tab.real[ns.Name], key, fmt.Sprintf("%q", value))
		}
		ns.Labels["kubernetes.io/metadata.name"] = tab.real[ns.Name]
		ns.Name = tab.real[ns.Name]
		tab.world.Namespaces = append(tab.world.Namespaces, ns)
	}
	for i, pod := range pods {
		made := world.Pod(tab.real[pod.Namespace], pod.Name, nodes[i%len(nodes)], world.Command("sh", "-c", serveBoth))
		made.Labels = pod.Labels
		made.Spec.Containers[0].Ports = pod.Spec.Containers[0].Ports
		world.Create(t, made)
	}
	for _, pod := range pods {
		tab.world.Pods = append(tab.world.Pods, world.WaitPod(t, tab.real[pod.Namespace], pod.Name, "Running", world.IsRunning))
	}
	return tab
}

// blocks are networks of each family that divide the pods: those of one node are
// the exception, or of all addresses a single pod is.
func (tab *table) blocks() (all []networkingv1.IPBlock) {
	for _, pod := range tab.world.Pods[:3] {
		for _, addr := range world.Addresses(pod) {
			pods, node := 16, 24
			if addr.Is6() {
				pods, node = 48, 64
			}
			all = append(all,
				networkingv1.IPBlock{CIDR: block(addr, pods), Except: []string{block(addr, node)}},
				networkingv1.IPBlock{CIDR: block(addr, 0), Except: []string{block(addr, addr.BitLen())}})
		}
	}
	return all
}

// block is the network of a length that an address is in.
func block(addr netip.Addr, bits int) string {
	return netip.PrefixFrom(addr, bits).Masked().String()
}

// compare probes everything until it is as the definition says.
func (tab *table) compare(name string) {
	tab.t.Helper()
	var wrong []string
	for deadline := time.Now().Add(world.PodWithin); ; { // 860 probes have to be right in one pass
		wrong = tab.probe()
		if len(wrong) == 0 || time.Now().After(deadline) {
			break
		}
	}
	for _, text := range wrong {
		tab.t.Errorf("%s: %s", name, text)
	}
	if len(wrong) > 0 {
		for _, p := range tab.world.Policies {
			tab.t.Logf("policy %s/%s: %+v", p.Namespace, p.Name, p.Spec)
		}
		tab.t.FailNow()
	}
}

// probe has every pod try all others at once, and lists what is not as it should be.
func (tab *table) probe() (wrong []string) {
	var mu sync.Mutex
	var sources sync.WaitGroup
	for _, from := range tab.world.Pods {
		sources.Go(func() {
			targets := tab.targets(from)
			var words []string
			for _, target := range targets {
				words = append(words, word(target))
			}
			passed, err := world.FromPod(from).Reached(words...)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				wrong = append(wrong, err.Error())
			}
			for _, target := range targets {
				want := tab.allows(from, target)
				if got := slices.Contains(passed, word(target)); got != want {
					wrong = append(wrong, fmt.Sprintf("%s/%s to %s/%s %s %s %d: passes %t, want %t", from.Namespace, from.Name,
						target.Pod.Namespace, target.Pod.Name, target.Addr, target.Protocol, target.Port, got, want))
				}
			}
		})
	}
	sources.Wait()
	return wrong
}

// allows is what the definition says of a connection.
func (tab *table) allows(from *corev1.Pod, target policytest.Target) bool {
	return tab.world.Allows(policytest.Peer{Pod: from, Addr: tab.addressLike(from, target.Addr)}, target)
}

// word is a target as the prober takes it.
func word(t policytest.Target) string {
	return fmt.Sprintf("%s:%s", strings.ToLower(string(t.Protocol)), netip.AddrPortFrom(t.Addr, uint16(t.Port)))
}

func (tab *table) targets(from *corev1.Pod) (all []policytest.Target) {
	for _, to := range tab.world.Pods {
		if to == from {
			continue
		}
		for _, addr := range world.Addresses(to) {
			for _, protocol := range policytest.Protocols() {
				for _, port := range []int32{80, 81} {
					all = append(all, policytest.Target{Peer: policytest.Peer{Pod: to, Addr: addr}, Protocol: protocol, Port: port})
				}
			}
		}
	}
	return all
}

// addressLike is the pod's address in the family of another.
func (tab *table) addressLike(pod *corev1.Pod, other netip.Addr) netip.Addr {
	for _, addr := range world.Addresses(pod) {
		if addr.Is4() == other.Is4() {
			return addr
		}
	}
	return netip.Addr{}
}
