package agent

import (
	"slices"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/vf/plugin"
)

func TestVFs_PoolsDecideServedResources(t *testing.T) {
	two := []plugin.Pool{{Resource: "ovn-offload.io/fast"}, {Resource: "example.com/nic"}}
	tests := []struct {
		vfs             VFs
		served, becomes []string
	}{
		{VFs{}, []string{"ovn-offload.io/vf"}, []string{"ovn-offload.io/vf"}},
		{VFs{Pools: []plugin.Pool{}}, nil, nil},
		{VFs{Pools: two}, []string{"ovn-offload.io/fast", "example.com/nic"}, []string{"ovn-offload.io/fast", "example.com/nic"}},
		{VFs{Resources: []string{"a.io/x", "b.io/y"}}, []string{"ovn-offload.io/vf"}, []string{"a.io/x", "b.io/y", "ovn-offload.io/vf"}},
		{VFs{Resources: []string{"ovn-offload.io/vf"}}, nil, []string{"ovn-offload.io/vf"}},
		{VFs{Pools: two, Resources: []string{"example.com/nic"}}, []string{"ovn-offload.io/fast"}, []string{"example.com/nic", "ovn-offload.io/fast"}},
	}
	for _, tt := range tests {
		pools, becomes := tt.vfs.served(plugin.DefaultPools())
		var served []string
		for _, p := range pools {
			served = append(served, p.Resource)
		}
		if !slices.Equal(served, tt.served) || !slices.Equal(becomes, tt.becomes) {
			t.Errorf("%+v: serves %v, not %v; a network becomes %v, not %v", tt.vfs, served, tt.served, becomes, tt.becomes)
		}
	}
}
