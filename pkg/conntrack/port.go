package conntrack

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

// port is a pod's port on br-int.
type port struct {
	ofPort, zone int
	mac          string
}

// local is what the node's database says of br-int.
type local struct {
	pods map[netip.Addr]port
	// zones are those of connection tracking that are OVN's alone.
	zones map[int]bool
	// tunnel is the OpenFlow port of one, 0 on a node without others.
	tunnel int
}

// zonePrefix begins the keys in which ovn-controller records what has which zone.
const zonePrefix = "ct-zone-"

// readLocal reports false when the database does not have the bridge: it is away.
func readLocal(db DB, name string) (l local, known bool) {
	l = local{pods: map[netip.Addr]port{}, zones: map[int]bool{}}
	recorded := map[string]string{}
	for _, row := range db.Table(vswitch.BridgeTable) {
		if bridge, ok := row.(*vswitch.Bridge); ok && bridge.Name == name {
			recorded, known = bridge.ExternalIDs, true
		}
	}
	for key, value := range recorded {
		zone, err := strconv.Atoi(value)
		if strings.HasPrefix(key, zonePrefix) && err == nil && zone != 0 { // 0 is the host's as well
			l.zones[zone] = true
		}
	}
	for _, row := range db.Table(vswitch.InterfaceTable) {
		if iface, ok := row.(*vswitch.Interface); ok && iface.Ofport != nil && *iface.Ofport > 0 {
			l.add(iface, recorded)
		}
	}
	return l, known
}

func (l *local) add(iface *vswitch.Interface, recorded map[string]string) {
	if iface.Type == "geneve" {
		l.tunnel = *iface.Ofport
		return
	}
	zone, err := strconv.Atoi(recorded[zonePrefix+iface.ExternalIDs["iface-id"]])
	if err != nil {
		return
	}
	p := port{ofPort: *iface.Ofport, zone: zone, mac: iface.ExternalIDs["attached_mac"]}
	for text := range strings.SplitSeq(iface.ExternalIDs["ip_addresses"], ",") {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			l.pods[prefix.Addr()] = p
		}
	}
}
