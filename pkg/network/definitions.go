package network

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/network/render"
)

// Definitions are the networks that the cluster's NADs define. Which NAD decides follows from the NADs alone, not from
// the order in which they came. The methods may be called at once from several goroutines.
type Definitions struct {
	owners
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
	// ids is nil until this process leads.
	ids *ids
	// reach is what others have.
	reach
}

// Rules say which networks there can be, and which namespaces may use them; set before the first change.
type Rules struct {
	// SecondaryOnly refuses networks that need the default one.
	SecondaryOnly bool
	// Shared lets pods of all namespaces use all NADs, and lets NADs of one name in several namespaces be one network.
	Shared bool
	// NamespaceLabels are those of a namespace, nil for one that is not there.
	NamespaceLabels func(namespace string) map[string]string
}

// grouped are definitions by a group and by the key of their NAD. No group is empty.
type grouped map[string]map[string]*definition

// definition is a NAD with the network that it defines.
type definition struct {
	NAD
	network contract.Network
	// parsed says what is wrong with the NAD itself; conflict, with which other NAD it does not agree.
	parsed, conflict error
	// refused is a part of parsed: it is over when others no longer have a subnet.
	refused error
	// namespaces are those that the NAD lists; unread says why it has none.
	namespaces map[string]bool
	unread     error
}

// newDefinition reads a NAD, without a look at others.
func newDefinition(x *Definitions, nad NAD) *definition {
	d := &definition{NAD: nad}
	d.namespaces, d.unread = namespacesOf(nad.Annotations[contract.NamespacesKey])
	if d.network, d.parsed = Parse(nad); d.parsed == nil {
		d.parsed = Conflicts(d.network, x.cluster)
	}
	if d.parsed == nil && x.SecondaryOnly {
		d.parsed = needsNoDefault(d.network)
	}
	return d
}

// NewDefinitions makes Definitions without networks. Further networks must not overlap the subnets of the cluster, by their
// purpose.
func NewDefinitions(cluster map[string][]netip.Prefix) *Definitions {
	return &Definitions{
		cluster: cluster, nads: map[string]*definition{}, groups: grouped{}, networks: map[string]contract.Network{},
		primaries: grouped{}, firsts: map[string]*definition{}, unrouted: map[string]bool{},
		owners: owners{objects: map[string]map[contract.Owner]Object{}},
		reach:  reach{taken: takenSubnets{}, reserved: map[string]error{}},
	}
}

// NADChanged takes in a NAD, nil when it was deleted. It returns the names of the networks that came, went or changed, and
// of those that are routed from now on or no longer.
func (x *Definitions) NADChanged(key string, nad *NAD) (changed []string) {
	var d *definition
	if nad != nil {
		d = newDefinition(x, *nad) // without the lock, for which all pods wait
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	before := map[string]contract.Network{}
	old := x.nads[key]
	if old != nil {
		leave(x, old, before)
	}
	if d != nil {
		if d.parsed == nil {
			d.parsed = refuse(x, d, old)
		}
		join(x, d, before)
	}
	changed = changes(x, before)
	if old != nil && nad != nil && old.Annotations[contract.NamespacesKey] != nad.Annotations[contract.NamespacesKey] && old.parsed == nil {
		changed = append(changed, old.network.Name) // others come in, or not any more
	}
	slices.Sort(changed)
	return slices.Compact(changed)
}

// changes are the names of the networks that are not as they were before, and of those that are routed from now on or no
// longer, sorted.
func changes(x *Definitions, before map[string]contract.Network) []string {
	changed := reroute(x, before)
	for name, was := range before {
		if !reflect.DeepEqual(was, x.networks[name]) {
			changed = append(changed, name)
		}
		if _, exists := x.networks[name]; !exists && x.ids != nil {
			x.ids.free(name)
		}
	}
	slices.Sort(changed)
	return slices.Compact(changed)
}

// ObjectChanged takes in an object that stands for a network, nil when it was deleted. It returns names as NADChanged does.
func (x *Definitions) ObjectChanged(owner contract.Owner, object *Object) (changed []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	name, before := render.NetworkName(owner), map[string]contract.Network{}
	group := contract.Network{Name: name}.JoinSwitch()
	note(x, group, name, before)
	x.changed(group, owner, object)
	x.form(group, name)
	return changes(x, before)
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
func leave(x *Definitions, d *definition, before map[string]contract.Network) {
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
func join(x *Definitions, d *definition, before map[string]contract.Network) {
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

// form decides which network a group of NADs is: the first NAD says it, and the others agree or have a conflict. The
// network of that name, which may have left the group, is gone unless the group is it.
func (x *Definitions) form(group, name string) {
	forget(x, name)
	for _, d := range x.groups[group] {
		forget(x, d.network.Name)
	}
	first := x.first(group, x.groups[group])
	for _, d := range x.groups[group] {
		d.conflict = nil
		if d != first {
			d.conflict = x.conflict(d, first, group)
		}
	}
	if first != nil {
		network := first.network
		x.firsts[network.Name] = first
		network.Owner, network.ID = x.ownerOf(first), x.ids.idOf(network.Name, x.groups[group])
		x.networks[network.Name] = network
	}
}

func forget(x *Definitions, name string) {
	delete(x.networks, name)
	delete(x.firsts, name)
}

func older(a, b *definition) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Key, b.Key))
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
