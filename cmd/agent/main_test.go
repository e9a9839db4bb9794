package main

import (
	"os/exec"
	"strings"
	"testing"
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
		"--mtu=large":                  "mtu",
	} {
		for _, verb := range []string{"", "cleanup", "fail-back", "retreat"} {
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
