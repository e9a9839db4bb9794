package netdev_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
)

// TestEthtool_OfVeth: a veth has features and channels, and no rings.
func TestEthtool_OfVeth(t *testing.T) {
	ns, err := netdev.Open(netdevtest.NewNS(t))
	must(t, err)
	defer func() { _ = ns.Close() }()
	devices, err := netdev.OpenDevices(ns)
	must(t, err)
	defer devices.Close()
	must(t, ns.AddVeth(netdev.Veth{Name: "a", MTU: 1500, Peer: netdev.Peer{Name: "b"}}))
	own, err := devices.Ethtool("a")
	if !errors.Is(err, errors.ErrUnsupported) || own.Rings != nil || own.Channels == nil {
		t.Fatalf("%+v, %v", own, err)
	}
	const feature = "tx-tcp-segmentation"
	if !own.Features[feature] {
		t.Fatalf("%s is off in %v", feature, own.Features)
	}
	changed := own.Clone()
	changed.Features[feature] = false
	changed.Features["no-such-feature"] = true
	changed.Rings = &netdev.Rings{RX: 1}
	most, err := devices.MaxChannels("a")
	must(t, err)
	changed.Channels.RX = most
	must(t, devices.SetEthtool("a", changed))
	got, _ := devices.Ethtool("a")
	delete(changed.Features, "no-such-feature")
	changed.Rings = nil
	if diff := cmp.Diff(changed, got); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	must(t, devices.SetEthtool("a", own))
	if got, _ = devices.Ethtool("a"); !cmp.Equal(own, got) {
		t.Errorf("restored (-want +got):\n%s", cmp.Diff(own, got))
	}
	if err := devices.SetEthtool("absent", own); err == nil {
		t.Error("settings of a link that is absent")
	}
}
