package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// multis are the MultiNetworkPolicies. Each is a Policy on every secondary network that its NetworkAttachmentDefinitions
// define now.
type multis struct {
	networkOf func(nad string) *contract.Network

	// policyChanged takes in the policy on a network.
	policyChanged func(owner contract.Owner, policy *Policy) []contract.Owner

	lock    sync.Mutex // before that of policies
	objects map[contract.Owner]*multi
	byNAD   map[string]map[*multi]struct{}
}

// multi is a MultiNetworkPolicy.
type multi struct {
	owner  contract.Owner
	object *networkingv1.NetworkPolicy
	// err says what is wrong with the object as a whole, annotation what is wrong with PolicyForKey.
	err, annotation error
	nads            []string
	// networks are the names of those on which it is in force, and whether its rules are: on those beyond the limit it allows
	// nothing.
	networks map[string]bool
}

func newMultis(networkOf func(nad string) *contract.Network, policyChanged func(contract.Owner, *Policy) []contract.Owner) multis {
	return multis{networkOf: networkOf, policyChanged: policyChanged, objects: map[contract.Owner]*multi{}, byNAD: map[string]map[*multi]struct{}{}}
}

// MultiChanged takes in a MultiNetworkPolicy, nil when it was deleted.
func (x *multis) MultiChanged(owner contract.Owner, object *unstructured.Unstructured) []contract.Owner {
	x.lock.Lock()
	defer x.lock.Unlock()
	now := &multi{owner: owner, networks: map[string]bool{}}
	if old := x.objects[owner]; old != nil {
		now.networks = old.networks
		for _, nad := range old.nads {
			take(x.byNAD, nad, old)
		}
	}
	delete(x.objects, owner)
	if object != nil {
		now.read(object)
		x.objects[owner] = now
		for _, nad := range now.nads {
			put(x.byNAD, nad, now)
		}
	}
	return contract.Unique(x.resolve(now))
}

// NADsChanged takes in that NetworkAttachmentDefinitions, or the networks that they define, have changed.
func (x *multis) NADsChanged(nads ...string) (owners []contract.Owner) {
	x.lock.Lock()
	defer x.lock.Unlock()
	changed := map[*multi]struct{}{}
	for _, nad := range nads {
		maps.Copy(changed, x.byNAD[nad])
	}
	for m := range changed {
		owners = append(owners, x.resolve(m)...)
	}
	return contract.Unique(owners)
}

// resolve puts the policy on its networks, and takes it from those on which it was.
func (x *multis) resolve(m *multi) (owners []contract.Owner) {
	before := m.networks
	m.networks = map[string]bool{}
	for i, nad := range m.nads {
		if network := x.networkOf(nad); network != nil && network.Role == contract.RoleSecondary {
			m.networks[network.Name] = m.networks[network.Name] || i < contract.MaxPolicyNADs
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, stays := m.networks[name]; !stays {
			owners = append(owners, x.policyChanged(m.owner.On(name), nil)...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.networks)) {
		policy := m.policyOn(name)
		for _, set := range policy.Sets() { // also those that the network's families change
			owners = append(owners, set.Owner())
		}
		owners = append(owners, x.policyChanged(policy.Owner, policy)...)
	}
	return append(owners, m.owner)
}

// read decodes the object, whose specification has the form of a NetworkPolicy's.
func (m *multi) read(object *unstructured.Unstructured) {
	m.object = &networkingv1.NetworkPolicy{}
	m.err = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, m.object)
	m.object.Namespace, m.object.Name = m.owner.Namespace, m.owner.Name
	m.nads, m.annotation = contract.ParsePolicyFor(object.GetAnnotations()[contract.PolicyForKey], m.owner.Namespace)
}

// policyOn is the policy on a network. One that cannot be read isolates every pod of its namespace there, and so does one on
// a network beyond the limit.
func (m *multi) policyOn(network string) *Policy {
	var err error
	switch {
	case m.err != nil:
		err = fmt.Errorf("spec: %w", m.err)
	case !m.networks[network]:
		err = fmt.Errorf("annotation %s: %w: it lists more than %d networks", contract.PolicyForKey, ErrOverLimit, contract.MaxPolicyNADs)
	default:
		return parse(m.owner.On(network), m.object)
	}
	return &Policy{
		Owner: m.owner.On(network), Tier: TierNetworkPolicy, Ingress: &Direction{}, Egress: &Direction{},
		Subject: Selection{Namespace: m.owner.Namespace, Pods: labels.Everything()},
		Err:     fmt.Errorf("%w: the policy selects every pod of the namespace and allows nothing", err),
	}
}

// onFurther makes the rules of a policy those of its network. There all pods of all namespaces are a set as well: subnets
// may have hosts that are no pods.
func (p *Policy) onFurther() {
	network := p.Owner.Network
	for _, direction := range []*Direction{p.Ingress, p.Egress} {
		if direction == nil {
			continue
		}
		for i := range direction.Rules {
			rule := &direction.Rules[i]
			if rule.EveryPod {
				rule.EveryPod, rule.Peers = false, newPodSet([]Selection{everyPod()}, PortName{}, nil)
			}
			rule.Peers = rule.Peers.on(network)
			for j := range rule.Ports {
				for k, set := range rule.Ports[j].Named {
					rule.Ports[j].Named[k] = set.on(network)
				}
			}
		}
	}
}

// MultiOwners are the owners that stand for the MultiNetworkPolicies, in no order.
func (x *multis) MultiOwners() []contract.Owner {
	x.lock.Lock()
	defer x.lock.Unlock()
	return slices.Collect(maps.Keys(x.objects))
}

// maxNamed is how many networks an error names: an Event has no room for more.
const maxNamed = 10

// MultiProblem says which networks of a MultiNetworkPolicy are not found, the first of them if there are many; nil for an owner
// that stands for no policy.
func (x *multis) MultiProblem(owner contract.Owner) error {
	x.lock.Lock()
	defer x.lock.Unlock()
	m := x.objects[owner]
	if m == nil {
		return nil
	}
	if len(m.nads) == 0 && m.annotation == nil {
		return fmt.Errorf("the annotation %s is missing: the policy has no effect", contract.PolicyForKey)
	}
	errs := []error{m.annotation}
	for _, nad := range m.nads {
		if len(errs) > maxNamed {
			break
		}
		switch network := x.networkOf(nad); {
		case network == nil:
			errs = append(errs, fmt.Errorf("NetworkAttachmentDefinition %s does not exist, or defines no network", nad))
		case network.Role != contract.RoleSecondary:
			errs = append(errs, fmt.Errorf("network %s of NetworkAttachmentDefinition %s is primary, for which NetworkPolicies are", network.Name, nad))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("annotation %s: %w", contract.PolicyForKey, err)
	}
	return nil
}
