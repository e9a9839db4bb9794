package network

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ipam"
)

// maxNetworks is the number of ids, with the default network's 0.
const maxNetworks = 4096

// Definitions are the networks that the cluster's NADs define. Which NAD decides follows from the NADs alone, not from
// the order in which they came. The methods may be called at once from several goroutines.
type Definitions struct {
	// SecondaryOnly refuses networks that need the default one.
	SecondaryOnly bool

	cluster map[string][]netip.Prefix

	mu   sync.RWMutex
	nads map[string]*definition
	// groups has the NADs whose networks have one prefix of OVN's names; of several networks there, one is formed.
	groups   grouped
	networks map[string]contract.Network
	// primaries has the NADs of primary networks by namespace.
	primaries grouped
	// firsts has the oldest NAD of each network.
	firsts map[string]*definition
	// unrouted has the primary networks that are not routed.
	unrouted map[string]bool
}

// grouped are definitions by a group and by the key of their NAD. No group is empty.
type grouped map[string]map[string]*definition

// definition is a NAD with the network that it defines.
type definition struct {
	NAD
	network contract.Network
	// parsed says what is wrong with the NAD itself; conflict, with which other NAD it does not agree.
	parsed, conflict error
}

// NewDefinitions makes Definitions without networks. Further networks must not overlap the subnets of the cluster, by their
// purpose.
func NewDefinitions(cluster map[string][]netip.Prefix) *Definitions {
	return &Definitions{
		cluster: cluster, nads: map[string]*definition{}, groups: grouped{}, networks: map[string]contract.Network{},
		primaries: grouped{}, firsts: map[string]*definition{}, unrouted: map[string]bool{},
	}
}

// NADChanged takes in a NAD, nil when it was deleted. It returns the names of the networks that came, went or changed, and
// of those that are routed from now on or no longer.
func (x *Definitions) NADChanged(key string, nad *NAD) (changed []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	before := map[string]contract.Network{}
	if old := x.nads[key]; old != nil {
		x.leave(old, before)
	}
	if nad != nil {
		d := &definition{NAD: *nad}
		if d.network, d.parsed = Parse(*nad); d.parsed == nil {
			d.parsed = Conflicts(d.network, x.cluster)
		}
		if d.parsed == nil && x.SecondaryOnly {
			d.parsed = needsNoDefault(d.network)
		}
		x.join(d, before)
	}
	changed = reroute(x, before)
	for name, was := range before {
		if !reflect.DeepEqual(was, x.networks[name]) {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	return slices.Compact(changed)
}

func needsNoDefault(n contract.Network) error {
	switch {
	case n.IsPrimary():
		return errors.New("role primary needs the default network of ovn-offload, and networks.secondaryOnly is set")
	case n.HasGateway():
		return errors.New("a gateway needs the default network of ovn-offload, and networks.secondaryOnly is set")
	}
	return nil
}

// leave removes a definition. Networks that may change are noted in before, as they were.
func (x *Definitions) leave(d *definition, before map[string]contract.Network) {
	delete(x.nads, d.Key)
	if d.parsed != nil {
		return
	}
	group := d.network.JoinSwitch()
	note(x, group, d.network.Name, before)
	x.groups.drop(group, d)
	x.primaries.drop(d.namespace(), d)
	x.form(group, d.network.Name)
}

// join adds a definition.
func (x *Definitions) join(d *definition, before map[string]contract.Network) {
	x.nads[d.Key] = d
	if d.parsed != nil {
		return
	}
	group := d.network.JoinSwitch()
	note(x, group, d.network.Name, before)
	x.groups.add(group, d)
	if d.network.IsPrimary() {
		x.primaries.add(d.namespace(), d)
	}
	x.form(group, d.network.Name)
}

func (d *definition) namespace() string {
	namespace, _, _ := strings.Cut(d.Key, "/")
	return namespace
}

func (g grouped) add(group string, d *definition) {
	if g[group] == nil {
		g[group] = map[string]*definition{}
	}
	g[group][d.Key] = d
}

func (g grouped) drop(group string, d *definition) {
	if delete(g[group], d.Key); len(g[group]) == 0 {
		delete(g, group)
	}
}

// oldest is the oldest definition of a group that agrees with the others of its network, nil if there is none.
func (g grouped) oldest(group string) (first *definition) {
	for _, d := range g[group] {
		if d.conflict == nil && (first == nil || older(d, first) < 0) {
			first = d
		}
	}
	return first
}

func note(x *Definitions, group, name string, before map[string]contract.Network) {
	names := []string{name}
	for _, d := range x.groups[group] {
		names = append(names, d.network.Name)
	}
	for _, name := range names {
		if _, noted := before[name]; !noted {
			before[name] = x.networks[name] // the zero value of one that is not there
		}
	}
}

// form decides which network a group of NADs is: the oldest NAD says it, and the others agree or have a conflict. The
// network of that name, which may have left the group, is gone unless the group is it.
func (x *Definitions) form(group, name string) {
	forget(x, name)
	var first *definition
	for _, d := range slices.SortedFunc(maps.Values(x.groups[group]), older) {
		forget(x, d.network.Name)
		d.conflict = nil
		switch {
		case first == nil:
			first = d
		case d.network.Name != first.network.Name:
			d.conflict = fmt.Errorf("the names of networks %s and %s, which %s defines, are the same in OVN, where '-' and '.' are one character",
				d.network.Name, first.network.Name, first.Key)
		case !reflect.DeepEqual(d.network, first.network):
			d.conflict = fmt.Errorf("the configuration of network %s is not that of %s, which is older", d.network.Name, first.Key)
		}
	}
	if first != nil {
		x.firsts[first.network.Name] = first
		x.networks[first.network.Name] = withID(x.groups[group], first.network)
	}
}

func forget(x *Definitions, name string) {
	delete(x.networks, name)
	delete(x.firsts, name)
}

func older(a, b *definition) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Key, b.Key))
}

// withID adds the id that the NADs of a network say.
func withID(group map[string]*definition, network contract.Network) contract.Network {
	for _, key := range slices.Sorted(maps.Keys(group)) {
		d := group[key]
		if id, err := strconv.Atoi(d.Annotations[contract.NetworkIDKey]); err == nil && d.conflict == nil && id > 0 && id < maxNetworks {
			network.ID = id
			break
		}
	}
	return network
}

// NADProblem says why a NAD defines no network; nil when it does, and for a NAD that is not ours.
func (x *Definitions) NADProblem(key string) error {
	x.mu.RLock()
	defer x.mu.RUnlock()
	d := x.nads[key]
	if d == nil || errors.Is(d.parsed, errForeign) {
		return nil
	}
	return problem(x, d)
}

// problem says why a NAD defines no network; the caller holds the lock.
func problem(x *Definitions, d *definition) error {
	if err := cmp.Or(d.parsed, d.conflict); err != nil || !d.network.IsPrimary() {
		return err
	}
	if first := x.primaries.oldest(d.namespace()); first != nil && first != d {
		return fmt.Errorf("namespace %s has a primary network already, by NetworkAttachmentDefinition %s", d.namespace(), first.Key)
	}
	return nil
}

// Networks are all networks, in the order of their names.
func (x *Definitions) Networks() []contract.Network {
	x.mu.RLock()
	defer x.mu.RUnlock()
	all := make([]contract.Network, 0, len(x.networks))
	for _, name := range slices.Sorted(maps.Keys(x.networks)) {
		all = append(all, x.networks[name])
	}
	return all
}

// Network is nil when there is none of that name.
func (x *Definitions) Network(name string) *contract.Network {
	x.mu.RLock()
	defer x.mu.RUnlock()
	network, ok := x.networks[name]
	if !ok {
		return nil
	}
	return &network
}

// NetworkOfNAD is the network of a NAD, nil when it defines none.
func (x *Definitions) NetworkOfNAD(key string) *contract.Network {
	network, _, _ := x.find(key)
	return network
}

// find is the network of a NAD with the resource of its devices, or why there is none.
func (x *Definitions) find(key string) (network *contract.Network, resource string, err error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	d := x.nads[key]
	switch {
	case d == nil:
		return nil, "", fmt.Errorf("NetworkAttachmentDefinition %s does not exist", key)
	case errors.Is(d.parsed, errDefault):
		return nil, "", fmt.Errorf("NetworkAttachmentDefinition %s has no topology: it is the default network, which each pod has without asking for it", key)
	case errors.Is(d.parsed, errForeign):
		return nil, "", fmt.Errorf("NetworkAttachmentDefinition %s is not one of type %s", key, contract.PluginType)
	}
	if err := problem(x, d); err != nil {
		return nil, "", fmt.Errorf("NetworkAttachmentDefinition %s: %w", key, err)
	}
	found := x.networks[d.network.Name]
	return &found, d.Annotations[contract.ResourceNameKey], nil
}

// NADsOf are the keys of the NADs of a network, sorted.
func (x *Definitions) NADsOf(name string) (keys []string) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for key, d := range x.groups[contract.Network{Name: name}.JoinSwitch()] {
		if d.network.Name == name {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Requests are what a pod asks of networks that exist. The error says which attachments the pod has to wait for, and why. A
// running pod has the interfaces of its start: what it asks for later is left out.
func (x *Definitions) Requests(pod *corev1.Pod) (requests []ipam.Request, err error) {
	attachments, err := contract.Attachments(pod)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, a := range attachments {
		if len(pod.Status.PodIPs) > 0 && !contract.HasKey(pod.Annotations[contract.PodNetworksKey], a.Key()) {
			continue
		}
		network, resource, err := x.find(a.NAD)
		if err == nil && network.IsPrimary() {
			err = fmt.Errorf("network %s of NetworkAttachmentDefinition %s is primary, which a pod cannot ask for", network.Name, a.NAD)
		}
		if err == nil && len(pod.Status.PodIPs) == 0 {
			err = unreached(a, network)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		requests = append(requests, ipam.Request{Attachment: a, Network: *network, Resource: resource})
	}
	return requests, errors.Join(errs...)
}

// unreached says which next hop of an attachment's routes is in none of its subnets.
func unreached(a contract.Attachment, network *contract.Network) error {
	for _, route := range a.AskedRoutes {
		holds := func(p netip.Prefix) bool { return p.Masked().Contains(route.NextHop) }
		if !slices.ContainsFunc(a.Addresses, holds) && !slices.ContainsFunc(network.Subnets, func(s contract.Subnet) bool { return holds(s.Prefix) }) {
			return fmt.Errorf("route to %s: gw %s is in no subnet of network %s", route.Dest, route.NextHop, network.Name)
		}
	}
	return nil
}

// NetworkID is what the NADs of a network must say as its id. Ids that NADs have stay, the oldest NAD's first; a network
// without one gets the first that is free. Zero: there are too many networks.
func (x *Definitions) NetworkID(name string) int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	taken := map[int]string{}
	var without []string
	for _, of := range slices.SortedFunc(maps.Values(firsts(x.groups)), older) {
		id := x.networks[of.network.Name].ID
		if id == 0 || taken[id] != "" {
			without = append(without, of.network.Name)
			continue
		}
		taken[id] = of.network.Name
	}
	for id := 1; id < maxNetworks && len(without) > 0; id++ {
		if taken[id] == "" {
			taken[id], without = without[0], without[1:]
		}
	}
	for id, network := range taken {
		if network == name {
			return id
		}
	}
	return 0
}

// firsts are the oldest NADs of the networks, by name.
func firsts(groups map[string]map[string]*definition) map[string]*definition {
	out := map[string]*definition{}
	for _, group := range groups {
		for _, d := range group {
			old := out[d.network.Name]
			if d.conflict == nil && (old == nil || older(d, old) < 0) {
				out[d.network.Name] = d
			}
		}
	}
	return out
}
