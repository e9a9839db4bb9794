package dpu

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/ovn-offload/ovn-offload/pkg/cni"
	"github.com/ovn-offload/ovn-offload/pkg/cni/plug"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/ovsdbtest"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

const host = "worker"

// pair is a host and its DPU around one API server: real OVSDB, fake kernel, an
// ovn-controller that does what it is asked.
type pair struct {
	t     testing.TB
	api   *fake.Clientset
	view  *kube.NodeView
	ovs   *ovsdbtest.Server
	db    *ovsdb.DB
	links links
	add   func(name string) error // a representor
	// functions are those behind the representors, which the fake kernel has only.
	functions *netdevtest.FakeNS
	kernel    *netdevtest.Fake
	host      *Host
	// controllers are the host's numbers, for those that start sets up.
	controllers []uint32
	boot        string // of the DPU

	mu     sync.Mutex
	agent  *Ports
	stop   func()
	inv    vf.Inventory
	binds  bool // ovn-controller works
	events []string
	// transacting is held while ovnController asks the server of the database, and
	// while the server is killed: the replica has a row's change later than the server.
	transacting sync.Mutex
}

// links is what the fixture needs of a namespace.
type links interface {
	Link(name string) (netdev.Link, error)
	SetLink(name string, s netdev.Settings) error
	Links() ([]netdev.Link, error)
	DeleteLink(name string) error
}

// onBoth runs a test on a kernel in memory and on the real one, where veth pairs
// stand for functions and representors.
func onBoth(t *testing.T, test func(t *testing.T, p *pair)) {
	t.Run("fake", func(t *testing.T) { test(t, newPair(t)) })
	t.Run("real", func(t *testing.T) {
		ns, err := netdev.Open(netdevtest.NewNS(t))
		must(t, err)
		t.Cleanup(func() { _ = ns.Close() })
		test(t, newPairOn(t, ns, func(name string) error {
			return ns.AddVeth(netdev.Veth{Name: name, MTU: 1500, Peer: netdev.Peer{Name: "vf-" + name}})
		}))
	})
}

// newPair has three VFs and an SF of the host, and no pods.
func newPair(t testing.TB) *pair {
	t.Helper()
	kernel := netdevtest.NewFake()
	ns, err := kernel.Open("")
	must(t, err)
	p := newPairOn(t, ns, func(name string) error {
		kernel.AddLink("", netdev.Link{Name: name, MTU: 1500})
		return nil
	})
	p.functions, p.kernel = ns, kernel
	return p
}

func newPairOn(t testing.TB, ns links, add func(name string) error) *pair {
	t.Helper()
	p := &pair{t: t, api: fake.NewClientset(), links: ns, add: add, binds: true}
	p.ovs = ovsdbtest.Start(t, vswitch.Definition)
	p.ovs.Transact(`{"op":"insert","table":"Bridge","row":{"name":"br-int"},"uuid-name":"b"},` +
		`{"op":"insert","table":"Open_vSwitch","row":{"bridges":["set",[["named-uuid","b"]]]}}`)
	var err error
	p.view, err = kube.NewNodeView(apitest.Client(p.api), host)
	must(t, err)
	waiting := cni.NewPods(p.view.Pod)
	writer := kube.NewWriter(apitest.Client(p.api))
	p.host = &Host{
		Node: host, View: p.view, Waiting: waiting, Annotate: writer.AnnotatePod,
		Ready: func() error { return nil },
	}
	p.view.OnChange(waiting.Changed)
	p.view.OnChange(func(owners ...contract.Owner) {
		if agent := p.current(); agent != nil {
			agent.Changed(owners...)
		}
	})
	schema, err := vswitch.ReplicaSchema()
	must(t, err)
	p.db, err = ovsdb.Open(t.Context(), ovsdb.Defaults([]string{p.ovs.Endpoint()}, schema))
	must(t, err)
	t.Cleanup(p.db.Close)
	p.db.OnChange(func(names []string) {
		for _, name := range names {
			if owner, err := contract.ParseOwner(name); err == nil && p.current() != nil {
				p.current().Changed(owner)
			}
		}
	})
	p.db.OnReconnect(func() {
		if agent := p.current(); agent != nil {
			agent.Mark()
		}
	})
	must(t, p.view.Start(t.Context()))
	ended := make(chan struct{})
	go func() { defer close(ended); p.ovnController(t.Context()) }()
	t.Cleanup(func() { <-ended }) // before its database ends
	p.devices("rep0 c1pf0vf0", "rep1 c1pf0vf1", "rep2 c1pf0vf2", "repsf c1pf0sf88")
	return p
}

func (p *pair) current() *Ports {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.agent
}

// start runs the DPU's agent; the second one of a test is a restart.
func (p *pair) start() {
	p.t.Helper()
	cfg := Defaults()
	cfg.Host, cfg.FlowsTimeout = host, 5*time.Second
	cfg.Controllers = p.controllers
	bridge := &plug.OVS{DB: p.db, Bridge: contract.IntegrationBridge, Host: p.links, Boot: p.boot}
	if p.functions != nil {
		bridge.Functions = p.functions
	}
	agent, err := NewPorts(cfg, Deps{
		Pods: p.view, Node: func() *corev1.Node { return p.view.Node(host) }, Plugger: bridge, MTU: func() int { return 1400 },
		Annotate: kube.NewWriter(apitest.Client(p.api)).AnnotatePod,
		Warn: func(owner contract.Owner, reason, note string) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.events = append(p.events, owner.String()+" "+reason+" "+note)
		},
	})
	must(p.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = agent.Run(ctx) }()
	p.mu.Lock()
	p.agent = agent
	p.stop = sync.OnceFunc(func() { cancel(); <-done })
	inv := p.inv
	p.mu.Unlock()
	p.t.Cleanup(p.stop)
	agent.SetInventory(inv)
}

func (p *pair) kill() {
	p.stop()
	p.mu.Lock()
	p.agent = nil
	p.mu.Unlock()
}

// devices sets which representors the DPU has, as "netdev function", and tells
// the agent as its inventory would.
func (p *pair) devices(list ...string) {
	p.t.Helper()
	pf := vf.PF{Eswitch: vf.Eswitch{Mode: vf.Switchdev, ID: "5c"}}
	want := map[string]bool{}
	for _, line := range list {
		name, function, _ := strings.Cut(line, " ")
		f, ok := vf.ParsePortName(function)
		if !ok {
			p.t.Fatalf("%q is no function", function)
		}
		pf.Representors = append(pf.Representors, vf.Representor{Netdev: vf.Netdev{Name: name}, Function: f})
		want[name] = true
		if _, err := p.links.Link(name); err != nil {
			must(p.t, p.add(name))
		}
	}
	links, err := p.links.Links()
	must(p.t, err)
	for _, l := range links {
		if !want[l.Name] && l.Name != "lo" && !strings.HasPrefix(l.Name, "vf-") { // a pair goes together
			must(p.t, p.links.DeleteLink(l.Name))
		}
	}
	p.mu.Lock()
	p.inv = vf.Inventory{PFs: []vf.PF{pf}}
	agent, inv := p.agent, p.inv
	p.mu.Unlock()
	if agent != nil {
		agent.SetInventory(inv)
	}
}

// ovnController sets ovn-installed in rows that have an iface-id and not yet it.
func (p *pair) ovnController(ctx context.Context) {
	for tick := time.NewTicker(10 * time.Millisecond); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
		p.mu.Lock()
		binds := p.binds
		p.mu.Unlock()
		if binds {
			p.install()
		}
	}
}

func (p *pair) install() {
	p.transacting.Lock()
	defer p.transacting.Unlock()
	if !p.db.Connected() {
		return
	}
	for _, model := range p.db.Table(vswitch.InterfaceTable) {
		iface := model.(*vswitch.Interface)
		if iface.ExternalIDs["iface-id"] == "" || iface.ExternalIDs["ovn-installed"] != "" {
			continue
		}
		p.ovs.Transact(`{"op":"mutate","table":"Interface","where":[["name","==","` + iface.Name + `"]],` +
			`"mutations":[["external_ids","insert",["map",[["ovn-installed","true"]]]]]}`)
	}
}

// killOVS ends the database's server and waits until the agent's side knows.
func (p *pair) killOVS() {
	p.t.Helper()
	p.transacting.Lock()
	defer p.transacting.Unlock()
	p.ovs.Kill()
	p.until("the database is disconnected", func() bool { return !p.db.Connected() })
}

func (p *pair) bind(works bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.binds = works
}

// addPod makes a pod on the host, with addresses. Its UID is name-uid.
func (p *pair) addPod(name string) *corev1.Pod {
	p.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(name + "-uid"),
			Annotations: map[string]string{contract.PodNetworksKey: network},
		},
		Spec: corev1.PodSpec{NodeName: host},
	}
	return p.create(pod)
}

const network = `{"default":{"ip_addresses":["10.244.1.5/24","fd00:10:244:1::5/64"],"mac_address":"0a:58:0a:f4:01:05"}}`

func (p *pair) create(pod *corev1.Pod) *corev1.Pod {
	p.t.Helper()
	_, err := p.api.CoreV1().Pods(pod.Namespace).Create(p.t.Context(), pod, metav1.CreateOptions{})
	must(p.t, err)
	p.until("the informer has "+pod.Name, func() bool {
		seen := p.view.Pod(pod.Namespace, pod.Name)
		return seen != nil && seen.UID == pod.UID
	})
	return pod
}

func (p *pair) deletePod(name string) {
	p.t.Helper()
	must(p.t, p.api.CoreV1().Pods("default").Delete(p.t.Context(), name, metav1.DeleteOptions{}))
	p.until(name+" is gone", func() bool { return p.view.Pod("default", name) == nil })
}

// write sets the details as a host might, "" removing them.
func (p *pair) write(name, details string) {
	p.t.Helper()
	pod, err := p.api.CoreV1().Pods("default").Get(p.t.Context(), name, metav1.GetOptions{})
	must(p.t, err)
	must(p.t, kube.NewWriter(apitest.Client(p.api)).AnnotatePod(p.t.Context(), pod, map[string]string{contract.DPUConnectionKey: details}))
}

func vfDetails(n int, sandbox string) string {
	return fmt.Sprintf(`{"default":{"pfId":"0","vfId":"%d","sandboxId":"%s"}}`, n, sandbox)
}

// status is what the API server has for a pod.
func (p *pair) status(name string) *contract.DPUStatus {
	p.t.Helper()
	pod, err := p.api.CoreV1().Pods("default").Get(p.t.Context(), name, metav1.GetOptions{})
	must(p.t, err)
	status, err := contract.ParseDPUStatus(pod.Annotations[contract.DPUStatusKey], contract.DefaultNetwork)
	must(p.t, err)
	return status
}

// wantReady waits until the informer has it, too, which a restarted agent reads.
func (p *pair) wantReady(name, sandbox string) {
	p.t.Helper()
	p.until(name+" is ready", func() bool {
		s := p.status(name)
		return s != nil && *s == contract.DPUStatus{Status: contract.DPUReady, Sandbox: sandbox} && claimant{owner: contract.PodOwner("default", name), pod: p.view.Pod("default", name)}.isReady()
	})
}

// running makes a pod that has its port on a VF.
func (p *pair) running(name string, number int, sandbox string) {
	p.t.Helper()
	p.addPod(name)
	p.write(name, vfDetails(number, sandbox))
	p.wantReady(name, sandbox)
}

func (p *pair) wantError(name, reason string) {
	p.t.Helper()
	p.until(name+" has the error "+reason, func() bool {
		s := p.status(name)
		return s != nil && s.Status == contract.DPUError && strings.Contains(s.Reason, reason)
	})
}

// wantEvent waits for the only Event that there may be.
func (p *pair) wantEvent(text string) {
	p.t.Helper()
	p.until("one Event, of "+text, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.events) == 1 && strings.Contains(p.events[0], text)
	})
}

// wantPorts waits until br-int has these, as "representor port sandbox".
func (p *pair) wantPorts(want ...string) {
	p.t.Helper()
	var got []string
	p.until(fmt.Sprintf("ports are %q", want), func() bool {
		got = nil
		for _, model := range p.db.Table(vswitch.InterfaceTable) {
			iface := model.(*vswitch.Interface)
			got = append(got, iface.Name+" "+iface.ExternalIDs["iface-id"]+" "+iface.ExternalIDs["sandbox"])
		}
		return sameSet(got, want)
	})
}

func sameSet(a, b []string) bool {
	count := map[string]int{}
	for _, s := range a {
		count[s]++
	}
	for _, s := range b {
		count[s]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

// until waits for a condition that other goroutines bring about.
func (p *pair) until(what string, ok func() bool) {
	p.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatalf("not within 10s: %s; ports:\n%s", what, p.ovs.Dump("Interface", "name", "external_ids"))
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// hostInventory is the host's side: a PF with three VFs, no representors.
func hostInventory() vf.Inventory {
	pf := vf.PF{Ports: []vf.Netdev{{Name: "ens1f0", PermanentMAC: vf.MAC{0x5c, 0, 0, 0, 0, 1}}}}
	for i := range 3 {
		pf.VFs = append(pf.VFs, vf.VF{Index: i, Device: vf.Device{Name: fmt.Sprintf("0000:03:00.%d", i+2)}})
	}
	return vf.Inventory{PFs: []vf.PF{pf}}
}
