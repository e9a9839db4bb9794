// Package physnet connects a node to the physical networks of localnets, as PhysicalNetworks and ProviderNetworks say.
//
// Place in the data flow:
//
//	API -> PhysicalNetwork, ProviderNetwork -> Reconciler -> Bridge, Port and Interface in the local database, and ovn-bridge-mappings
//	    -> ovn-controller: patch ports between br-int and the bridge for each localnet
//
// The rows have an owner, so a restart finds what is there: the PhysicalNetwork, or for ProviderNetworks the interface. The mappings that are ours are listed in
// an own key beside ovn-bridge-mappings: those of other physical networks stay. An interface with addresses is refused,
// since the node might lose its connection.
package physnet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

// oursKey lists the physical networks whose mappings are ours.
const oursKey = "ovn-offload-physical-networks"

// DB is the node's Open_vSwitch database; *ovsdb.DB is one.
type DB interface {
	node.DB
	Owners() []string
}

// Links is what is needed of the host's namespace.
type Links interface {
	node.Observer
	SetLink(name string, s netdev.Settings) error
}

// Reconciler makes the bridges of one node.
type Reconciler struct {
	// Node gives the labels of the Node, false until they are known.
	Node func() (map[string]string, bool)
	// Networks are all physical networks, false until they are synced.
	Networks func() ([]Network, bool)
	DB       DB
	Links    Links
	// Datapath is the datapath_type of bridges.
	Datapath string
	// Changed is called when Problem is another one.
	Changed func()

	problem atomic.Pointer[error]
}

// Problem says which physical networks the node lacks, and why.
func (k *Reconciler) Problem() error {
	if err := k.problem.Load(); err != nil {
		return *err
	}
	return nil
}

// Reconcile makes the node's bridges and mappings those that the physical networks want.
func (k *Reconciler) Reconcile(ctx context.Context) error {
	nodeLabels, known := k.Node()
	networks, synced := k.Networks()
	if !known || !synced {
		return nil // their events come
	}
	wanted, errs := bridges{}, []error(nil)
	for _, network := range slices.SortedFunc(slices.Values(networks), before) {
		b, err := network.on(nodeLabels)
		if err == nil && b != nil {
			err = k.usable(network, *b, wanted)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("physical network %s: %w", network.Name, err))
		} else if b != nil {
			wanted[network.Name] = *b
		}
	}
	refused := errors.Join(errs...)
	last := k.Problem()
	k.problem.Store(&refused)
	if fmt.Sprint(last) != fmt.Sprint(refused) {
		k.Changed()
	}
	return errors.Join(refused, k.commit(ctx, wanted))
}

// Remove takes back what a Reconciler has made.
func Remove(ctx context.Context, db DB) error {
	return (&Reconciler{DB: db}).commit(ctx, nil)
}

// usable says why an interface cannot become the port of a bridge.
func (k *Reconciler) usable(n Network, b bridge, taken bridges) error {
	if strings.ContainsAny(n.Name, ",:") {
		return errors.New("the name has one of the characters ',' and ':'")
	}
	if other, ok := taken[n.Name]; ok && other != b {
		return fmt.Errorf("another ProviderNetwork with this name has interface %s", other.link)
	}
	for name, other := range taken {
		if other.owner != b.owner && (other.link == b.link || other.name == b.name) {
			return fmt.Errorf("interface %s or bridge %s is that of physical network %s", b.link, b.name, name)
		}
	}
	if !b.mayHave(k.ownerOf(b.name, "")) {
		return fmt.Errorf("bridge %s exists already, and is not of this physical network", b.name)
	}
	return k.free(n, b)
}

// free says why an interface is in use.
func (k *Reconciler) free(n Network, b bridge) error {
	links, err := k.Links.Links()
	if err != nil {
		return err
	}
	named := func(name string) int {
		return slices.IndexFunc(links, func(l netdev.Link) bool { return l.Name == name })
	}
	at := named(b.link)
	if at < 0 {
		return fmt.Errorf("the node has no interface %s", b.link)
	}
	if n.TagLink != "" && named(n.TagLink) >= 0 {
		return fmt.Errorf("interface %s takes the packets of the VLAN from %s: delete it", n.TagLink, b.link)
	}
	addrs, err := k.Links.AllAddrs()
	if err != nil {
		return err
	}
	for _, addr := range addrs[links[at].Index] {
		if addr.Addr().IsGlobalUnicast() {
			return fmt.Errorf("interface %s has the address %s, which would lose its connection", b.link, addr)
		}
	}
	if owner := k.ownerOf("", b.link); !b.mayHave(owner) || owner == "" && links[at].Master != 0 {
		return fmt.Errorf("interface %s is a port of another bridge or of a bond", b.link)
	}
	return nil
}

// foreign is in the place of the owner of a row that has none.
const foreign = "another program"

// ownerOf is the owner of the row of a bridge or of an interface, "" when there is no such row.
func (k *Reconciler) ownerOf(bridge, link string) string {
	is := func(model any) bool {
		switch row := model.(type) {
		case *vswitch.Bridge:
			return row.Name == bridge
		case *vswitch.Interface:
			return row.Name == link
		}
		return false
	}
	for _, owner := range k.DB.Owners() {
		if slices.ContainsFunc(k.DB.Rows(owner), func(row ovsdb.Row) bool { return is(row.Model) }) {
			return owner
		}
	}
	if slices.ContainsFunc(k.DB.Table(vswitch.BridgeTable), is) || slices.ContainsFunc(k.DB.Table(vswitch.InterfaceTable), is) {
		return foreign
	}
	return ""
}

func (k *Reconciler) commit(ctx context.Context, wanted bridges) error {
	// Mappings go before their bridges, and come after them.
	if err := k.setMappings(ctx, wanted, false); err != nil {
		return err
	}
	rows := map[string][]ovsdb.Row{}
	for _, name := range k.DB.Owners() {
		if owner, err := contract.ParseOwner(name); err == nil && slices.Contains([]string{kindPhysical, kindProvider}, owner.Kind) {
			rows[name] = nil
		}
	}
	for _, b := range wanted {
		rows[b.owner.String()] = k.rows(b)
	}
	var wants []ovsdb.Want
	for _, owner := range slices.Sorted(maps.Keys(rows)) {
		wants = append(wants, ovsdb.Want{Owner: owner, Rows: rows[owner]})
	}
	if len(wants) > 0 {
		result, err := k.DB.Commit(ctx, wants...)
		if err != nil {
			return err
		}
		for owner, failure := range result.Failed {
			err = errors.Join(err, fmt.Errorf("%s: %w", owner, failure))
		}
		if err != nil {
			return err
		}
	}
	for _, b := range wanted {
		if err := k.Links.SetLink(b.link, netdev.Settings{State: netdev.Up}); err != nil {
			return err
		}
	}
	return k.setMappings(ctx, wanted, true)
}

func (k *Reconciler) rows(b bridge) []ovsdb.Row {
	standalone := vswitch.BridgeFailModeStandalone
	rows := []ovsdb.Row{{
		ID:      b.name,
		Model:   &vswitch.Bridge{Name: b.name, DatapathType: k.Datapath, FailMode: &standalone},
		Parents: []ovsdb.Parent{{Table: vswitch.OpenvSwitchTable, Column: "bridges"}},
	}}
	rows = append(rows, node.PortRows(b.name, &vswitch.Interface{Name: b.name, Type: "internal"})...)
	return append(rows, node.PortRows(b.name, &vswitch.Interface{Name: b.link})...)
}

// setMappings removes our mappings that are not wanted, and then adds those that are.
func (k *Reconciler) setMappings(ctx context.Context, wanted bridges, add bool) error {
	return k.DB.EditKeys(ctx, vswitch.OpenvSwitchTable, "external_ids", func(have map[string]string) map[string]string {
		mappings, ours := merged(have[node.BridgeMappings], have[oursKey], wanted, add)
		return map[string]string{node.BridgeMappings: mappings, oursKey: ours}
	})
}

// merged are the mappings and the list of ours. Without add, only those of ours stay that are wanted as they are.
func merged(mappings, ours string, wanted bridges, add bool) (newMappings, newOurs string) {
	former := strings.Split(ours, ",")
	var list, names []string
	for entry := range strings.SplitSeq(mappings, ",") {
		network, bridge, _ := strings.Cut(entry, ":")
		want, isWanted := wanted[network]
		switch {
		case entry == "":
		case !isWanted && !slices.Contains(former, network): // another program's
			list = append(list, entry)
		case isWanted && !add && want.name == bridge:
			list, names = append(list, entry), append(names, network)
		}
	}
	if add {
		for _, network := range slices.Sorted(maps.Keys(wanted)) {
			list, names = append(list, network+":"+wanted[network].name), append(names, network)
		}
	}
	return strings.Join(list, ","), strings.Join(names, ",")
}
