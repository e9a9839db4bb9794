package main

import (
	"fmt"

	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func targetPort() intstr.IntOrString { return intstr.FromInt32(8080) }

const (
	manyEndpoints = 10
	manyPeers     = 20
)

// sliceOf has ten endpoints at addresses that no pod has.
func sliceOf(namespace, service string, i int) *discoveryv1.EndpointSlice {
	port, name := targetPort().IntVal, ""
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
	}
	for j := range manyEndpoints {
		n := i*manyEndpoints + j
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.244.%d.%d", 50+n/250%200, 2+n%250)}})
	}
	return slice
}

// rulesOf lets twenty peers in at one port: half of them the pods of a team, of
// which there are 200, half networks that are this policy's alone.
func rulesOf(i int) []networkingv1.NetworkPolicyIngressRule {
	port := targetPort()
	rule := networkingv1.NetworkPolicyIngressRule{Ports: []networkingv1.NetworkPolicyPort{{Port: &port}}}
	for j := range manyPeers / 2 {
		team := &metav1.LabelSelector{MatchLabels: map[string]string{"team": fmt.Sprint((i + j) % 200)}}
		block := &networkingv1.IPBlock{CIDR: fmt.Sprintf("172.%d.%d.%d/32", 100+j, i/250, 1+i%250)}
		rule.From = append(rule.From, networkingv1.NetworkPolicyPeer{PodSelector: team}, networkingv1.NetworkPolicyPeer{IPBlock: block})
	}
	return []networkingv1.NetworkPolicyIngressRule{rule}
}
