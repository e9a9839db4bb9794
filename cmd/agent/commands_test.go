package main

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/node/preflight"
)

// The command reads the given tree and needs no cluster.
func TestInventoryCommand_ReadsGivenTreeWithoutCluster(t *testing.T) {
	nic := t.TempDir()
	for _, dir := range []string{"/devices/pci0000:00/0000:00:1f.6", "/bus/pci/devices"} {
		if err := os.MkdirAll(nic+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(nic+"/devices/pci0000:00/0000:00:1f.6/class", []byte("0x020000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../../devices/pci0000:00/0000:00:1f.6", nic+"/bus/pci/devices/0000:00:1f.6"); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"inventory --sysfs " + nic:                     "0000:00:1f.6",
		"inventory -o json --sysfs " + nic:             `"pci": "0000:00:1f.6"`,
		"inventory --sysfs " + t.TempDir():             "no network devices",
		"inventory --output json --sysfs /nonexistent": `"pfs": []`,
	} {
		cmd := command()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetArgs(strings.Fields(args))
		if err := cmd.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v, without %q:\n%s", args, err, want, &out)
		}
	}
	for _, verb := range []string{"inventory", "offload", "preflight"} {
		cmd := command()
		cmd.SetArgs([]string{verb, "-o", "xml"})
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "--output=xml") {
			t.Errorf("%s: an output that there is not: %v", verb, err)
		}
	}
}

// TestPreflight_ExitCodes: warnings are allowed by a flag, and failures at the gate of a node that is taken over already.
func TestPreflight_ExitCodes(t *testing.T) {
	report := func(check string, v preflight.Verdict, takenOver bool) preflight.Report {
		return preflight.Report{Node: "n1", Verdict: v, TakenOver: takenOver, Findings: []preflight.Finding{{Check: check, Verdict: v, Message: "Broken."}}}
	}
	message := t.TempDir() + "/log"
	for _, tt := range []struct {
		o    preflightOptions
		r    preflight.Report
		want error
	}{
		{preflightOptions{}, report("mtu", preflight.Pass, false), nil},
		{preflightOptions{}, report("mtu", preflight.Warn, false), exitWarnings},
		{preflightOptions{warnings: true}, report("mtu", preflight.Warn, false), nil},
		{preflightOptions{gate: true}, report("mtu", preflight.Warn, false), nil},
		{preflightOptions{warnings: true}, report("mtu", preflight.Fail, true), exitFailures},
		{preflightOptions{gate: true, message: message}, report("mtu", preflight.Fail, false), exitFailures},
		{preflightOptions{gate: true}, report("mtu", preflight.Fail, true), nil},
		{preflightOptions{gate: true}, report("uplink", preflight.Fail, false), nil},
		{preflightOptions{}, report("uplink", preflight.Fail, false), exitFailures},
	} {
		if got := tt.o.conclude(tt.r); !errors.Is(got, tt.want) {
			t.Errorf("%+v of %+v: %v, want %v", tt.o, tt.r, got, tt.want)
		}
	}
	if text, err := os.ReadFile(message); err != nil || !strings.HasPrefix(string(text), "preflight of node n1, check mtu: Broken.") {
		t.Errorf("termination message: %q, %v", text, err)
	}
}

func TestPreflight_UnknownCheckIsRefused(t *testing.T) {
	cmd := command()
	cmd.SetArgs([]string{"preflight", "--skip=kernels"})
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "--skip=kernels: no such check") {
		t.Error(err)
	}
}
