package network

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/network/render"
)

// RefusedError says why a NAD does not make a network, or a namespace does not get one, that is another owner's.
type RefusedError string

func (e RefusedError) Error() string { return string(e) }

func refused(format string, args ...any) error { return RefusedError(fmt.Sprintf(format, args...)) }

// Object is an object that stands for a network: a UserDefinedNetwork, a ClusterUserDefinedNetwork, or one of OVN4NFV.
type Object struct {
	Owner   contract.Owner
	UID     types.UID
	Created time.Time
	// Selector selects the namespaces of the network; nil: the network is for the object's own namespace.
	Selector labels.Selector
}

// ReadObject gives what is read of an object of the API that stands for a network. A selector that cannot be read selects
// nothing.
func ReadObject(object *unstructured.Unstructured) *Object {
	selector, _ := render.SelectorOf(object) // pkg/network/nads says in the status of the object that it is wrong
	return &Object{Owner: render.OwnerOf(object), UID: object.GetUID(), Created: object.GetCreationTimestamp().Time, Selector: selector}
}

// standing orders the NADs of one name of a network: those of a lower standing decide only where there are none of a higher.
type standing int

const (
	// made is a NAD whose controller is an object of the API, by its UID, in a namespace that the object is for.
	made standing = iota
	// left is made in a namespace that the object does not select, or not any more.
	left
	// orphaned is a NAD whose object is gone, or is not known yet.
	orphaned
	// handMade is any other NAD. It belongs to its namespace.
	handMade
)

// owners say which object a network belongs to, and which namespaces may use it.
type owners struct {
	Rules
	// objects are those that stand for networks, by the group of their names.
	objects map[string]map[contract.Owner]Object
}

// changed takes in an object, nil when it was deleted.
func (x *owners) changed(group string, owner contract.Owner, object *Object) {
	if object == nil {
		if delete(x.objects[group], owner); len(x.objects[group]) == 0 {
			delete(x.objects, group)
		}
		return
	}
	if x.objects[group] == nil {
		x.objects[group] = map[contract.Owner]Object{}
	}
	x.objects[group][owner] = *object
}

// object is the object that a NAD is made from, nil for other NADs.
func (x *owners) object(d *definition) *Object {
	object, ok := x.objects[d.network.JoinSwitch()][d.Controller]
	if !ok || object.UID != d.ControllerUID || !saysMade(d) {
		return nil
	}
	return &object
}

// saysMade says that a NAD has the names that its controller's NADs have.
func saysMade(d *definition) bool {
	_, name, _ := strings.Cut(d.Key, "/")
	return d.ControllerUID != "" && name == d.Controller.Name && d.network.Name == render.NetworkName(d.Controller)
}

func (x *owners) standing(d *definition) standing {
	switch object := x.object(d); {
	case object != nil && object.Selector != nil && !object.Selector.Matches(labels.Set(x.labelsOf(d.namespace()))):
		return left
	case object != nil:
		return made
	case saysMade(d):
		return orphaned
	}
	return handMade
}

// isReserved says that a name of a network, as OVN has it, is that of an object. Names of ClusterUserDefinedNetworks are so,
// whether or not there is one.
func (x *owners) isReserved(group string) bool {
	return len(x.objects[group]) > 0 || strings.HasPrefix(group, render.ClusterPrefix)
}

// first is the NAD that decides what the network of a group is: of the highest standing, the oldest; nil if there is none.
func (x *owners) first(group string, nads map[string]*definition) (first *definition) {
	for _, d := range nads {
		if x.isReserved(group) && x.standing(d) == handMade {
			continue
		}
		if first == nil || cmp.Or(cmp.Compare(x.standing(d), x.standing(first)), older(d, first)) < 0 {
			first = d
		}
	}
	return first
}

// conflict says with what a NAD does not agree.
func (x *owners) conflict(d, first *definition, group string) error {
	if first == nil || d.network.Name == first.network.Name || x.standing(d) > x.standing(first) {
		if err := x.apart(d, first, group); err != nil {
			return err
		}
	}
	switch {
	case d.network.Name != first.network.Name:
		return fmt.Errorf("the names of networks %s and %s, which %s defines, are the same in OVN, where '-' and '.' are one character",
			d.network.Name, first.network.Name, first.Key)
	case !reflect.DeepEqual(d.network, first.network):
		return fmt.Errorf("the configuration of network %s is not that of %s, which is older", d.network.Name, first.Key)
	}
	return nil
}

// ownerOf is the object that the network of a first NAD belongs to.
func (x *owners) ownerOf(first *definition) types.UID {
	if x.standing(first) == handMade {
		return first.UID
	}
	return first.ControllerUID
}

// since is when the network of a first NAD began.
func (x *owners) since(first *definition) time.Time {
	if object := x.object(first); object != nil {
		return object.Created
	}
	return first.Created
}

// apart says why a NAD does not belong to the network of the first one of its group; nil when it does.
func (x *owners) apart(d, first *definition, group string) error {
	switch isMade := x.standing(d) != handMade; {
	case !isMade && x.isReserved(group):
		return refused("name %s is reserved for %s; give the network another name", d.network.Name, x.reservedFor(group))
	case isMade && d.ControllerUID != first.ControllerUID:
		return refused("%s %s is another object than that of %s", d.Controller.Kind, d.Controller.Name, first.Key)
	case isMade, d.namespace() == first.namespace(), lists(first, d.namespace()), x.Shared:
		return nil
	}
	return refused("network %s is that of NetworkAttachmentDefinition %s, which is older; to share the network, list %s in annotation %s there, else give this one another name",
		d.network.Name, first.Key, d.namespace(), contract.NamespacesKey)
}

// reservedFor names the object that has a name.
func (x *owners) reservedFor(group string) string {
	var names []string
	for owner := range x.objects[group] {
		names = append(names, owner.Kind+" "+strings.TrimPrefix(owner.Namespace+"/"+owner.Name, "/"))
	}
	if len(names) == 0 {
		return "a ClusterUserDefinedNetwork"
	}
	return slices.Min(names)
}

// lists says that the annotation of a NAD lists a namespace.
func lists(d *definition, namespace string) bool {
	return d.namespaces[namespace] || d.namespaces["*"]
}

// refusal says why the pods of a namespace cannot have the network of a NAD; nil when they can.
func (x *owners) refusal(d, first *definition, namespace string) error {
	object, owner := x.object(d), "namespace "+first.namespace()
	switch {
	case x.Shared:
		return nil
	case object != nil && object.Selector != nil:
		if object.Selector.Matches(labels.Set(x.labelsOf(namespace))) {
			return nil
		}
		return refused("network %s belongs to ClusterUserDefinedNetwork %s, whose namespaceSelector does not select namespace %s", d.network.Name, object.Owner.Name, namespace)
	case x.standing(d) == orphaned && d.Controller.Namespace == "":
		return refused("ClusterUserDefinedNetwork %s, which network %s belongs to, does not exist", d.Controller.Name, d.network.Name)
	case d.namespace() == namespace, first.namespace() == namespace, lists(first, namespace):
		return nil
	case d.namespace() == first.namespace() && lists(d, namespace):
		return nil
	case object != nil:
		owner = object.Owner.Kind + " " + object.Owner.Name + " of " + owner
	}
	return refused("network %s belongs to %s, which does not let namespace %s use it: its owner can list %s in annotation %s",
		d.network.Name, owner, namespace, namespace, contract.NamespacesKey)
}

func (x *owners) labelsOf(namespace string) map[string]string {
	if x.NamespaceLabels == nil {
		return nil
	}
	return x.NamespaceLabels(namespace)
}
