package plugin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// DefaultResource is the resource of all VFs without a configuration of pools.
const DefaultResource = "ovn-offload.io/vf"

// Pool is the devices of one resource: those that match any of the selectors.
type Pool struct {
	Resource  string
	Selectors []Selector
}

// Selector matches devices that satisfy all of its fields; an empty field is
// satisfied by any device. The names are those of the
// sriov-network-device-plugin's configuration, EswitchModes excepted.
type Selector struct {
	Vendors      []string `json:"vendors,omitempty"`
	Devices      []string `json:"devices,omitempty"`
	Drivers      []string `json:"drivers,omitempty"`
	PCIAddresses []string `json:"pciAddresses,omitempty"`
	// PFNames may name VFs: ens1f0#0-3,7. A PF whose netdev is not here, as that of
	// a DPU, goes by its PCI address: 0000:03:00.0#0-3,7.
	PFNames      []string `json:"pfNames,omitempty"`
	RootDevices  []string `json:"rootDevices,omitempty"` // PFs by PCI address, VFs as in PFNames
	LinkTypes    []string `json:"linkTypes,omitempty"`
	EswitchModes []string `json:"eswitchModes,omitempty"`
	// RDMA also gives pods the RDMA character devices.
	RDMA bool `json:"isRdma,omitempty"`
	// NotOther leaves out the NICs that a host has beside its DPU. Only the default pool has it.
	NotOther bool `json:"-"`
}

// DefaultPools is one pool, of all VFs whose traffic OVS can offload.
func DefaultPools() []Pool {
	return []Pool{{Resource: DefaultResource, Selectors: []Selector{{EswitchModes: []string{string(vf.Switchdev)}}}}}
}

// DefaultDPUPools is one pool, of the VFs of the host's DPU: what its eswitch does is not seen from the host.
func DefaultDPUPools() []Pool {
	return []Pool{{Resource: DefaultResource, Selectors: []Selector{{NotOther: true}}}}
}

// ParsePools reads the form that the sriov-network-device-plugin has, in JSON:
// resourceList of resourceName, resourcePrefix and selectors, which are an
// object or a list of them. What is not known here is an error: a selector that
// is ignored would give pods devices that were not meant for them.
func ParsePools(raw []byte) ([]Pool, error) {
	var file struct {
		List []struct {
			Prefix    string          `json:"resourcePrefix"`
			Name      string          `json:"resourceName"`
			Type      string          `json:"deviceType"`
			Selectors json.RawMessage `json:"selectors"`
		} `json:"resourceList"`
	}
	if err := strict(raw, &file); err != nil {
		return nil, fmt.Errorf("reading pools: %w", err)
	}
	var pools []Pool
	for _, r := range file.List {
		if r.Prefix == "" {
			r.Prefix, _, _ = strings.Cut(DefaultResource, "/")
		}
		p := Pool{Resource: r.Prefix + "/" + r.Name}
		if r.Type != "" && r.Type != "netDevice" {
			return nil, fmt.Errorf("reading pool %s: deviceType %q is not netDevice", p.Resource, r.Type)
		}
		if len(r.Selectors) == 0 {
			r.Selectors = json.RawMessage("{}")
		}
		if r.Selectors[0] != '[' {
			r.Selectors = slices.Concat([]byte("["), r.Selectors, []byte("]"))
		}
		if err := strict(r.Selectors, &p.Selectors); err != nil {
			return nil, fmt.Errorf("reading pool %s: %w", p.Resource, err)
		}
		pools = append(pools, p)
	}
	return pools, validate(pools)
}

func strict(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.More() {
		return errors.New("more than one value")
	}
	return nil
}

// resourceName is what the kubelet takes as the name of an extended resource.
var resourceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)

func validate(pools []Pool) error {
	seen := map[string]bool{}
	for _, p := range pools {
		prefix, _, _ := strings.Cut(p.Resource, "/")
		switch {
		case !resourceName.MatchString(p.Resource) || strings.HasSuffix("."+prefix, ".kubernetes.io") || strings.HasPrefix(p.Resource, "requests."):
			return fmt.Errorf("pool %q: not a name for an extended resource", p.Resource)
		case seen[p.Resource]:
			return fmt.Errorf("pool %s: is there twice", p.Resource)
		case len(p.Selectors) == 0:
			return fmt.Errorf("pool %s: has no selector", p.Resource)
		}
		seen[p.Resource] = true
		for _, s := range p.Selectors {
			if s.RDMA != p.Selectors[0].RDMA {
				return fmt.Errorf("pool %s: isRdma must be the same in all its selectors", p.Resource)
			}
			if err := s.validate(); err != nil {
				return fmt.Errorf("pool %s: %w", p.Resource, err)
			}
		}
	}
	return nil
}

func (s Selector) validate() error {
	for _, id := range slices.Concat(s.Vendors, s.Devices) {
		if _, err := parseID(id); err != nil {
			return err
		}
	}
	for _, address := range s.PCIAddresses {
		if _, err := vf.ParsePCIAddress(address); err != nil {
			return err
		}
	}
	for _, mode := range s.EswitchModes {
		if !slices.Contains([]vf.Mode{vf.Switchdev, vf.Legacy, vf.NoSwitch}, vf.Mode(mode)) {
			return fmt.Errorf("eswitch mode %q: neither switchdev, legacy nor none", mode)
		}
	}
	return vf.Selector(slices.Concat(s.PFNames, s.RootDevices)).Validate()
}

func parseID(text string) (id vf.ID, err error) {
	err = id.UnmarshalText([]byte(text))
	return id, err
}

func (p Pool) rdma() bool { return len(p.Selectors) > 0 && p.Selectors[0].RDMA }

func (p Pool) matches(d Device) bool {
	return slices.ContainsFunc(p.Selectors, func(s Selector) bool { return s.matches(d) })
}

func (s Selector) matches(d Device) bool {
	return anyID(s.Vendors, d.Vendor) && anyID(s.Devices, d.Product) &&
		anyOf(s.Drivers, d.Driver) && anyOf(s.PCIAddresses, d.ID) &&
		(anyPF(s.PFNames, d.PF.Name, d.Index) || anyPF(s.PFNames, d.PF.Address, d.Index)) &&
		anyPF(s.RootDevices, d.PF.Address, d.Index) &&
		anyOf(s.LinkTypes, d.PF.LinkType) && anyOf(s.EswitchModes, string(d.PF.Eswitch)) &&
		(!s.RDMA || len(d.RDMA) > 0) && (!s.NotOther || d.PF.Card != vf.CardOther)
}

func anyOf(wanted []string, got string) bool { return len(wanted) == 0 || slices.Contains(wanted, got) }

func anyID(wanted []string, got vf.ID) bool {
	return len(wanted) == 0 || slices.ContainsFunc(wanted, func(text string) bool {
		id, err := parseID(text)
		return err == nil && id == got
	})
}

func anyPF(wanted []string, pf string, index int) bool {
	return len(wanted) == 0 || vf.Selector(wanted).Matches(pf, index)
}

// assign gives each device to one pool at most. Former is the resource that it was
// of, for claims that do not tell.
func assign(pools []Pool, devices []Device, claims Claims, former map[string]string) map[string][]Device {
	out := map[string][]Device{}
	for _, d := range devices {
		at := -1
		if claim, held := claims.Holder(d.ID); held {
			resource := cmp.Or(claim.Resource, former[d.ID])
			at = slices.IndexFunc(pools, func(p Pool) bool { return p.Resource == resource })
		}
		if at < 0 {
			at = slices.IndexFunc(pools, func(p Pool) bool { return p.matches(d) })
		}
		if at >= 0 {
			out[pools[at].Resource] = append(out[pools[at].Resource], d)
		}
	}
	return out
}
