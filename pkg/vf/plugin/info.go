package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/durable"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// deviceInfo is a file of the Network Plumbing Working Group's device
// information specification, of which Multus gives a copy to plug-ins and to
// the pod's network-status.
type deviceInfo struct {
	Type    string  `json:"type"`
	Version string  `json:"version"`
	PCI     pciInfo `json:"pci"`
}

type pciInfo struct {
	Address     string `json:"pci-address"`
	RDMA        string `json:"rdma-device,omitempty"`
	PF          string `json:"pf-pci-address,omitempty"`
	Representor string `json:"representor-device,omitempty"`
}

const (
	infoVersion = "1.1.0"
	infoEnd     = "-device.json"
)

func (s *server) infoPrefix() string { return strings.ReplaceAll(s.pool.Resource, "/", "-") + "-" }

func (s *server) infoPath(device string) string {
	return filepath.Join(s.plugin.cfg.InfoDir, s.infoPrefix()+device+infoEnd)
}

// writeInfo makes a new file in place of one that an earlier pod's device had.
// Such files are never written to.
func (s *server) writeInfo(d Device) error {
	raw, err := json.Marshal(deviceInfo{Type: "pci", Version: infoVersion, PCI: pciInfo{
		Address: d.ID, RDMA: strings.Join(d.RDMA, ","), PF: d.PF.Address, Representor: d.Representor,
	}})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.plugin.cfg.InfoDir, 0o755); err != nil {
		return fmt.Errorf("writing device information: %w", err)
	}
	if err := durable.WriteFile(s.infoPath(d.ID), raw, 0o444); err != nil {
		return fmt.Errorf("writing device information: %w", err)
	}
	return nil
}

// removeStaleInfo removes the files of devices that are not of this pool any
// more and that no pod has, those of an earlier run included. Those of devices
// of the pool stay: a pod may have been admitted whose network is not made yet.
func (s *server) removeStaleInfo() error {
	entries, err := os.ReadDir(s.plugin.cfg.InfoDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("listing device information: %w", err)
	}
	devices := s.list()
	for _, e := range entries {
		id, mine := strings.CutPrefix(e.Name(), s.infoPrefix())
		id, complete := strings.CutSuffix(id, infoEnd)
		// Another resource's name may go on where ours ends.
		if _, err := vf.ParsePCIAddress(id); !mine || !complete || err != nil {
			continue
		}
		_, held := s.plugin.claims.Holder(id)
		if held || slices.ContainsFunc(devices, func(d Device) bool { return d.ID == id }) {
			continue
		}
		if err := os.Remove(s.infoPath(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing device information: %w", err)
		}
	}
	return nil
}
