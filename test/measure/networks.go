package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// furtherNetworks measures ADD of pods with one, two and five interfaces, and what a network of each topology adds, without and
// with a pod.
func (b *bench) furtherNetworks(ctx context.Context) error {
	w, err := watchPods(ctx, b.client)
	if err != nil {
		return err
	}
	defer w.close(ctx)
	if err := b.interfaces(ctx, w); err != nil {
		return err
	}
	fmt.Println()
	return b.networkFootprints(ctx, w)
}

// interfaces are those of a pod: eth0, and one on each of the networks of topology layer2 that it asks for.
func (b *bench) interfaces(ctx context.Context, w *watched) error {
	var names []string
	for i := range 4 {
		names = append(names, fmt.Sprintf("each%d", i))
		if err := b.createNetwork(ctx, w.namespace, names[i], map[string]any{"topology": "layer2", "subnets": fmt.Sprintf("10.150.%d.0/24", i)}); err != nil {
			return err
		}
	}
	for _, n := range []int{1, 2, 5} {
		list := strings.Join(names[:n-1], ",")
		if w.networks = nil; n > 1 {
			w.networks = func(string) string { return list }
		}
		for i := range b.pods {
			if err := w.create(ctx, fmt.Sprintf("with%d-%d", n, i), b.worker()); err != nil {
				return err
			}
			if err := w.waitReady(ctx); err != nil {
				return err
			}
		}
		if err := b.attached(ctx, fmt.Sprintf("with%d-", n), n*b.pods); err != nil {
			return err
		}
		times := w.snapshot()
		if err := w.clear(ctx); err != nil {
			return err
		}
		commands, err := b.commands(w.namespace)
		if err != nil {
			return err
		}
		fmt.Printf("\n%d pods one by one, with %d interfaces each:\n\n", b.pods, n)
		b.timeline(times, commands).print()
	}
	return nil
}

// attached checks how many interfaces pods have whose names begin with a text.
func (b *bench) attached(ctx context.Context, pods string, want int) error {
	out, err := b.lab.Exec(ctx, b.worker(), "ovs-vsctl", "--bare", "--columns=external_ids", "list", "Interface")
	got := 0
	for line := range strings.Lines(out) {
		if strings.Contains(line, pods) {
			got++
		}
	}
	if err == nil && got != want {
		err = fmt.Errorf("pods %s* have %d interfaces, want %d", pods, got, want)
	}
	return err
}

// networkFootprints are what networks of each topology add: alone, and with a pod on one node. What as many pods without a further
// network add is taken off.
func (b *bench) networkFootprints(ctx context.Context, w *watched) error {
	w.networks = nil
	before, err := b.taken(ctx)
	if err != nil {
		return err
	}
	plain, err := b.takenWithPods(ctx, w, "plain")
	if err != nil {
		return err
	}
	t := newTable(append([]string{"one network adds", "logical flow rows", "OpenFlows of " + b.worker()}, growing...)...)
	b.addFootprint(t, "(a pod without one)", before, plain)
	for i, topology := range []string{"layer3", "layer2", "localnet"} {
		name := func(pod string) string { return topology + "-" + pod }
		empty, err := b.taken(ctx)
		if err != nil {
			return err
		}
		for k := range b.further {
			if err := b.createNetwork(ctx, w.namespace, name(fmt.Sprint(k)), confOf(topology, i, k)); err != nil {
				return err
			}
		}
		alone, err := b.taken(ctx)
		if err != nil {
			return err
		}
		w.networks = name
		full, err := b.takenWithPods(ctx, w, topology)
		if err != nil {
			return err
		}
		b.addFootprint(t, topology, empty, alone)
		b.addFootprint(t, topology+", its pod", plain.beside(before, alone), full)
	}
	t.print()
	return nil
}

// confOf is the k-th network of a topology.
func confOf(topology string, i, k int) map[string]any {
	conf := map[string]any{"topology": topology, "subnets": fmt.Sprintf("10.%d.%d.0/24", 151+i, k)}
	switch topology {
	case "layer3":
		conf["subnets"] = fmt.Sprintf("10.%d.%d.0/24/28", 151+i, k)
	case "localnet":
		conf["physicalNetworkName"], conf["vlanID"] = contract.PhysicalNetwork, 100+k
	}
	return conf
}

func (b *bench) createNetwork(ctx context.Context, namespace, name string, conf map[string]any) error {
	conf["cniVersion"], conf["type"], conf["name"], conf["netAttachDefName"] = "1.0.0", contract.PluginType, namespace+"-"+name, namespace+"/"+name
	text, err := json.Marshal(conf)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": "k8s.cni.cncf.io/v1", "kind": contract.KindNAD, "metadata": metav1.ObjectMeta{Name: name}, "spec": map[string]any{"config": string(text)},
	})
	if err != nil {
		return err
	}
	path := "/apis/k8s.cni.cncf.io/v1/namespaces/" + namespace + "/network-attachment-definitions"
	return b.client.CoreV1().RESTClient().Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error()
}

// growing are the components whose memory networks take.
var growing = []string{"ovn-controller", "ovs-vswitchd", "agent", "ovn-northd", "NB ovsdb-server", "SB ovsdb-server", "controller"}

// taken is what flows and memory all networks take; memory is not file-backed, in kB by component, that of the worker or
// else of the one node that has the process.
type taken struct {
	flows
	memory map[string]int
}

// taken waits until all is in the nodes' flows.
func (b *bench) taken(ctx context.Context) (taken, error) {
	pause(ctx, settle)
	if _, err := b.lab.Exec(ctx, b.nodes[0], "ovn-nbctl", "--wait=hv", "--timeout=120", "sync"); err != nil {
		return taken{}, err
	}
	f, err := b.countFlows(ctx)
	if err != nil {
		return taken{}, err
	}
	costs, err := b.costs()
	if err != nil {
		return taken{}, err
	}
	memory := map[string]int{}
	for key, c := range costs {
		if _, has := memory[key[0]]; slices.Contains(growing, key[0]) && (!has || key[1] == b.worker()) {
			memory[key[0]] = c.anonymous
		}
	}
	return taken{f, memory}, nil
}

// takenWithPods is what is taken with a pod for each network.
func (b *bench) takenWithPods(ctx context.Context, w *watched, name string) (taken, error) {
	if err := w.createMany(ctx, name, b.worker(), b.further); err != nil {
		return taken{}, err
	}
	if err := w.waitReady(ctx); err != nil {
		return taken{}, err
	}
	each := 1
	if w.networks != nil {
		each = 2
	}
	if err := b.attached(ctx, name+"-", each*b.further); err != nil {
		return taken{}, err
	}
	all, err := b.taken(ctx)
	if err != nil {
		return taken{}, err
	}
	return all, w.clear(ctx)
}

// beside is other with what x has more than before.
func (x taken) beside(before, other taken) taken {
	sum := taken{flows{other.logical + x.logical - before.logical, other.openflow + x.openflow - before.openflow}, map[string]int{}}
	for key, kib := range other.memory {
		sum.memory[key] = kib + x.memory[key] - before.memory[key]
	}
	return sum
}

func (b *bench) addFootprint(t *table, what string, before, after taken) {
	each := func(from, to int) float64 { return float64(to-from) / float64(b.further) }
	cells := []any{what, each(before.logical, after.logical), each(before.openflow, after.openflow)}
	for _, component := range growing {
		cells = append(cells, fmt.Sprintf("%.2f MB", each(before.memory[component], after.memory[component])*1024/1e6))
	}
	t.add(cells...)
}
