package netdevtest

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// Fake is a kernel in memory: namespaces by path, links with addresses, routes
// and neighbours. The namespace "" exists from the start.
type Fake struct {
	mu     sync.Mutex
	spaces map[string]*fakeSpace
	next   int // index or inode
	vfMACs map[string]net.HardwareAddr
	rdma   map[string]string // device to namespace
	fail   func(op, name string) error
}

type fakeSpace struct {
	inode    uint64
	links    []*fakeLink
	routes   []netdev.Route
	rules    []netdev.PolicyRule
	sysctls  map[string]string
	watchers []chan netdev.Event
}

type fakeLink struct {
	netdev.Link
	addrs     []netip.Prefix
	neighbors []netdev.Neighbor
	ethtool   netdev.Ethtool
	peer      *fakeLink
	space     *fakeSpace
}

// FakeNS is an NS of a Fake.
type FakeNS struct {
	fake *Fake
	path string
}

// NewFake gives a kernel whose one namespace has no links.
func NewFake() *Fake {
	return &Fake{spaces: map[string]*fakeSpace{"": newFakeSpace(1)}, next: 2, vfMACs: map[string]net.HardwareAddr{}, rdma: map[string]string{}}
}

func newFakeSpace(inode int) *fakeSpace {
	return &fakeSpace{inode: uint64(inode), sysctls: map[string]string{}}
}

// AddNS makes an empty namespace.
func (f *Fake) AddNS(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spaces[path] = newFakeSpace(f.next)
	f.next++
}

// RemoveNS destroys a namespace with its links and their peers; devices go to
// the first namespace, as in the kernel.
func (f *Fake) RemoveNS(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	space := f.spaces[path]
	if space == nil {
		return
	}
	for len(space.links) > 0 {
		l := space.links[0]
		if l.Parent == "" {
			f.remove(l)
			continue
		}
		name := l.Name
		if f.spaces[""].nameInUse(name, l) {
			name = fmt.Sprintf("dev%d", l.Index)
		}
		f.move(l, f.spaces[""], name)
	}
	for device, in := range f.rdma {
		if in == path {
			f.rdma[device] = ""
		}
	}
	delete(f.spaces, path)
}

// AddLink puts a device such as a NIC into a namespace.
func (f *Fake) AddLink(path string, l netdev.Link) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.add(f.spaces[path], l)
}

// FailWith lets every call ask fail first, with the method's name and its link.
func (f *Fake) FailWith(fail func(op, name string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = fail
}

// Open is the Fake's netdev.Open.
func (f *Fake) Open(path string) (*FakeNS, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.enter(path, "Open", path); err != nil {
		return nil, err
	}
	return &FakeNS{fake: f, path: path}, nil
}

func (f *Fake) enter(path, op, name string) (*fakeSpace, error) {
	if f.fail != nil && op != "" {
		if err := f.fail(op, name); err != nil {
			return nil, fmt.Errorf("%s %s: %w", op, name, err)
		}
	}
	space := f.spaces[path]
	if space == nil {
		return nil, fmt.Errorf("opening namespace %q: %w", path, os.ErrNotExist)
	}
	return space, nil
}

func (f *Fake) add(space *fakeSpace, l netdev.Link) *fakeLink {
	l.Index = f.next
	f.next++
	if l.MAC == nil {
		l.MAC = net.HardwareAddr{0x02, 0, 0, 0, byte(l.Index >> 8), byte(l.Index)}
	}
	link := &fakeLink{Link: l, space: space}
	space.links = append(space.links, link)
	space.tell(netdev.Event{Kind: netdev.LinkEvent, Link: l.Name, Index: l.Index})
	return link
}

func (f *Fake) remove(l *fakeLink) {
	for _, end := range []*fakeLink{l, l.peer} {
		if end == nil {
			continue
		}
		s := end.space
		s.links = slices.DeleteFunc(s.links, func(x *fakeLink) bool { return x == end })
		s.routes = slices.DeleteFunc(s.routes, func(r netdev.Route) bool { return r.Link == end.Name })
		s.tell(netdev.Event{Kind: netdev.LinkEvent, Link: end.Name, Index: end.Index, Gone: true})
	}
}

func (s *fakeSpace) find(name string) (*fakeLink, error) {
	for _, l := range s.links {
		if l.Name == name {
			return l, nil
		}
	}
	return nil, fmt.Errorf("link %s: %w", name, netdev.ErrNotFound)
}

// tell drops what a slow reader does not take and says so, as the kernel does.
func (s *fakeSpace) tell(e netdev.Event) {
	for _, w := range s.watchers {
		select {
		case w <- e:
		default:
			select {
			case <-w:
			default:
			}
			w <- netdev.Event{Kind: netdev.Lost}
		}
	}
}

// Watch is NS.Watch.
func (n *FakeNS) Watch(ctx context.Context) (<-chan netdev.Event, error) {
	n.fake.mu.Lock()
	defer n.fake.mu.Unlock()
	space, err := n.fake.enter(n.path, "Watch", "")
	if err != nil {
		return nil, err
	}
	c := make(chan netdev.Event, 64)
	space.watchers = append(space.watchers, c)
	go func() {
		<-ctx.Done()
		n.fake.mu.Lock()
		defer n.fake.mu.Unlock()
		space.watchers = slices.DeleteFunc(space.watchers, func(w chan netdev.Event) bool { return w == c })
		close(c)
	}()
	return c, nil
}

// Close is NS.Close; a fake namespace has nothing to give back.
func (n *FakeNS) Close() error { return nil }

// Neighbors gives what ReplaceNeighbor has set on a link.
func (f *Fake) Neighbors(path, link string) (list []netdev.Neighbor) {
	_ = f.onLink(path, "", link, func(l *fakeLink) error { list = slices.Clone(l.neighbors); return nil })
	return list
}

// SysctlValue gives what Sysctl has set, "" when nothing.
func (f *Fake) SysctlValue(path, key string) (value string) {
	_ = f.do(path, "", "", func(s *fakeSpace) error { value = s.sysctls[key]; return nil })
	return value
}

// do runs g in the namespace, with the lock held.
func (f *Fake) do(path, op, name string, g func(*fakeSpace) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	space, err := f.enter(path, op, name)
	if err != nil {
		return err
	}
	return g(space)
}

func (f *Fake) onLink(path, op, name string, g func(*fakeLink) error) error {
	return f.do(path, op, name, func(s *fakeSpace) error {
		l, err := s.find(name)
		if err != nil {
			return err
		}
		return g(l)
	})
}
