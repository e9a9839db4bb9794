package node

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// flowTables remembers what was written to each bridge.
type flowTables map[string][]string

func (f flowTables) Replace(_ context.Context, bridge string, flows []string) error {
	f[bridge] = flows
	return nil
}

func (f flowTables) Watch(ctx context.Context, _ string, _ chan<- struct{}) { <-ctx.Done() }

func TestGatewayFlowsShutTheGatewayRouterOut(t *testing.T) {
	want := []string{
		"priority=100,in_port=LOCAL actions=NORMAL",
		"priority=90,dl_src=02:42:ac:12:00:02 actions=drop",
		"priority=0 actions=NORMAL",
	}
	if diff := cmp.Diff(want, gatewayFlows("02:42:ac:12:00:02")); diff != "" {
		t.Errorf("flows (-want +got):\n%s", diff)
	}
}
