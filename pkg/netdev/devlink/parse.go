package devlink

import (
	"encoding/binary"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
)

// parseEswitch reads an answer with DEVLINK_ATTR_ESWITCH_*, of linux/devlink.h.
func parseEswitch(answer []byte) (e netdev.Eswitch, err error) {
	attributes, err := parseGeneric(answer)
	if err != nil {
		return e, err
	}
	word := func(attribute uint16, words ...string) string {
		v, has := attributes[attribute]
		switch {
		case !has:
			return ""
		case int(v.number()) < len(words):
			return words[v.number()]
		}
		return "unknown"
	}
	return netdev.Eswitch{
		Mode:       word(nl.DEVLINK_ATTR_ESWITCH_MODE, "legacy", "switchdev"),
		InlineMode: word(nl.DEVLINK_ATTR_ESWITCH_INLINE_MODE, "none", "link", "network", "transport"),
		EncapMode:  word(nl.DEVLINK_ATTR_ESWITCH_ENCAP_MODE, "disable", "enable"),
	}, nil
}

// parseDevlinkPort reads an answer with DEVLINK_ATTR_PORT_*, of linux/devlink.h.
func parseDevlinkPort(answer []byte) (p netdev.DevlinkPort, err error) {
	attributes, err := parseGeneric(answer)
	if err != nil {
		return p, err
	}
	number := func(attribute uint16) *uint32 {
		v, has := attributes[attribute]
		if !has {
			return nil
		}
		n := v.number()
		return &n
	}
	p = netdev.DevlinkPort{
		Bus: attributes[nl.DEVLINK_ATTR_BUS_NAME].text(), Device: attributes[nl.DEVLINK_ATTR_DEV_NAME].text(),
		Index: attributes[nl.DEVLINK_ATTR_PORT_INDEX].number(), Netdev: attributes[nl.DEVLINK_ATTR_PORT_NETDEV_NAME].text(),
		Controller: number(nl.DEVLINK_ATTR_PORT_CONTROLLER_NUMBER), PF: number(nl.DEVLINK_ATTR_PORT_PCI_PF_NUMBER),
	}
	if external := number(nl.DEVLINK_ATTR_PORT_EXTERNAL); external != nil {
		is := *external != 0
		p.External = &is
	}
	switch flavour := attributes[nl.DEVLINK_ATTR_PORT_FLAVOUR].number(); flavour {
	case nl.DEVLINK_PORT_FLAVOUR_PHYSICAL:
		p.Flavour, p.Number = netdev.FlavourPhysical, number(nl.DEVLINK_ATTR_PORT_NUMBER)
	case nl.DEVLINK_PORT_FLAVOUR_PCI_PF:
		p.Flavour = netdev.FlavourPF
	case nl.DEVLINK_PORT_FLAVOUR_PCI_VF:
		p.Flavour, p.Number = netdev.FlavourVF, number(nl.DEVLINK_ATTR_PORT_PCI_VF_NUMBER)
	case nl.DEVLINK_PORT_FLAVOUR_PCI_SF:
		p.Flavour, p.Number = netdev.FlavourSF, number(nl.DEVLINK_ATTR_PORT_PCI_SF_NUMBER)
	case nl.DEVLINK_PORT_FLAVOUR_VIRTUAL:
		p.Flavour = netdev.FlavourVirtual
	default:
		p.Flavour = netdev.Flavour(fmt.Sprint(flavour))
	}
	p.Function, err = parsePortFunction(attributes[nl.DEVLINK_ATTR_PORT_FUNCTION])
	return p, err
}

func parsePortFunction(nest attribute) (f netdev.PortFunction, err error) {
	attributes, err := parseAttributes(nest)
	if err != nil {
		return f, err
	}
	f.Active = attributes[nl.DEVLINK_PORT_FN_ATTR_STATE].number() == nl.DEVLINK_PORT_FN_STATE_ACTIVE
	f.Attached = attributes[nl.DEVLINK_PORT_FN_ATTR_OPSTATE].number() == nl.DEVLINK_PORT_FN_OPSTATE_ATTACHED
	for _, b := range attributes[nl.DEVLINK_PORT_FUNCTION_ATTR_HW_ADDR] {
		if b != 0 {
			f.MAC = []byte(attributes[nl.DEVLINK_PORT_FUNCTION_ATTR_HW_ADDR])
		}
	}
	return f, nil
}

// attribute is the value of one, empty where the kernel has not sent it.
type attribute []byte

func (a attribute) text() string { return unix.ByteSliceToString(a) }

// number reads one of 1, 2 or 4 bytes.
func (a attribute) number() uint32 {
	switch len(a) {
	case 1:
		return uint32(a[0])
	case 2:
		return uint32(binary.NativeEndian.Uint16(a))
	case 4:
		return binary.NativeEndian.Uint32(a)
	}
	return 0
}

func parseGeneric(answer []byte) (map[uint16]attribute, error) {
	return parseAttributes(answer[min(len(answer), nl.SizeofGenlmsg):])
}

func parseAttributes(raw []byte) (map[uint16]attribute, error) {
	list, err := nl.ParseRouteAttr(raw)
	if err != nil {
		return nil, fmt.Errorf("reading attributes of devlink: %w", err)
	}
	attributes := map[uint16]attribute{}
	for _, a := range list {
		attributes[a.Attr.Type&nl.NLA_TYPE_MASK] = a.Value
	}
	return attributes, nil
}
