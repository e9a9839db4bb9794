package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/durable"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// A unit of the host's systemd sets mode and number of VFs before the network comes up. It runs once in a boot and needs
// sh and devlink (package iproute2) of the host.
const (
	unitPrefix, unitSuffix = "ovn-offload-sriov-", ".service"
	// wantsDir starts what it links to at each boot.
	wantsDir = "multi-user.target.wants"
)

func unitName(pf string) string { return unitPrefix + pf + unitSuffix }

// unitText waits for the driver for half a minute. In systemd's files $$ is one dollar sign.
func unitText(pf *vf.PF, want Want) string {
	device := "/sys/bus/pci/devices/" + pf.Name
	number := func(n int) string {
		return fmt.Sprintf("ExecStart=/bin/sh -c 'echo %d >%s/sriov_numvfs'\n", n, device)
	}
	mode := fmt.Sprintf("ExecStart=devlink dev eswitch set pci/%s mode %s\n", pf.Name, want.Mode)
	commands := []string{
		fmt.Sprintf("ExecStart=/bin/sh -c 'n=0; until ls %s/net/* >/dev/null 2>&1; do n=$$((n+1)); [ $$n -le 30 ] || exit 1; sleep 1; done'\n", device),
		number(0), mode, number(want.NumVFs),
	}
	if pf.Driver == bnxt && want.Mode == vf.Switchdev {
		commands[2], commands[3] = commands[3], commands[2]
	}
	return "# Written by ovn-offload-agent for OffloadPolicy " + want.Policy + `; the agent removes it with the policy.
[Unit]
Description=Set up SR-IOV of ` + pf.Name + ` before the network
DefaultDependencies=no
After=systemd-udevd.service systemd-modules-load.service
Wants=network-pre.target
Before=network-pre.target shutdown.target
Conflicts=shutdown.target

[Service]
Type=oneshot
RemainAfterExit=yes
TimeoutStartSec=120
` + strings.Join(commands, "")
}

// readUnits gives the texts of the units by PCI address, nil without a directory for them.
func readUnits(dir string) (map[string]string, error) {
	if info, err := os.Stat(dir); dir == "" || err != nil || !info.IsDir() {
		return nil, nil //nolint:nilerr // a host without systemd
	}
	files, err := filepath.Glob(filepath.Join(dir, unitPrefix+"*"+unitSuffix))
	if err != nil {
		return nil, err
	}
	units := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading the host's units: %w", err)
		}
		pf := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), unitPrefix), unitSuffix)
		if _, err := os.Lstat(link(dir, pf)); err != nil {
			text = nil // half written
		}
		units[pf] = string(text)
	}
	return units, nil
}

func link(dir, pf string) string { return filepath.Join(dir, wantsDir, unitName(pf)) }

// RemoveUnits removes all units from a host.
func RemoveUnits(dir string) error {
	units, err := readUnits(dir)
	errs := []error{err}
	for pf := range units {
		errs = append(errs, dropUnit(dir, pf))
	}
	return errors.Join(errs...)
}

func dropUnit(dir, pf string) error {
	for _, file := range []string{link(dir, pf), filepath.Join(dir, unitName(pf))} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing a unit of the host: %w", err)
		}
	}
	return nil
}

// planUnit adds to a Change the steps for the PF's unit. A unit is kept while its policy is, whatever becomes of the rest.
func planUnit(s State, pf *vf.PF, want Want, c Change) Change {
	text := ""
	if want.UplinkChange == v1alpha1.UplinkAtBoot && unsupported(pf, target{numVFs: want.NumVFs, mode: want.Mode}) == "" {
		text = unitText(pf, want)
	}
	have, exists := s.Units[pf.Name]
	switch {
	case c.NoLAG && !exists:
	case text != "" && s.Units == nil:
		c.State, c.Refused, c.Steps = v1alpha1.PolicyRefused, "uplinkChange is AtBoot, and the agent finds no directory for units of systemd on this host", nil
	case text != "" && have != text:
		c.Steps = append([]Step{writeUnit{pf.Name, text}}, c.Steps...)
	case text == "" && exists:
		c.Steps = append([]Step{removeUnit{pf.Name}}, c.Steps...)
	case c.State == v1alpha1.PolicyRebootNeeded && text != "" && s.Saved.Units[pf.Name] != s.Boot:
		c.State, c.Refused = v1alpha1.PolicyFailed, fmt.Sprintf("the host has booted, and its unit %s has not set up the NIC: see its log there", unitName(pf.Name))
	}
	return c
}

// writeUnit writes and enables a unit; the next boot runs it.
type writeUnit struct{ PF, Text string }

type removeUnit struct{ PF string }

func (a writeUnit) String() string  { return "write unit " + unitName(a.PF) + " of the host" }
func (a removeUnit) String() string { return "remove unit " + unitName(a.PF) + " of the host" }

func (a writeUnit) Apply(_ context.Context, h *host) error {
	dir := h.deps.Busy.UnitDir
	if err := h.change(func(c *Checkpoint) {
		if c.Units == nil {
			c.Units = map[string]string{}
		}
		c.Units[a.PF] = h.boot
	}); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, wantsDir), 0o755); err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(dir, unitName(a.PF)), []byte(a.Text), 0o644); err != nil {
		return err
	}
	if err := os.Symlink("../"+unitName(a.PF), link(dir, a.PF)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func (a removeUnit) Apply(_ context.Context, h *host) error {
	if err := dropUnit(h.deps.Busy.UnitDir, a.PF); err != nil {
		return err
	}
	return h.change(func(c *Checkpoint) { delete(c.Units, a.PF) })
}
