package plugin

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

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

// rdmaNodes are looked up at each allocation: a device moves its nodes along
// when it goes to a namespace and back.
func (s *server) rdmaNodes(d Device, into nodeSet) (*rdmaDetail, error) {
	out := &rdmaDetail{Device: strings.Join(d.RDMA, ",")}
	for _, kind := range []struct {
		class, prefix string
		to            *string
	}{
		{"class/infiniband_verbs", "uverbs", &out.Uverbs},
		{"class/infiniband_mad", "umad", &out.Umad},
		{"class/infiniband_mad", "issm", &out.Issm},
	} {
		found, err := s.charDevices(kind.class, kind.prefix, d.RDMA)
		if err != nil {
			return nil, err
		}
		into.add("rw", found...)
		*kind.to = strings.Join(found, ",")
	}
	if out.Uverbs == "" {
		return nil, fmt.Errorf("%s has no RDMA verbs device now", d.ID)
	}
	// One for all, and none without the module rdma_ucm.
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

// charDevices gives the nodes whose class entries name one of the RDMA devices.
func (s *server) charDevices(class, prefix string, rdma []string) ([]string, error) {
	names, err := s.plugin.cfg.Sysfs.Names(class)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, name := range names {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		of, err := s.plugin.cfg.Sysfs.Attr(path.Join(class, name, "ibdev"))
		if err != nil {
			return nil, err
		}
		if slices.Contains(rdma, of) {
			out = append(out, "/dev/infiniband/"+name)
		}
	}
	return out, nil
}
