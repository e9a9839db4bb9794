package setup

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/docs"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/node/preflight"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/ledger"
	"github.com/ovn-offload/ovn-offload/pkg/vf/plugin"
	"github.com/ovn-offload/ovn-offload/pkg/vf/vftest"
	"github.com/ovn-offload/ovn-offload/test/pages"
)

// TestFirstHour_OutputsAreThoseOfPrograms: each output that docs/first-hour.md quotes is what the program prints for the
// node that the caption names, or is in the page that the caption names.
func TestFirstHour_OutputsAreThoseOfPrograms(t *testing.T) {
	t.Setenv("PCIDB_PATH", "../testdata/pci.ids")
	text, _ := docs.Find("first-hour")
	page := string(text)
	quoted := pages.Printed(page)
	for caption, got := range quoted {
		kind, of, _ := strings.Cut(caption, " ")
		print, known := printers()[kind]
		if !known {
			t.Errorf("no program prints %q", caption)
			continue
		}
		if kind == "page" {
			if whole, _ := docs.Find(strings.TrimSuffix(of, ".md")); !strings.Contains(string(whole), indented(got)) {
				t.Errorf("docs/%s has not:\n%s", of, got)
			}
			continue
		}
		tree, detail, _ := strings.Cut(of, " ")
		if diff := cmp.Diff(print(t, archived(t, tree), detail), got); diff != "" {
			t.Errorf("%s (-printed +page):\n%s", caption, diff)
		}
		if !strings.Contains(page, "`"+tree+"`") {
			t.Errorf("the text does not name tree %s", tree)
		}
	}
	for _, start := range []string{"\n    DEVICE  ", "\n    FUNCTION  ", "\n    warn  ", "\n    0000:"} { // the control: no output is without a caption
		captioned := 0
		for _, output := range quoted {
			captioned += strings.Count("\n"+indented(output), start)
		}
		if n := strings.Count(page, start); n == 0 || n != captioned {
			t.Errorf("%d of %d outputs that begin with %q have a caption", captioned, n, start)
		}
	}
	refused := printPlan(t, archived(t, "connectx6dx-legacy"), "16")
	if !strings.Contains(refused, "Refused 16 VFs are wanted, the NIC can have 8\n") || !strings.Contains(page, "`16 VFs are wanted, the NIC can have 8`") {
		t.Errorf("the page has not what is refused: %s", refused)
	}
	if !strings.Contains(page, noteDPU) {
		t.Errorf("the page has not %q", noteDPU)
	}
}

// printer gives what a program prints for a node.
type printer func(t *testing.T, inv vf.Inventory, detail string) string

func printers() map[string]printer {
	return map[string]printer{"inventory": printInventory, "preflight": printPreflight, "plan": printPlan, "resource": printResource, "page": nil}
}

// archived is the inventory of one of pkg/vf's nodes.
func archived(t *testing.T, name string) vf.Inventory {
	t.Helper()
	text, err := os.ReadFile("../testdata/" + name + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	w, err := vftest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	inv, err := (&vf.Node{Sysfs: w.Sysfs(), Kernel: w.Kernel, Links: w, Names: vf.NewNames(netdev.PCINames)}).Read()
	if err != nil {
		t.Fatal(err)
	}
	return inv
}

func indented(text string) string {
	var lines strings.Builder
	for line := range strings.Lines(text) {
		if line != "\n" {
			lines.WriteString("    ")
		}
		lines.WriteString(line)
	}
	return lines.String()
}

func printInventory(t *testing.T, inv vf.Inventory, _ string) string {
	t.Helper()
	var table strings.Builder
	if err := vf.WriteTable(&table, inv); err != nil {
		t.Fatal(err)
	}
	return table.String()
}

// printPreflight is the finding about the NIC with the address. The node has nothing else, and its kernel tells no firmware.
func printPreflight(t *testing.T, inv vf.Inventory, address string) string {
	t.Helper()
	var facts preflight.Facts
	for _, pf := range inv.PFs {
		if pf.Name == address {
			facts.NIC = preflight.NIC{
				Driver: pf.Driver, TotalVFs: pf.TotalVFs, Mode: string(pf.Eswitch.Mode), Product: pf.ProductName, Limit: pf.Class.Limit,
			}
		}
	}
	var report, finding strings.Builder
	if err := preflight.Check(facts).WriteText(&report); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(report.String()) {
		if strings.Contains(line, "  nic  ") || strings.Contains(line, preflight.Page+"#nic)") {
			finding.WriteString(line)
		}
	}
	return finding.String()
}

// printPlan has a line for each NIC, of a dry run with the number of VFs.
func printPlan(t *testing.T, inv vf.Inventory, numVFs string) string {
	t.Helper()
	n, err := strconv.Atoi(numVFs)
	if err != nil {
		t.Fatal(err)
	}
	s := State{PFs: inv.PFs, Bonds: inv.Bonds, Boot: "boot-1", Node: "n1", Units: map[string]string{}}
	spec := v1alpha1.OffloadPolicySpec{PFSelector: v1alpha1.PFSelector{Vendors: []string{"15b3", "8086"}}, NumVFs: n, DryRun: true}
	wants, notes := Select([]*v1alpha1.OffloadPolicy{policy("nics", 1, spec)}, nil, s)
	var lines strings.Builder
	for _, r := range results(Plan(s, wants), nil, "", notes) {
		fmt.Fprintln(&lines, r.Device, r.State, r.Message)
	}
	return lines.String()
}

// unclaimed is the Claims of a node whose VFs no pod has.
type unclaimed struct{}

func (unclaimed) Holder(string) (ledger.Claim, bool) { return ledger.Claim{}, false }
func (unclaimed) Held(string) error                  { return nil }

// printResource is the number of healthy VFs of the default pool, as a Node has it in allocatable.
func printResource(t *testing.T, inv vf.Inventory, _ string) string {
	t.Helper()
	cfg := plugin.Defaults()
	cfg.Dir, cfg.InfoDir, cfg.Logger = t.TempDir(), t.TempDir(), slog.New(slog.DiscardHandler)
	p, err := plugin.New(cfg, unclaimed{})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Update(plugin.FromInventory(inv, plugin.OwnUplink)); err != nil {
		t.Fatal(err)
	}
	healthy := 0
	for _, d := range p.Offered()[plugin.DefaultResource] {
		if d.Problem == "" {
			healthy++
		}
	}
	return fmt.Sprintln(healthy)
}
