package ipam

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ipam/quota"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// ErrExhausted is wrapped when no subnet, id or address is left. What comes free
// later is announced by Release.
var ErrExhausted = errors.New("exhausted")

// Decision is what an object's annotations must say.
type Decision struct {
	// Annotations to write; empty when the object says the same already.
	Annotations map[string]string
	// First are those of a node that are to be written before, on their own: the others may not fit.
	First map[string]string
	// Warning says what was wrong with the annotation that was there; mostly "".
	Warning string
	// Claims are addresses that the status of an IPAMClaim must say before the annotations are written.
	Claims map[contract.Owner][]netip.Prefix
	// Refused says why IPAMClaims of the pod have got no addresses.
	Refused map[contract.Owner]error
	// Retry are pods that waited behind this one for the quota of their namespace.
	Retry []contract.Owner
	// Failed has, by name, the further networks on which a node got no subnet.
	Failed map[string]error
}

// Held is a pod's row in the Northbound database: the addresses are in use.
type Held struct {
	// Owner has the key of the attachment.
	Owner contract.Owner
	// Network is the name of a further network, "" for the default one.
	Network string
	// UID of the pod that the row was made for; "" when the row does not say.
	UID   types.UID
	Addrs []netip.Addr
	MAC   contract.MAC
}

// Addresses has the addresses of pods, on nodes whose subnets Subnets has. Its methods may be called at
// once from several goroutines.
type Addresses struct {
	cfg     Config
	subnets *Subnets

	mu    sync.Mutex
	pools map[string]*pods // by network
	// newest has the newest holding of each attachment.
	newest  map[contract.Owner]*holding
	waiting waitings
	counts  *quota.Counts
}

// waitings have the attachments that got nothing.
type waitings map[contract.Owner]waiting

// waiting says for what an attachment waits: an address of a network on a node, or of a NamespaceSubnet, or the address
// and the MAC that it asks for.
type waiting struct {
	network, node, subnet string
	addrs                 []netip.Addr
	mac                   contract.MAC
}

// NewAddresses is for the networks that subnets has; call Rebuild before anything else.
func NewAddresses(subnets *Subnets) *Addresses {
	a := &Addresses{cfg: subnets.cfg, subnets: subnets}
	a.clear()
	return a
}

func (a *Addresses) clear() {
	a.pools, a.newest, a.waiting = map[string]*pods{}, map[contract.Owner]*holding{}, waitings{}
	a.counts = quota.New()
	a.pool(contract.Network{})
}

// pool has the addresses of a network, as the network is now.
func (a *Addresses) pool(network contract.Network) *pods {
	pool, cfg := a.pools[network.Name], of(network, a.cfg.Services)
	if network.Name == "" {
		network, cfg = a.cfg.Network(), a.cfg
	}
	switch {
	case pool == nil:
		pool = newPods(network, cfg, a.newest, a.counts)
		a.pools[network.Name] = pool
	case network.Name != "" && !reflect.DeepEqual(pool.network, network):
		pool.follow(network, cfg)
	default:
		return pool
	}
	pool.routers = routersOf(network, a.cfg.Masquerade)
	if network.Persistent && a.cfg.Further != nil {
		for _, claim := range a.cfg.Further.Claims(network.Name) {
			pool.adoptClaim(claim)
		}
	}
	return pool
}

// Forget drops what is known of networks that are gone and of which no pod has anything.
func (a *Addresses) Forget(exists func(network string) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.pools, func(name string, pool *pods) bool { return name != "" && pool.held == 0 && !exists(name) })
}

// Rebuild forgets everything and starts from what is recorded: the rows, which are in use, and the
// annotations of pods, oldest first. Where two claim the same, the later one gets a new decision from
// Pod. An annotation that is not valid is left to Pod as well.
// The rows may be an older copy: that of a pod which is gone is not in use where
// the status of another pod says that this one runs with the address.
func (a *Addresses) Rebuild(pods []*corev1.Pod, rows []Held) {
	networks := map[string]contract.Network{"": {}}
	if a.cfg.Further != nil {
		for _, network := range a.cfg.Further.Networks() {
			networks[network.Name] = network
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.clear()
	for _, network := range networks {
		if network.Persistent && len(a.cfg.Further.Claims(network.Name)) > 0 {
			a.pool(network) // which holds what the claims say
		}
	}
	alive := newLiving(pods)
	for _, row := range slices.SortedFunc(slices.Values(rows), func(x, y Held) int { return compareOwners(x.Owner, y.Owner) }) {
		if network, ok := networks[row.Network]; ok {
			a.pool(network).adoptRow(row, alive)
		}
	}
	for _, pod := range slices.SortedFunc(slices.Values(pods), func(x, y *corev1.Pod) int {
		return cmp.Or(x.CreationTimestamp.Compare(y.CreationTimestamp.Time),
			cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	}) {
		subject := newSubject(pod)
		requests := a.cfg.requests(subject)
		if len(pod.Status.PodIPs) == 0 { // else it keeps what it has
			requests, _ = admit(a, pod, requests)
		}
		for _, r := range requests {
			pool := a.pool(r.Network)
			blocks := pool.shared
			if !pool.isShared() { // recorded or not
				blocks = pool.blocksOf(pod.Spec.NodeName, a.subnets.decided(pod.Spec.NodeName, r.Network.Name))
			}
			if len(blocks) > 0 || pool.isShared() {
				pool.restore(subject, r, blocks)
			}
		}
	}
}

func compareOwners(x, y contract.Owner) int {
	return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name), cmp.Compare(x.Network, y.Network))
}

func attachmentOwner(pod *corev1.Pod, r Request) contract.Owner {
	return contract.PodOwner(pod.Namespace, pod.Name).On(r.Key())
}

// Pod decides the addresses of a pod on all its networks, for one patch; a pod without any gets the zero
// Decision. A valid annotation on free addresses is kept, any other is replaced. A network that cannot give what the pod
// asks for does not stop the others.
// Errors: ErrExhausted, ErrRequest, quota.Error, or reconcile.ErrNotReady until the node's subnets are recorded.
func (a *Addresses) Pod(pod *corev1.Pod, node *corev1.Node) (Decision, error) {
	subject := newSubject(pod)
	requests := a.cfg.requests(subject)
	a.mu.Lock()
	defer a.mu.Unlock()
	requests, beyond := admit(a, pod, wanted(a, subject, requests))
	d, errs := Decision{Retry: a.counts.Follow(pod, beyond)}, []error(nil)
	if beyond != nil {
		errs = append(errs, beyond)
	}
	for _, r := range requests {
		h, warning, err := a.decide(subject, node, r)
		d.Warning = cmp.Or(d.Warning, warning)
		if err == nil && h == nil {
			continue
		} else if err == nil {
			d.claim(r, h)
			d.Warning = cmp.Or(h.record(subject.said, warning), d.Warning)
			errs = append(errs, isOff(h))
		} else if isStale(pod, r, err) {
			subject.said.Set(attachmentOwner(pod, r).NetworkKey(), "")
		}
		d.refuse(r, err)
		errs = append(errs, err)
	}
	if decided := subject.said.String(); decided != pod.Annotations[contract.PodNetworksKey] {
		d.Annotations = map[string]string{contract.PodNetworksKey: decided}
	}
	return d, errors.Join(errs...)
}

// isStale says that what the annotation of a pod has of a further network is not the pod's any more: another pod has got it while the
// network was absent. A pod that runs uses it nevertheless.
func isStale(pod *corev1.Pod, r Request, err error) bool {
	return r.Network.Name != "" && len(pod.Status.PodIPs) == 0 && !errors.Is(err, reconcile.ErrNotReady)
}

// admit leaves out the attachments that a pod does not have yet, if these are beyond the quota of its namespace. A pod gets all
// or none.
func admit(a *Addresses, pod *corev1.Pod, requests []Request) ([]Request, *quota.Error) {
	var limit *quota.Quota
	needs, isNew := 0, func(r Request) bool { return r.Quota != nil && find(a.newest[attachmentOwner(pod, r)], pod.UID) == nil }
	for _, r := range requests {
		if isNew(r) {
			limit, needs = r.Quota, needs+1
		}
	}
	if limit == nil {
		return requests, nil
	}
	beyond := a.counts.Judge(pod, *limit, needs)
	if beyond == nil {
		return requests, nil
	}
	return slices.DeleteFunc(slices.Clone(requests), isNew), beyond
}

// wanted leaves out what a pod that is being deleted does not have yet.
func wanted(a *Addresses, pod subject, requests []Request) []Request {
	if pod.DeletionTimestamp == nil {
		return requests
	}
	return slices.DeleteFunc(requests, func(r Request) bool {
		owner := attachmentOwner(pod.Pod, r)
		if find(a.newest[owner], pod.UID) != nil || pod.said.Names(owner.NetworkKey()) {
			return false
		}
		delete(a.waiting, owner)
		return true
	})
}

// decide gives what a pod has on one network, from now on if it had nothing. A pod that is being deleted gets nothing new.
func (a *Addresses) decide(pod subject, node *corev1.Node, r Request) (h *holding, warning string, err error) {
	owner, pool := attachmentOwner(pod.Pod, r), a.pool(r.Network)
	r = r.recorded()
	blocks, ok := a.blocks(pool, node)
	if !ok {
		return nil, "", fmt.Errorf("%w: node %s has no subnet%s", reconcile.ErrNotReady, pod.Spec.NodeName, onNetwork(r))
	}
	if h = pool.current(owner, pod, blocks); h == nil && r.IPAMClaim == nil {
		h, warning = pool.adopt(owner, pod, r, blocks)
	} else if h == nil {
		h = pool.restoreClaimed(owner, pod, *r.IPAMClaim)
	}
	waits := waiting{network: r.Network.Name, node: pod.Spec.NodeName, mac: r.MAC}
	if h == nil && pod.DeletionTimestamp != nil {
		delete(a.waiting, owner)
		return nil, "", nil
	} else if h == nil && pool.isDefault() {
		if r.Subnet != nil {
			r.Subnet = a.cfg.Further.SubnetOf(pod.Pod) // it may have ended, and gone with its last pod
		}
		if r.Subnet != nil {
			waits = waiting{subnet: r.Subnet.Name}
		}
		h, err = pool.takeDefault(owner, pod.Pod, r, blocks)
	} else if h == nil {
		h, err = pool.take(owner, pod.Pod, r, blocks)
	}
	if err != nil {
		waits.addrs = addressesOf(&contract.PodNetwork{Addresses: r.Addresses})
		a.waiting[owner] = waits
		return nil, warning, err
	}
	h.reroute(r)
	delete(a.waiting, owner)
	pool.depart(h, pod.Pod)
	return h, warning, nil
}

func onNetwork(r Request) string {
	if r.Network.Name == "" {
		return ""
	}
	return " on network " + r.Network.Name
}

// blocks are the subnets for pods of a node; false until those of the node are recorded.
func (a *Addresses) blocks(pool *pods, node *corev1.Node) (blocks, bool) {
	if pool.isShared() {
		return pool.shared, true
	}
	subnets := a.subnets.Recorded(node, pool.network.Name)
	if subnets == nil {
		return nil, false
	}
	return pool.blocksOf(node.Name, subnets), true
}

// Adopt is Allocated for an attachment for which nothing was decided yet and which has a valid annotation:
// a former leader's, or OVN-Kubernetes'. Pod will write nothing then, so that no event would say that the pod is ready.
func (a *Addresses) Adopt(pod *corev1.Pod, node *corev1.Node, key string) *contract.PodNetwork {
	subject := newSubject(pod)
	requests := a.cfg.requests(subject)
	a.mu.Lock()
	requests, _ = admit(a, pod, requests)
	if at := slices.IndexFunc(requests, func(r Request) bool { return r.Key() == key }); at >= 0 {
		pool := a.pool(requests[at].Network)
		if blocks, ok := a.blocks(pool, node); ok {
			pool.restore(subject, requests[at], blocks)
		}
	}
	a.mu.Unlock()
	return a.Allocated(pod, key)
}

// Allocated is the pod's value on a network once it is decided and recorded; nil before. The key is that of the
// attachment, "" for the default network. From then on the holding of the pod's UID decides, whatever its annotation
// says.
func (a *Addresses) Allocated(pod *corev1.Pod, key string) *contract.PodNetwork {
	a.mu.Lock()
	defer a.mu.Unlock()
	owner := contract.PodOwner(pod.Namespace, pod.Name).On(key)
	h := find(a.newest[owner], pod.UID)
	if h == nil {
		return nil
	}
	if !h.durable && h.recorded != "" && contract.HasNetwork(pod.Annotations[contract.PodNetworksKey], owner.NetworkKey(), h.recorded) {
		h.durable = true
	}
	if !h.durable {
		return nil
	}
	return h.value()
}

// NetworkOf is the network on which a pod has an attachment, nil when it has nothing there.
func (a *Addresses) NetworkOf(pod *corev1.Pod, key string) *contract.Network {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := find(a.newest[contract.PodOwner(pod.Namespace, pod.Name).On(key)], pod.UID)
	if h == nil {
		return nil
	}
	network := h.pool.network
	return &network
}

// Owners are all attachments that hold something or wait for it, also those
// whose objects and rows are gone: a full pass releases these.
func (a *Addresses) Owners() []contract.Owner {
	a.mu.Lock()
	defer a.mu.Unlock()
	owners := slices.DeleteFunc(slices.Collect(maps.Keys(a.newest)), func(o contract.Owner) bool { return o.Kind != contract.KindPod })
	for o := range a.waiting {
		if a.newest[o] == nil {
			owners = append(owners, o)
		}
	}
	return owners
}

// Holders are the UIDs for which something is held in the name of a pod;
// "" is one whose row has no UID, or that lost its place.
func (a *Addresses) Holders(owner contract.Owner) []types.UID {
	a.mu.Lock()
	defer a.mu.Unlock()
	var uids []types.UID
	for h := a.newest[owner]; h != nil; h = h.older {
		uids = append(uids, h.uid)
	}
	return uids
}

// HeldByAnother reports whether another pod holds an address of a row.
func (a *Addresses) HeldByAnother(row Held) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	pool := a.pools[row.Network]
	return pool != nil && slices.ContainsFunc(row.Addrs, func(addr netip.Addr) bool {
		h := pool.byAddr[addr]
		return h != nil && h.owner != row.Owner
	})
}

// Release frees the addresses of the holders uids of an attachment. Call Release after the rows of
// these holders are removed: call Holders, build and commit the rows of the owner, then release the holders for which
// no row was built. Release returns owners that waited: all that asked for what is free now, and of those that take any
// address one for each. The other owners try again after their back-off.
func (a *Addresses) Release(owner contract.Owner, uids ...types.UID) (retry []contract.Owner) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if owner.Kind != contract.KindPod {
		return nil
	}
	return release(a, owner, uids...)
}

// release is Release for a caller that holds the lock, and for the claim of a network as well.
func release(a *Addresses, owner contract.Owner, uids ...types.UID) (retry []contract.Owner) {
	var kept []*holding
	for h := a.newest[owner]; h != nil; h = h.older {
		if !slices.Contains(uids, h.uid) {
			kept = append(kept, h)
			continue
		}
		retry = append(retry, a.waiting.askedFor(h)...)
		for _, b := range h.release() {
			retry = append(retry, a.waiting.next(h.pool, b)...)
			if b.subnet != "" && b.held == 0 {
				retry = append(retry, contract.NamespaceSubnetOwner(b.subnet))
			}
		}
		if h.pool.counts != nil {
			retry = append(retry, a.counts.Fitting(owner.Namespace)...)
		}
	}
	delete(a.waiting, owner) // after askedFor: a pod may wait for what an earlier one of its name had
	delete(a.newest, owner)
	for _, h := range slices.Backward(kept) {
		h.older = a.newest[owner]
		a.newest[owner] = h
	}
	return retry
}

// askedFor are the attachments that wait for what a holding has.
func (w waitings) askedFor(h *holding) (out []contract.Owner) {
	for waiter, wants := range w {
		isHeld := func(addr netip.Addr) bool { return slices.Contains(h.addrs, addr) }
		if wants.network == h.pool.network.Name && (slices.ContainsFunc(wants.addrs, isHeld) || slices.Equal(wants.mac, h.mac[:])) {
			delete(w, waiter)
			out = append(out, waiter)
		}
	}
	return out
}

// next is an attachment that waited for any address of the block.
func (w waitings) next(pool *pods, b *block) []contract.Owner {
	for waiter, wants := range w {
		if len(wants.addrs) == 0 && wants.network == pool.network.Name && wants.subnet == b.subnet && (pool.isShared() || b.subnet != "" || wants.node == b.node) {
			delete(w, waiter)
			return []contract.Owner{waiter}
		}
	}
	return nil
}
