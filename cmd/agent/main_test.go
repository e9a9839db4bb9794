package main

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/ovn-offload/ovn-offload/pkg/agent"
)

// Bad flags are refused, with the flag's name, before anything is touched.
func TestFlags_InvalidValuesAreRefusedByName(t *testing.T) {
	for flag, complaint := range map[string]string{
		"--mode=other":                 "none of full, host, dpu and auto",
		"--reserved-vfs=ens1f0#x":      "--reserved-vfs",
		"--cluster-cidrs=10.244.0.0":   "--cluster-cidrs",
		"--service-cidrs=10.96.0.0/99": "--service-cidrs",
		"--encap-ip=172.18.0":          "--encap-ip",
		"--log-level=loud":             "log-level",
		"--vf-pools={":                 "--vf-pools",
		"--gateway-vf=ens1f0#x":        "--gateway-vf",
		"--dpu-host-controller=one":    "--dpu-host-controller",
		"--mtu=large":                  "mtu",
	} {
		for _, verb := range []string{"", "cleanup", "fail-back"} {
			cmd := command()
			cmd.SetArgs(strings.Fields(verb + " " + flag))
			if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), complaint) {
				t.Errorf("%s %s: %v", verb, flag, err)
			}
		}
	}
}

// TestAgentBinary_ImportsFewKubernetesAPIs keeps all the kinds of the Kubernetes API out of the
// agent's memory: docs/decisions/own-api-client.md.
func TestAgentBinary_ImportsFewKubernetesAPIs(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, out)
	}
	known := " authentication/v1 authorization/v1 certificates/v1 core/v1 coordination/v1 discovery/v1 events/v1 networking/v1 "
	for dep := range strings.FieldsSeq(string(out)) {
		kinds, ok := strings.CutPrefix(dep, "k8s.io/api/")
		if ok && !strings.Contains(known, " "+kinds+" ") || strings.HasPrefix(dep, "k8s.io/client-go/kubernetes") || strings.HasPrefix(dep, "github.com/google/gnostic-models") {
			t.Errorf("the agent imports %s", dep)
		}
	}
}

// TestFlags_TextsBecomeConfig: the defaults, and flags whose texts are lists.
func TestFlags_TextsBecomeConfig(t *testing.T) {
	cfg := agent.Defaults()
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	register(f, &cfg)
	if got := fmt.Sprint(cfg.Node.Network.Subnets); got != "[10.244.0.0/16/24]" || cfg.VFs.Pools != nil {
		t.Errorf("defaults: subnets %s, pools %v", got, cfg.VFs.Pools)
	}
	err := f.Parse([]string{
		"--cluster-cidrs=10.1.0.0/16/24,fd01::/48/64", "--service-cidrs=10.2.0.0/16", "--encap-ip=192.0.2.7/24", "--vf-resources=a.io/x, b.io/y,",
		`--vf-pools={"resourceList":[]}`, "--reserved-vfs=ens1f0#0-15 ens1f1#0-15", "--dpu-host-controller=1,2",
	})
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(cfg.Node.Network.Subnets, cfg.Node.Zone.ServiceSubnets, cfg.Node.EncapNetwork, cfg.VFs.Pools == nil, cfg.VFs.Pools,
		len(cfg.VFs.Resources), cfg.VFs.Resources, cfg.VFs.Purposes.DefaultPods, cfg.Serves.Controllers)
	want := "[10.1.0.0/16/24 fd01::/48/64] [10.2.0.0/16] 192.0.2.0/24 false [] 2 [a.io/x b.io/y] [ens1f0#0-15 ens1f1#0-15] [1 2]"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
