package main

import (
	"slices"
	"testing"
)

func TestDeviceOptions_PoolsDecideServedResources(t *testing.T) {
	const two = `{"resourceList":[{"resourceName":"fast","selectors":{"vendors":["15b3"]}},{"resourcePrefix":"example.com","resourceName":"nic"}]}`
	tests := []struct {
		options         deviceOptions
		served, becomes []string
	}{
		{deviceOptions{}, []string{"ovn-offload.io/vf"}, []string{"ovn-offload.io/vf"}},
		{deviceOptions{pools: two}, []string{"ovn-offload.io/fast", "example.com/nic"}, []string{"ovn-offload.io/fast", "example.com/nic"}},
		{deviceOptions{foreign: "a.io/x, b.io/y"}, []string{"ovn-offload.io/vf"}, []string{"a.io/x", "b.io/y", "ovn-offload.io/vf"}},
		{deviceOptions{foreign: "ovn-offload.io/vf"}, nil, []string{"ovn-offload.io/vf"}},
		{deviceOptions{pools: two, foreign: "example.com/nic"}, []string{"ovn-offload.io/fast"}, []string{"example.com/nic", "ovn-offload.io/fast"}},
	}
	for _, tt := range tests {
		pools, becomes, err := tt.options.resources()
		if err != nil {
			t.Fatal(err)
		}
		var served []string
		for _, p := range pools {
			served = append(served, p.Resource)
		}
		if !slices.Equal(served, tt.served) || !slices.Equal(becomes, tt.becomes) {
			t.Errorf("%+v: serves %v, not %v; a network becomes %v, not %v", tt.options, served, tt.served, becomes, tt.becomes)
		}
	}
}
