package plugin

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Allocate is for the kubelet, which has decided. Devices that have become
// unhealthy since, or are not yet cleared away, are not refused: the ADD says
// so, and is repeated, while a pod whose allocation fails has failed for good. A
// device that is being removed is refused: the pod would wait for it in vain, and to
// wait here would keep the kubelet from all other pods.
func (s *server) Allocate(ctx context.Context, r *api.AllocateRequest) (*api.AllocateResponse, error) {
	byID := map[string]Device{}
	for _, d := range s.list() {
		byID[d.ID] = d
	}
	out := &api.AllocateResponse{}
	given := map[string]bool{}
	for _, container := range r.GetContainerRequests() {
		var devices []Device
		for _, id := range container.GetDevicesIds() {
			d, ok := byID[id]
			switch {
			case !ok:
				return nil, status.Errorf(codes.NotFound, "%s has no device %q", s.pool.Resource, id)
			case given[id]:
				return nil, status.Errorf(codes.InvalidArgument, "device %s is asked for twice", id)
			}
			if err := s.plugin.claims.Held(id); err != nil {
				return nil, status.Errorf(codes.FailedPrecondition, "allocating %s: %v", s.pool.Resource, err)
			}
			given[id] = true
			devices = append(devices, d)
		}
		answer, err := s.answer(ctx, devices)
		if err != nil {
			return nil, status.Errorf(codes.FailedPrecondition, "allocating %s: %v", s.pool.Resource, err)
		}
		out.ContainerResponses = append(out.ContainerResponses, answer)
	}
	return out, nil
}

// detail is what a container finds in PCIDEVICE_..._INFO of one device.
type detail struct {
	Generic struct {
		DeviceID string `json:"deviceID"`
	} `json:"generic"`
	VFIO *vfioDetail `json:"vfio,omitempty"`
	RDMA *rdmaDetail `json:"rdma,omitempty"`
}

type vfioDetail struct {
	Mount    string `json:"mount"`
	DevMount string `json:"dev-mount"`
}

type rdmaDetail struct {
	Device string `json:"rdma_dev"`
	Uverbs string `json:"uverbs,omitempty"`
	Umad   string `json:"umad,omitempty"`
	Issm   string `json:"issm,omitempty"`
	CM     string `json:"rdma_cm,omitempty"`
}

// answer is for one container.
func (s *server) answer(ctx context.Context, devices []Device) (*api.ContainerAllocateResponse, error) {
	ids, details, nodes := []string{}, map[string]detail{}, nodeSet{}
	for _, d := range devices {
		ids = append(ids, d.ID)
		var one detail
		one.Generic.DeviceID = d.ID
		var err error
		if strings.Contains(d.Driver, "vfio") { // vendors have variants of it
			if one.VFIO, err = s.vfioNodes(d, nodes); err != nil {
				return nil, err
			}
		}
		if s.pool.rdma() {
			if one.RDMA, err = s.giveRDMA(ctx, &d, nodes); err != nil {
				return nil, err
			}
		}
		details[d.ID] = one
		if err := s.writeInfo(d); err != nil {
			return nil, err
		}
	}
	raw, err := json.Marshal(details)
	if err != nil {
		return nil, err
	}
	name := envName(s.pool.Resource)
	return &api.ContainerAllocateResponse{
		Envs:    map[string]string{name: strings.Join(ids, ","), name + "_INFO": string(raw)},
		Devices: nodes.specs(),
	}, nil
}

// envName is as the sriov-network-device-plugin has it, hyphens kept.
func envName(resource string) string {
	return "PCIDEVICE_" + strings.NewReplacer(".", "_", "/", "_").Replace(strings.ToUpper(resource))
}

// GetPreferredAllocation is for the kubelet.
func (s *server) GetPreferredAllocation(_ context.Context, r *api.PreferredAllocationRequest) (*api.PreferredAllocationResponse, error) {
	devices := s.list()
	out := &api.PreferredAllocationResponse{}
	for _, container := range r.GetContainerRequests() {
		available := slices.DeleteFunc(slices.Clone(devices), func(d Device) bool {
			return !slices.Contains(container.GetAvailableDeviceIDs(), d.ID)
		})
		out.ContainerResponses = append(out.ContainerResponses, &api.ContainerPreferredAllocationResponse{
			DeviceIDs: prefer(available, container.GetMustIncludeDeviceIDs(), int(container.GetAllocationSize()), s.plugin.claims),
		})
	}
	return out, nil
}

// prefer chooses as many devices as are wanted, if there are: those that must
// be, then free ones, then those near to each other. Nearness is the NUMA node
// first, the PF second. The node is that of the first that must be, or else the
// fullest one that has enough, so that room stays where there is much.
func prefer(available []Device, must []string, size int, claims Claims) []string {
	isMust := func(d Device) bool { return slices.Contains(must, d.ID) }
	near := slices.IndexFunc(available, isMust)
	rest := slices.DeleteFunc(slices.Clone(available), isMust)
	free, busy := map[int]int{}, map[string]int{}
	for _, d := range rest {
		if _, held := claims.Holder(d.ID); held {
			busy[d.ID] = 1
		} else {
			free[d.NUMA]++
		}
	}
	rank := func(numa int) int {
		switch {
		case near >= 0 && available[near].NUMA == numa:
			return -1
		case free[numa] >= size-len(must):
			return free[numa]
		default: // after all that have enough; the fewer nodes the better
			return math.MaxInt - free[numa]
		}
	}
	slices.SortStableFunc(rest, func(a, b Device) int {
		return cmp.Or(
			cmp.Compare(busy[a.ID], busy[b.ID]), cmp.Compare(rank(a.NUMA), rank(b.NUMA)), cmp.Compare(a.NUMA, b.NUMA),
			cmp.Compare(a.PF.Address, b.PF.Address), cmp.Compare(a.Index, b.Index))
	})
	chosen := slices.Clone(must)
	for _, d := range rest[:min(len(rest), max(0, size-len(must)))] {
		chosen = append(chosen, d.ID)
	}
	return chosen
}
