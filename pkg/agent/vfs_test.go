package agent

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/pkg/vf/ledger"
	"github.com/ovn-offload/ovn-offload/pkg/vf/plugin"
	"github.com/ovn-offload/ovn-offload/pkg/vf/vftest"
)

// TestOffer_GivesTheKubeletVFsForPodsOnly: the VF of the management port is not offered. An error of the device plugin
// is in the log.
func TestOffer_GivesTheKubeletVFsForPodsOnly(t *testing.T) {
	text, err := os.ReadFile("../vf/testdata/connectx6dx-switchdev.txtar")
	if err != nil {
		t.Fatal(err)
	}
	w, err := vftest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	devices := filepath.Join(dir, "devices")
	if err := os.MkdirAll(devices, 0o700); err != nil {
		t.Fatal(err)
	}
	claims, err := ledger.Open(devices, "boot")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cfg := plugin.Defaults()
	cfg.Dir, cfg.InfoDir, cfg.Sysfs, cfg.Logger = dir, filepath.Join(dir, "info"), w.Sysfs(), slog.New(slog.DiscardHandler)
	offers, err := plugin.New(cfg, claims)
	if err != nil {
		t.Fatal(err)
	}
	live := vf.NewLive(&vf.Node{Sysfs: w.Sysfs(), Kernel: w.Kernel, Links: w, Events: w.Kernel, Names: vf.NewNames(netdev.PCINames)},
		slog.New(slog.DiscardHandler))
	management, err := vf.ParseSelector("ens1f0np0#0")
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{devices: live}
	v := &podVFs{
		parts: &parts{
			Process: &Process{Config: Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}}, machine: m,
			own: newOwnVFs(m, vf.Settings{Management: management}),
		},
		uplink: plugin.OwnUplink, plugin: offers,
	}
	v.offer() // before the first inventory
	offered := func() (ids []string) {
		for _, d := range offers.Offered()[plugin.DefaultResource] {
			ids = append(ids, d.ID)
		}
		slices.Sort(ids)
		return ids
	}
	if got := offered(); len(got) > 0 {
		t.Errorf("before the first inventory: %q", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read := make(chan struct{}, 1)
	live.OnChange(func(vf.Inventory) { v.offer(); read <- struct{}{} })
	go live.Run(ctx)
	<-read
	if diff := cmp.Diff([]string{"0000:03:00.3", "0000:03:00.4", "0000:03:00.5"}, offered()); diff != "" {
		t.Errorf("offered (-want +got):\n%s", diff)
	}
	if log.Len() > 0 {
		t.Errorf("log: %s", &log)
	}
	if err := os.WriteFile(cfg.InfoDir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	v.offer()
	if !strings.Contains(log.String(), "offering devices") {
		t.Errorf("after an error the log has: %q", &log)
	}
}
