package devlink

import (
	"errors"
	"net"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
)

// asks is what Devices and FakeDevices have in common.
type asks interface {
	Eswitch(address string) (netdev.Eswitch, error)
	DevlinkPorts(addresses ...string) ([]netdev.DevlinkPort, error)
	DevlinkParam(bus, device, name string) (string, error)
	Features(link string) (netdev.Features, error)
	RDMA() (string, []netdev.RDMADevice, error)
}

var (
	_ asks = (*Devices)(nil)
	_ asks = (*netdevtest.FakeDevices)(nil)
)

var podMAC = net.HardwareAddr{0x0a, 0x58, 0x0a, 0xf4, 1, 5}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openDevices(t *testing.T) *Devices {
	t.Helper()
	ns, err := netdev.Open(netdevtest.NewNS(t))
	must(t, err)
	t.Cleanup(func() { must(t, ns.Close()) })
	d, err := Open(ns)
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	return d
}

// A new namespace has a loopback and no NIC, with devlink and RDMA in the
// kernel or without.
func TestDevices_NewNamespaceHasNoNIC(t *testing.T) {
	test := func(t *testing.T, d asks) {
		const nowhere = "0000:ff:1f.7"
		eswitch, err := d.Eswitch(nowhere)
		must(t, err)
		ports, err := d.DevlinkPorts()
		must(t, err)
		some, err := d.DevlinkPorts(nowhere)
		must(t, err)
		_, rdma, err := d.RDMA()
		must(t, err)
		if eswitch != (netdev.Eswitch{}) || len(ports)+len(some)+len(rdma) != 0 {
			t.Errorf("%v, %v, %v, %v in an empty namespace", eswitch, ports, some, rdma)
		}
		if value, err := d.DevlinkParam("pci", nowhere, "esw_multiport"); err != nil || value != "" {
			t.Errorf("parameter of a device that is not there: %q, %v", value, err)
		}
		if f, err := d.Features("lo"); err != nil || f.HWTC {
			t.Errorf("features of lo: %+v, %v", f, err)
		}
		if _, err := d.Features("absent0"); !errors.Is(err, netdev.ErrNotFound) {
			t.Errorf("features of a link that is not there: %v, want ErrNotFound", err)
		}
	}
	t.Run("kernel", func(t *testing.T) { test(t, openDevices(t)) })
	t.Run("fake", func(t *testing.T) { test(t, &netdevtest.FakeDevices{HWTC: map[string]bool{"lo": false}}) })
}

// answer is one of generic netlink, with the attributes.
func answer(attributes ...*nl.RtAttr) []byte {
	raw := make([]byte, nl.SizeofGenlmsg)
	for _, a := range attributes {
		raw = append(raw, a.Serialize()...)
	}
	return raw
}

func TestParseDevlinkPort_ReadsEachFlavour(t *testing.T) {
	text := func(kind int, value string) *nl.RtAttr { return nl.NewRtAttr(kind, nl.ZeroTerminated(value)) }
	byte1 := func(kind int, value uint8) *nl.RtAttr { return nl.NewRtAttr(kind, nl.Uint8Attr(value)) }
	short := func(kind int, value uint16) *nl.RtAttr { return nl.NewRtAttr(kind, nl.Uint16Attr(value)) }
	long := func(kind int, value uint32) *nl.RtAttr { return nl.NewRtAttr(kind, nl.Uint32Attr(value)) }
	function := func(mac []byte, more ...*nl.RtAttr) *nl.RtAttr {
		nest := nl.NewRtAttr(nl.DEVLINK_ATTR_PORT_FUNCTION|int(nl.NLA_F_NESTED), nil)
		nest.AddRtAttr(nl.DEVLINK_PORT_FUNCTION_ATTR_HW_ADDR, mac)
		for _, a := range more {
			nest.AddChild(a)
		}
		return nest
	}
	got, err := parseDevlinkPort(answer(
		text(nl.DEVLINK_ATTR_BUS_NAME, "pci"), text(nl.DEVLINK_ATTR_DEV_NAME, "0000:03:00.0"), long(nl.DEVLINK_ATTR_PORT_INDEX, 4),
		text(nl.DEVLINK_ATTR_PORT_NETDEV_NAME, "eth4"), short(nl.DEVLINK_ATTR_PORT_FLAVOUR, nl.DEVLINK_PORT_FLAVOUR_PCI_VF),
		short(nl.DEVLINK_ATTR_PORT_PCI_PF_NUMBER, 1), short(nl.DEVLINK_ATTR_PORT_PCI_VF_NUMBER, 3),
		long(nl.DEVLINK_ATTR_PORT_CONTROLLER_NUMBER, 2), byte1(nl.DEVLINK_ATTR_PORT_EXTERNAL, 1), function(make([]byte, 6)),
	))
	if err != nil || got.Bus != "pci" || got.Device != "0000:03:00.0" || got.Index != 4 || got.Netdev != "eth4" ||
		got.Flavour != netdev.FlavourVF || *got.PF != 1 || *got.Number != 3 || *got.Controller != 2 || !*got.External {
		t.Errorf("VF port: %+v, %v", got, err)
	}
	if got.Function.MAC != nil {
		t.Errorf("zeros were taken for the MAC %s", got.Function.MAC)
	}
	got, err = parseDevlinkPort(answer(
		short(nl.DEVLINK_ATTR_PORT_FLAVOUR, nl.DEVLINK_PORT_FLAVOUR_PCI_SF), short(nl.DEVLINK_ATTR_PORT_PCI_PF_NUMBER, 1),
		long(nl.DEVLINK_ATTR_PORT_PCI_SF_NUMBER, 88), function(podMAC, byte1(nl.DEVLINK_PORT_FN_ATTR_STATE, nl.DEVLINK_PORT_FN_STATE_ACTIVE),
			byte1(nl.DEVLINK_PORT_FN_ATTR_OPSTATE, nl.DEVLINK_PORT_FN_OPSTATE_ATTACHED)),
	))
	if err != nil || got.Flavour != netdev.FlavourSF || *got.Number != 88 || got.Controller != nil || got.External != nil ||
		!got.Function.Active || !got.Function.Attached || got.Function.MAC.String() != podMAC.String() {
		t.Errorf("SF port: %+v, %v", got, err)
	}
	got, err = parseDevlinkPort(answer(short(nl.DEVLINK_ATTR_PORT_FLAVOUR, nl.DEVLINK_PORT_FLAVOUR_PCI_VF)))
	if err != nil || got.PF != nil || got.Number != nil {
		t.Errorf("port of a driver that tells nothing: %+v, %v", got, err)
	}
	if _, err := parseDevlinkPort([]byte{0, 0, 0, 0, 0xff, 0, 1, 0}); err == nil {
		t.Error("an answer that is cut off was read")
	}
}

func TestParseEswitch_ReadsWords(t *testing.T) {
	mode := func(n uint16) *nl.RtAttr { return nl.NewRtAttr(nl.DEVLINK_ATTR_ESWITCH_MODE, nl.Uint16Attr(n)) }
	inline := nl.NewRtAttr(nl.DEVLINK_ATTR_ESWITCH_INLINE_MODE, nl.Uint8Attr(nl.DEVLINK_ESWITCH_INLINE_MODE_TRANSPORT))
	encap := nl.NewRtAttr(nl.DEVLINK_ATTR_ESWITCH_ENCAP_MODE, nl.Uint8Attr(nl.DEVLINK_ESWITCH_ENCAP_MODE_BASIC))
	for want, raw := range map[netdev.Eswitch][]byte{
		{Mode: "legacy"}:  answer(mode(nl.DEVLINK_ESWITCH_MODE_LEGACY)),
		{Mode: "unknown"}: answer(mode(2)),
		{}:                answer(),
		{Mode: "switchdev", InlineMode: "transport", EncapMode: "enable"}: answer(mode(nl.DEVLINK_ESWITCH_MODE_SWITCHDEV), inline, encap),
	} {
		if got, err := parseEswitch(raw); err != nil || got != want {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
}

// TestPortsOf_OldKernelsListAllAtOnce: kernels before 6.6 leave out the instance of the question.
func TestPortsOf_OldKernelsListAllAtOnce(t *testing.T) {
	port := func(address string) netdev.DevlinkPort { return netdev.DevlinkPort{Bus: "pci", Device: address} }
	for name, kernel := range map[string]struct {
		dump  func(address string) []netdev.DevlinkPort
		asked int
	}{
		"each by itself": {func(address string) []netdev.DevlinkPort { return []netdev.DevlinkPort{port(address)} }, 2},
		"all at once":    {func(string) []netdev.DevlinkPort { return []netdev.DevlinkPort{port("a"), port("b")} }, 1},
	} {
		asked := 0
		ports, err := portsOf([]string{"a", "b"}, func(address string) ([]netdev.DevlinkPort, error) {
			asked++
			return kernel.dump(address), nil
		})
		if err != nil || len(ports) != 2 || asked != kernel.asked {
			t.Errorf("%s: %v, %v with %d questions", name, ports, err, asked)
		}
	}
	ports, err := portsOf([]string{"a", "b"}, func(address string) ([]netdev.DevlinkPort, error) {
		if address == "b" {
			return nil, unix.EBUSY
		}
		return []netdev.DevlinkPort{port(address)}, nil
	})
	if ports != nil || !errors.Is(err, unix.EBUSY) {
		t.Errorf("one NIC is busy: %v, %v", ports, err)
	}
}
