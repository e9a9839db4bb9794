package node

import (
	"net/netip"
	"strings"
)

// ControllerSettings are the external_ids of the Open_vSwitch table that ovn-controller reads, without bridge mappings. Tunnels
// end at encap.
func ControllerSettings(name, remote, datapath string, encap netip.Addr) map[string]string {
	return map[string]string{
		"hostname":                    name,
		"ovn-encap-type":              "geneve",
		"ovn-encap-ip":                encap.String(),
		"ovn-remote":                  remote,
		"ovn-remote-probe-interval":   remoteProbe(remote),
		"ovn-openflow-probe-interval": "180",
		"ovn-monitor-all":             "true",
		"ovn-enable-lflow-cache":      "true",
		// Logical flows of another version of ovn-northd wait until this node has the same version.
		"ovn-match-northd-version": "true",
		// After a restart the old flows stay until the new ones are complete.
		"ovn-ofctrl-wait-before-clear": "0",
		"ovn-bridge-datapath-type":     datapath,
	}
}

// remoteProbe is in milliseconds. Where there are several endpoints, the loss of one has to be noticed soon; else a busy
// database is better left alone.
func remoteProbe(remote string) string {
	if strings.Contains(remote, ",") {
		return "5000"
	}
	return "100000"
}
