package plugin

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/vf/ledger"
)

func TestSelector_MatchesByEachField(t *testing.T) {
	d := virtual(3, 2) // ens3f0, VF 2
	ib := d
	ib.PF.LinkType = "infiniband"
	noRDMA := d
	noRDMA.RDMA = nil
	for name, c := range map[string]struct {
		s    Selector
		d    Device
		want bool
	}{
		"empty":           {Selector{}, d, true},
		"vendor":          {Selector{Vendors: []string{"8086", "15b3"}}, d, true},
		"vendor, sysfs":   {Selector{Vendors: []string{"0x15B3"}}, d, true},
		"other vendor":    {Selector{Vendors: []string{"8086"}}, d, false},
		"device":          {Selector{Devices: []string{"101e"}}, d, true},
		"PF's device":     {Selector{Devices: []string{"101d"}}, d, false},
		"driver":          {Selector{Drivers: []string{"mlx5_core"}}, d, true},
		"other driver":    {Selector{Drivers: []string{"vfio-pci"}}, d, false},
		"address":         {Selector{PCIAddresses: []string{"0000:03:00.4"}}, d, true},
		"other address":   {Selector{PCIAddresses: []string{"0000:03:00.5"}}, d, false},
		"PF":              {Selector{PFNames: []string{"eno1", "ens3f0"}}, d, true},
		"longer PF name":  {Selector{PFNames: []string{"ens3f00"}}, d, false},
		"VF":              {Selector{PFNames: []string{"ens3f0#2"}}, d, true},
		"VF of a range":   {Selector{PFNames: []string{"ens3f0#0,2-7"}}, d, true},
		"last of a range": {Selector{PFNames: []string{"ens3f0#0-2"}}, d, true},
		"beside ranges":   {Selector{PFNames: []string{"ens3f0#0-1,3-9"}}, d, false},
		"other PF's":      {Selector{PFNames: []string{"ens5f0#2"}}, d, false},
		"root device":     {Selector{RootDevices: []string{"0000:03:00.0#2"}}, d, true},
		"other root":      {Selector{RootDevices: []string{"0000:05:00.0"}}, d, false},
		"link type":       {Selector{LinkTypes: []string{"ether"}}, d, true},
		"other link type": {Selector{LinkTypes: []string{"ether"}}, ib, false},
		"rdma":            {Selector{RDMA: true}, d, true},
		"no rdma":         {Selector{RDMA: true}, noRDMA, false},
		"rdma not needed": {Selector{}, noRDMA, true},
		"mode":            {Selector{EswitchModes: []string{"switchdev"}}, d, true},
		"other mode":      {Selector{EswitchModes: []string{"legacy", "none"}}, d, false},
		"all of it":       {Selector{Vendors: []string{"15b3"}, Devices: []string{"101e"}, PFNames: []string{"ens3f0#2"}, RDMA: true}, d, true},
		"all but one":     {Selector{Vendors: []string{"15b3"}, Devices: []string{"101e"}, PFNames: []string{"ens3f0#3"}, RDMA: true}, d, false},
	} {
		if err := c.s.validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := c.s.matches(c.d); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestAssign_FirstMatchingPoolTakesDevice(t *testing.T) {
	rdma := Pool{Resource: "example.com/rdma", Selectors: []Selector{{RDMA: true, PFNames: []string{"ens3f0"}}}}
	rest := Pool{Resource: "example.com/rest", Selectors: []Selector{{Drivers: []string{"none"}}, {}}}
	pools := []Pool{rdma, rest}
	c := &claims{of: map[string]ledger.Claim{}}
	ids := func(devices []Device) map[string][]string {
		out := map[string][]string{}
		for resource, of := range assign(pools, devices, c, nil) {
			for _, d := range of {
				out[resource] = append(out[resource], d.ID)
			}
		}
		return out
	}
	a, b := virtual(3, 0), virtual(5, 0)
	want := map[string][]string{rdma.Resource: {a.ID}, rest.Resource: {b.ID}}
	if diff := cmp.Diff(want, ids([]Device{a, b})); diff != "" {
		t.Errorf("the first that matches (-want +got):\n%s", diff)
	}
	// In a pod's namespace the RDMA device is out of sight.
	away := a
	away.RDMA = nil
	c.set(a.ID, rdma.Resource)
	if diff := cmp.Diff(want, ids([]Device{away, b})); diff != "" {
		t.Errorf("in use (-want +got):\n%s", diff)
	}
	c.clear(a.ID)
	if diff := cmp.Diff(map[string][]string{rest.Resource: {a.ID, b.ID}}, ids([]Device{away, b})); diff != "" {
		t.Errorf("free, and no RDMA device (-want +got):\n%s", diff)
	}
	c.set(b.ID, "example.com/no-pool-any-more")
	if diff := cmp.Diff(want, ids([]Device{a, b})); diff != "" {
		t.Errorf("from a pool that is gone (-want +got):\n%s", diff)
	}
}

// TestAssign_ClaimWithoutResourceKeepsPool: where Multus has named the device, its claim does not
// tell the pool. The device stays in the one that it is in: in another it would
// be free for the next pod.
func TestAssign_ClaimWithoutResourceKeepsPool(t *testing.T) {
	cfg := Defaults()
	cfg.Logger, cfg.InfoDir = slog.New(slog.DiscardHandler), t.TempDir()
	cfg.Pools = []Pool{
		{Resource: "example.com/rdma", Selectors: []Selector{{RDMA: true}}},
		{Resource: "example.com/rest", Selectors: []Selector{{}}},
	}
	c := &claims{of: map[string]ledger.Claim{}}
	p, err := New(cfg, c)
	if err != nil {
		t.Fatal(err)
	}
	wantIn := func(d Device, resource string) {
		t.Helper()
		if err := p.Update([]Device{d}); err != nil {
			t.Fatal(err)
		}
		for of, devices := range p.Offered() {
			if (len(devices) == 1) != (of == resource) {
				t.Errorf("%d devices in %s", len(devices), of)
			}
		}
	}
	free, away := virtual(3, 0), virtual(3, 0)
	away.RDMA = nil
	wantIn(free, "example.com/rdma")
	c.set(free.ID, "")
	wantIn(away, "example.com/rdma")
	wantIn(away, "example.com/rdma")
	c.clear(free.ID)
	wantIn(away, "example.com/rest")
}

func TestParsePools_ReadsResourceList(t *testing.T) {
	got, err := ParsePools([]byte(`{"resourceList": [
		{"resourceName": "vf", "selectors": {"vendors": ["15b3"], "pfNames": ["ens1f0#0-3"]}},
		{"resourceName": "rdma", "resourcePrefix": "example.com", "deviceType": "netDevice",
		 "selectors": [{"isRdma": true, "linkTypes": ["infiniband"]}, {"isRdma": true, "drivers": ["mlx5_core"]}]},
		{"resourceName": "rest"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []Pool{
		{Resource: "ovn-offload.io/vf", Selectors: []Selector{{Vendors: []string{"15b3"}, PFNames: []string{"ens1f0#0-3"}}}},
		{Resource: "example.com/rdma", Selectors: []Selector{
			{RDMA: true, LinkTypes: []string{"infiniband"}}, {RDMA: true, Drivers: []string{"mlx5_core"}}}},
		{Resource: "ovn-offload.io/rest", Selectors: []Selector{{}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParsePools_RefusesInvalidPools(t *testing.T) {
	for name, c := range map[string]struct{ list, want string }{
		"unknown selector":   {`{"resourceName": "x", "selectors": {"vendor": ["15b3"]}}`, "vendor"},
		"in a list":          {`{"resourceName": "x", "selectors": [{}, {"ddpProfiles": ["GTP"]}]}`, "ddpProfiles"},
		"unknown field":      {`{"resourceName": "x", "cdi": true}`, "cdi"},
		"accelerator":        {`{"resourceName": "x", "deviceType": "accelerator"}`, "accelerator"},
		"twice":              {`{"resourceName": "x"}, {"resourceName": "x"}`, "twice"},
		"no selector":        {`{"resourceName": "x", "selectors": []}`, "no selector"},
		"name":               {`{"resourceName": "x y"}`, "not a name"},
		"no name":            {`{"resourcePrefix": "example.com"}`, "not a name"},
		"path in a name":     {`{"resourceName": "../x"}`, "not a name"},
		"kubernetes.io":      {`{"resourceName": "x", "resourcePrefix": "a.kubernetes.io"}`, "not a name"},
		"vendor":             {`{"resourceName": "x", "selectors": {"vendors": ["mellanox"]}}`, "mellanox"},
		"address":            {`{"resourceName": "x", "selectors": {"pciAddresses": ["03:00.1"]}}`, "03:00.1"},
		"range":              {`{"resourceName": "x", "selectors": {"pfNames": ["ens1f0#3-1"]}}`, "3-1"},
		"no range":           {`{"resourceName": "x", "selectors": {"pfNames": ["ens1f0#"]}}`, "ens1f0#"},
		"no PF":              {`{"resourceName": "x", "selectors": {"rootDevices": ["#1"]}}`, "#1"},
		"mode":               {`{"resourceName": "x", "selectors": {"eswitchModes": ["offload"]}}`, "offload"},
		"rdma in part of it": {`{"resourceName": "x", "selectors": [{"isRdma": true}, {}]}`, "isRdma"},
		"not JSON":           {`]`, "reading pools"},
	} {
		_, err := ParsePools([]byte(`{"resourceList": [` + c.list + `]}`))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v does not name %q", name, err, c.want)
		}
	}
}

func TestDefaultPools_AreValidPools(t *testing.T) {
	if err := validate(DefaultPools()); err != nil {
		t.Error(err)
	}
	if !DefaultPools()[0].matches(virtual(3, 0)) {
		t.Error("the default pool does not take a VF of a NIC in switchdev mode")
	}
}

var _ Claims = (*ledger.Ledger)(nil)
