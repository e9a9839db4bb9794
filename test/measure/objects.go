package main

import (
	"fmt"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func targetPort() intstr.IntOrString { return intstr.FromInt32(8080) }

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
