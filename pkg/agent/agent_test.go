package agent

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/ipam"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/ovsdbtest"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

// withoutAPI is the configuration of an agent with an API server that does not answer, and with files of the test.
func withoutAPI(t *testing.T, ovsdb string) Config {
	t.Helper()
	dir := t.TempDir()
	cfg := Defaults()
	cfg.OVSDB, cfg.Kube.Kubeconfig, cfg.Node.Checkpoint = ovsdb, filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "node.json")
	const content = `{"clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}],"contexts":[{"name":"x","context":{"cluster":"c"}}],"current-context":"x"}`
	if err := os.WriteFile(cfg.Kube.Kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if cfg.Node.Network.Subnets, err = ipam.ParseClusterSubnets("10.244.0.0/16/24"); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// TestAgent_IsWiredForEachMode: without an API server, which no constructor waits for.
func TestAgent_IsWiredForEachMode(t *testing.T) {
	ovs := ovsdbtest.Start(t, vswitch.Definition)
	ovs.Transact(`{"op":"insert","table":"Open_vSwitch","row":{"external_ids":["map",[["system-id","chassis"]]]}}`)
	for name, tc := range map[string]struct {
		mode, node, host, want string
	}{
		"full":                 {ModeFull, "n", "", ""},
		"full without a name":  {ModeFull, "", "", "node"},
		"host":                 {ModeHost, "n", "", ""},
		"dpu":                  {ModeDPU, "", "n", ""},
		"dpu without its host": {ModeDPU, "n", "", "the host of this DPU is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := withoutAPI(t, ovs.Endpoint())
			cfg.Mode, cfg.Node.Node, cfg.Serves.Host, cfg.Node.Remote = tc.mode, tc.node, tc.host, "ssl:127.0.0.1:2"
			cfg.VFs.KubeletDir = t.TempDir()
			p, err := NewProcess(cfg)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			a, err := p.choose(ctx)
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("made %T with error %v, want %q", a, err, tc.want)
				}
				return
			}
			if a == nil || err != nil {
				t.Fatalf("made %T with error %v", a, err)
			}
			if problem := p.ready.problem(); problem == nil || !strings.Contains(problem.Error(), "not set up yet") {
				t.Errorf("before it runs it has the problem: %v", problem)
			}
		})
	}
}
