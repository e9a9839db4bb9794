// Package physnet connects a node to the physical networks of localnets, as PhysicalNetworks say.
//
// Place in the data flow:
//
//	API -> PhysicalNetwork -> Reconciler -> Bridge, Port and Interface in the local database, and ovn-bridge-mappings
//	    -> ovn-controller: patch ports between br-int and the bridge for each localnet
//
// The rows have the PhysicalNetwork as owner, so a restart finds what is there. The mappings that are ours are listed in
// an own key beside ovn-bridge-mappings: those of other physical networks stay. An interface with addresses is refused,
// since the node might lose its connection.
package physnet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

// Kind is that of the owners of the rows.
const Kind = "PhysicalNetwork"

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
	// Networks are all PhysicalNetworks, false until they are synced.
	Networks func() ([]*v1alpha1.PhysicalNetwork, bool)
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

// Reconcile makes the node's bridges and mappings those that the PhysicalNetworks want.
func (k *Reconciler) Reconcile(ctx context.Context) error {
	nodeLabels, known := k.Node()
	networks, synced := k.Networks()
	if !known || !synced {
		return nil // their events come
	}
	wanted, errs := map[string]v1alpha1.PhysicalBridge{}, []error(nil)
	for _, network := range slices.SortedFunc(slices.Values(networks), older) {
		bridge, err := selected(network.Spec.Bridges, nodeLabels)
		if err == nil && bridge != nil {
			err = k.usable(network.Name, *bridge, wanted)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("physical network %s: %w", network.Name, err))
		} else if bridge != nil {
			wanted[network.Name] = *bridge
		}
	}
	refused := errors.Join(errs...)
	before := k.Problem()
	k.problem.Store(&refused)
	if fmt.Sprint(before) != fmt.Sprint(refused) {
		k.Changed()
	}
	return errors.Join(refused, k.commit(ctx, wanted))
}

// older orders PhysicalNetworks: of those that want one interface, the oldest has it, in each pass.
func older(a, b *v1alpha1.PhysicalNetwork) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// Remove takes back what a Reconciler has made.
func Remove(ctx context.Context, db DB) error {
	return (&Reconciler{DB: db}).commit(ctx, nil)
}

// selected is the first entry that selects the node, with the bridge's name.
func selected(bridges []v1alpha1.PhysicalBridge, nodeLabels map[string]string) (*v1alpha1.PhysicalBridge, error) {
	for _, bridge := range bridges {
		selector, err := metav1.LabelSelectorAsSelector(&bridge.NodeSelector)
		if err != nil {
			return nil, fmt.Errorf("nodeSelector: %w", err)
		}
		if selector.Matches(labels.Set(nodeLabels)) {
			bridge.Bridge = cmp.Or(bridge.Bridge, "br-"+bridge.Interface[:min(len(bridge.Interface), 12)])
			return &bridge, nil
		}
	}
	return nil, nil
}

// usable says why an interface cannot become the port of a bridge.
func (k *Reconciler) usable(network string, b v1alpha1.PhysicalBridge, taken map[string]v1alpha1.PhysicalBridge) error {
	if strings.ContainsAny(network, ",:") {
		return errors.New("the name has one of the characters ',' and ':'")
	}
	for name, other := range taken {
		if other.Interface == b.Interface || other.Bridge == b.Bridge {
			return fmt.Errorf("interface %s or bridge %s is that of physical network %s", b.Interface, b.Bridge, name)
		}
	}
	if owner := k.ownerOf(b.Bridge, ""); owner != "" && owner != rowsOwner(network) {
		return fmt.Errorf("bridge %s exists already, and is not of this physical network", b.Bridge)
	}
	return k.free(network, b)
}

// free says why an interface is in use.
func (k *Reconciler) free(network string, b v1alpha1.PhysicalBridge) error {
	links, err := k.Links.Links()
	if err != nil {
		return err
	}
	at := slices.IndexFunc(links, func(l netdev.Link) bool { return l.Name == b.Interface })
	if at < 0 {
		return fmt.Errorf("the node has no interface %s", b.Interface)
	}
	addrs, err := k.Links.Addrs(b.Interface)
	if err != nil {
		return err
	}
	for _, addr := range addrs {
		if addr.Addr().IsGlobalUnicast() {
			return fmt.Errorf("interface %s has the address %s, which would lose its connection", b.Interface, addr)
		}
	}
	owner := k.ownerOf("", b.Interface)
	if owner != "" && owner != rowsOwner(network) || owner == "" && links[at].Master != 0 {
		return fmt.Errorf("interface %s is a port of another bridge or of a bond", b.Interface)
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

func rowsOwner(network string) string { return contract.Owner{Kind: Kind, Name: network}.String() }

func (k *Reconciler) commit(ctx context.Context, wanted map[string]v1alpha1.PhysicalBridge) error {
	// Mappings go before their bridges, and come after them.
	if err := k.setMappings(ctx, wanted, false); err != nil {
		return err
	}
	var wants []ovsdb.Want
	for _, name := range k.DB.Owners() {
		owner, err := contract.ParseOwner(name)
		if _, ok := wanted[owner.Name]; err == nil && owner.Kind == Kind && !ok {
			wants = append(wants, ovsdb.Want{Owner: name})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		wants = append(wants, ovsdb.Want{Owner: rowsOwner(name), Rows: k.rows(wanted[name])})
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
	for _, bridge := range wanted {
		if err := k.Links.SetLink(bridge.Interface, netdev.Settings{State: netdev.Up}); err != nil {
			return err
		}
	}
	return k.setMappings(ctx, wanted, true)
}

func (k *Reconciler) rows(b v1alpha1.PhysicalBridge) []ovsdb.Row {
	standalone := vswitch.BridgeFailModeStandalone
	rows := []ovsdb.Row{{
		ID:      b.Bridge,
		Model:   &vswitch.Bridge{Name: b.Bridge, DatapathType: k.Datapath, FailMode: &standalone},
		Parents: []ovsdb.Parent{{Table: vswitch.OpenvSwitchTable, Column: "bridges"}},
	}}
	rows = append(rows, node.PortRows(b.Bridge, &vswitch.Interface{Name: b.Bridge, Type: "internal"})...)
	return append(rows, node.PortRows(b.Bridge, &vswitch.Interface{Name: b.Interface})...)
}

// setMappings removes our mappings that are not wanted, and then adds those that are.
func (k *Reconciler) setMappings(ctx context.Context, wanted map[string]v1alpha1.PhysicalBridge, add bool) error {
	var settings map[string]string
	for _, model := range k.DB.Table(vswitch.OpenvSwitchTable) {
		if row, ok := model.(*vswitch.OpenvSwitch); ok {
			settings = row.ExternalIDs
		}
	}
	mappings, ours := merged(settings[node.BridgeMappings], settings[oursKey], wanted, add)
	if mappings == settings[node.BridgeMappings] && ours == settings[oursKey] {
		return nil
	}
	return k.DB.MergeKeys(ctx, vswitch.OpenvSwitchTable, "external_ids", map[string]string{node.BridgeMappings: mappings, oursKey: ours})
}

// merged are the mappings and the list of ours. Without add, only those of ours stay that are wanted as they are.
func merged(mappings, ours string, wanted map[string]v1alpha1.PhysicalBridge, add bool) (newMappings, newOurs string) {
	former := strings.Split(ours, ",")
	var list, names []string
	for entry := range strings.SplitSeq(mappings, ",") {
		network, bridge, _ := strings.Cut(entry, ":")
		want, isWanted := wanted[network]
		switch {
		case entry == "":
		case !isWanted && !slices.Contains(former, network): // another program's
			list = append(list, entry)
		case isWanted && !add && want.Bridge == bridge:
			list, names = append(list, entry), append(names, network)
		}
	}
	if add {
		for _, network := range slices.Sorted(maps.Keys(wanted)) {
			list, names = append(list, network+":"+wanted[network].Bridge), append(names, network)
		}
	}
	return strings.Join(list, ","), strings.Join(names, ",")
}
