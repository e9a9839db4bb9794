package ovn

import (
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"

	corev1 "k8s.io/api/core/v1"
)

// buildNodeServices gives a node's values for the templates in load balancers:
// its addresses, and for services whose backends differ from node to node its
// own. Where a node lacks a variable, the frontend does not exist on it: so a
// node without local endpoints needs no row, and the row has as many values as
// the node has such endpoints.
func buildNodeServices(view View, name string) ([]ovsdb.Row, error) {
	node := view.Node(name)
	if node == nil || node.Annotations[kube.NodeChassisIDKey] == "" {
		return nil, nil
	}
	variables := map[string]string{}
	for _, address := range kube.GatewayAddresses(node) {
		variables[nodeVariable(address.Addr.Is6(), address.Nth)] = address.Addr.String()
	}
	for _, service := range view.ServicesOn(name) {
		s, err := readService(view, service)
		if s == nil || err != nil {
			continue // what is wrong with a service is told by its own owner
		}
		ports, err := s.ports()
		if err != nil {
			continue
		}
		for _, port := range ports {
			port.addVariables(variables, node)
		}
	}
	return []ovsdb.Row{{
		ID:    "variables",
		Model: &nb.ChassisTemplateVar{Chassis: node.Annotations[kube.NodeChassisIDKey], Variables: variables},
	}}, nil
}

// addVariables adds a node's own backends of a port.
func (p servicePort) addVariables(variables map[string]string, node *corev1.Node) {
	s, before := p.service, len(variables)
	local := onNode(p.endpoints, node.Name)
	if len(local) > 0 && (s.internalLocal() || s.externalLocal()) {
		variables[p.variable(localBackends)] = backends(local)
	}
	if hinted(p.endpoints) {
		variables[p.variable(nearBackends)] = backends(near(p.endpoints, node.Name, node.Labels[corev1.LabelTopologyZone]))
	}
	if len(variables) == before || p.address.Is4() {
		return
	}
	for _, address := range append(s.external, p.address) {
		if address.Is6() {
			variables[addressVariable(address)] = address.String()
		}
	}
}
