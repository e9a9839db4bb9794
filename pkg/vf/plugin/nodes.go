package plugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// nodeSet is device nodes by path, with permissions; several devices share some.
type nodeSet map[string]string

func (n nodeSet) add(permissions string, paths ...string) {
	for _, p := range paths {
		n[p] = permissions
	}
}

func (n nodeSet) specs() []*api.DeviceSpec {
	var out []*api.DeviceSpec
	for _, p := range slices.Sorted(maps.Keys(n)) {
		out = append(out, &api.DeviceSpec{HostPath: p, ContainerPath: p, Permissions: n[p]})
	}
	return out
}

// vfioNodes are the group's and VFIO's own. The number of a group is another
// after a boot, so it is never kept.
func (s *server) vfioNodes(d Device, into nodeSet) (*vfioDetail, error) {
	if d.IOMMUGroup == "" {
		return nil, fmt.Errorf("%s is bound to %s and has no IOMMU group", d.ID, d.Driver)
	}
	kind, err := s.plugin.cfg.Sysfs.Attr(path.Join("kernel/iommu_groups", d.IOMMUGroup, "name"))
	if err != nil {
		return nil, err
	}
	group := "/dev/vfio/" + d.IOMMUGroup
	if kind == "vfio-noiommu" {
		group = "/dev/vfio/noiommu-" + d.IOMMUGroup
	}
	const own = "/dev/vfio/vfio"
	into.add("mrw", own, group)
	return &vfioDetail{Mount: own, DevMount: group}, nil
}

// errNoRDMA is transient: between two namespaces an RDMA device has no nodes.
var errNoRDMA = errors.New("nothing for RDMA")

// giveRDMA looks again for a while, for a pod that is refused is not tried again. The
// last pod's DEL may be on its way just now, and no event tells of nodes.
func (s *server) giveRDMA(ctx context.Context, d *Device, into nodeSet) (*rdmaDetail, error) {
	ctx, cancel := context.WithTimeout(ctx, s.plugin.cfg.RDMATimeout)
	defer cancel()
	for {
		nodes := nodeSet{}
		rdma, err := s.rdmaOf(*d)
		if err == nil {
			d.RDMA = rdma
			out, nodesErr := s.rdmaNodes(*d, nodes)
			if err = nodesErr; err == nil {
				maps.Copy(into, nodes)
				return out, nil
			}
		}
		if !errors.Is(err, errNoRDMA) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(s.plugin.cfg.RDMATimeout / 40):
		}
	}
}

// rdmaOf gives the RDMA devices also while they are in the namespace of the last
// pod, which may have its DEL still before it, or be back in the host netns since the
// device was offered.
func (s *server) rdmaOf(d Device) ([]string, error) {
	if len(d.RDMA) > 0 {
		return d.RDMA, nil
	}
	if claim, held := s.plugin.claims.Holder(d.ID); held && claim.Original != nil && len(claim.Original.RDMA) > 0 {
		return claim.Original.RDMA, nil
	}
	found, err := s.plugin.cfg.Sysfs.RDMADevices(d.ID)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%w: %s has no RDMA device, neither on the node nor in a pod that has it", errNoRDMA, d.ID)
	}
	return found, err
}

// rdmaNodes are looked up at each allocation: a device moves its nodes along
// when it goes to a namespace and back.
func (s *server) rdmaNodes(d Device, into nodeSet) (*rdmaDetail, error) {
	var found []string
	for _, device := range d.RDMA {
		nodes, err := s.plugin.cfg.Sysfs.RDMANodes(device)
		if err != nil {
			return nil, err
		}
		found = append(found, nodes...)
	}
	slices.Sort(found)
	of := func(kind string) string {
		nodes := slices.DeleteFunc(slices.Clone(found), func(node string) bool { return !strings.HasPrefix(path.Base(node), kind) })
		into.add("rw", nodes...)
		return strings.Join(nodes, ",")
	}
	out := &rdmaDetail{Device: strings.Join(d.RDMA, ","), Uverbs: of("uverbs"), Umad: of("umad"), Issm: of("issm")}
	if out.Uverbs == "" {
		return nil, fmt.Errorf("%w: device %s of %s has no verbs device: is the module ib_uverbs loaded?", errNoRDMA, out.Device, d.ID)
	}
	// One for all, and none without the module rdma_ucm. rdmamap looks in /dev, and the
	// /dev of a container does not follow modules that are loaded later.
	misc, err := s.plugin.cfg.Sysfs.Names("class/misc")
	if err != nil {
		return nil, err
	}
	if slices.Contains(misc, "rdma_cm") {
		out.CM = "/dev/infiniband/rdma_cm"
		into.add("rw", out.CM)
	}
	return out, nil
}
