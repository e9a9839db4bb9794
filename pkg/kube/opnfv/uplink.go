package opnfv

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PhysicalNetwork is the name of the network in the bridge mappings of nodes.
func (p *ProviderNetwork) PhysicalNetwork() string { return "nw_" + p.Name }

// Uplink is the interface of nodes that leads to the network, and which nodes are meant; "" if the administrator makes the
// bridges.
func (p *ProviderNetwork) Uplink() (link string, nodes *metav1.LabelSelector, err error) {
	var choice string
	var list []string
	switch vlan, direct := p.Spec.VLAN, p.Spec.Direct; {
	case vlan != nil:
		link, choice, list = vlan.ProviderInterfaceName, vlan.NodeSelector, vlan.NodeLabelList
	case direct != nil:
		link, choice, list = direct.ProviderInterfaceName, direct.NodeSelector, direct.NodeLabelList
	}
	if link == "" {
		return "", nil, nil
	}
	switch strings.ToLower(choice) {
	case "", "all", "any":
		return link, &metav1.LabelSelector{}, nil
	case "specific":
		if len(list) == 0 {
			return "", nil, fmt.Errorf("node selector specific needs nodeLabelList")
		}
		if nodes, err = metav1.ParseToLabelSelector(strings.Join(list, ",")); err != nil {
			return "", nil, fmt.Errorf("nodeLabelList: %w", err)
		}
		return link, nodes, nil
	}
	return "", nil, fmt.Errorf("node selector %q is none of all, any and specific", choice)
}
