// Package render makes NetworkAttachmentDefinitions (NADs) from the objects of users that stand for networks:
// UserDefinedNetworks, ClusterUserDefinedNetworks, and the Networks and ProviderNetworks of OVN4NFV.
//
// Place in the data flow:
//
//	object -> Parse -> Source -> NAD(namespace) -> pkg/network/nads, which writes it -> pkg/network, which reads NADs
//
// All is pure. A NAD is the one form of a network that the rest of the controller knows, and its netconf has the keys of
// OVN-Kubernetes. The package is apart from pkg/network, which would else make what it parses.
package render
