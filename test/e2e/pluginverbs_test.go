//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	says "github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
)

// verbCase is a verb once right and once refused.
type verbCase struct {
	// right are the arguments whose answer has the text has; none: another test has the right form.
	right []string
	has   string
	// refused are arguments that end with a code, and with the text why.
	refused []string
	code    says.Code
	why     string
}

// TestPlugin_EachVerbAnswers: each verb once right, and once refused for a name that is wrong, an object that is absent
// or a right that is missing. Wrong arguments are in cmd/kubectl-offload (TestVerbs_WrongUseNeedsNoCluster).
func TestPlugin_EachVerbAnswers(t *testing.T) {
	world.Test(t, world.Tools, world.Core)
	ns, node := world.Namespace(t), nodes[1]
	web, client := world.Pod(ns, "web", node), world.Pod(ns, "client", node)
	world.Run(t, web, client)
	address, port := world.Addresses(web)[0].String(), contract.Network{}.PodPort(ns, "web")
	world.MustInPod(t, client, "sh", "-c", "(probe stream udp "+world.Endpoints(web)[0].String()+" </dev/null >/dev/null 2>&1 &)")
	dir := t.TempDir()
	manifest, archive := filepath.Join(dir, "pod.yaml"), filepath.Join(dir, "dump.tgz")
	if err := os.WriteFile(manifest, []byte(podOnVF), 0o600); err != nil {
		t.Fatal(err)
	}
	absent := func(verb string) []string { return []string{verb, "--context", "none"} }
	none, noContext := "there is no pod "+ns+"/none", `context "none" does not exist`
	cases := []verbCase{
		{[]string{"capture", "pod/client", "-n", ns, "-c", "1", "--time", "20s", "-w", filepath.Join(dir, "out.pcapng"), "-o", "json"}, `"packets": 1`,
			[]string{"capture", "pod/web", "-n", ns, "--kubeconfig", tenantOfNothing(t)}, says.Uncertain, "may not create captures.ovn-offload.io"},
		// TestDPU_JoinGivesTokenThatRenewsItself has the right form.
		{nil, "", []string{"dpu", "leave", "none"}, says.Uncertain, "deleting the account of the DPU"},
		{[]string{"explain", "pod/web", "-n", ns}, address + "/", []string{"explain", "pod/none", "-n", ns}, says.Degraded, none},
		{[]string{"flows", "-n", ns, "--node", node}, "pod/" + ns + "/web", []string{"flows", "--node", "none"}, says.Degraded, "give --dpu-context"},
		{[]string{"help", "NetworkNotFound"}, "# Event NetworkNotFound", []string{"help", "no-such-page"}, says.Usage, "no verb or page"},
		{[]string{"lint", "-f", manifest, "-n", ns}, "no workload on VFs", append(absent("lint"), "--all"), says.Uncertain, noContext},
		{[]string{"nb", "--", "lsp-get-addresses", port}, address, []string{"nb", "--", "lsp-get-addresses", "no-such-port"}, says.Degraded, "port name not found"},
		{[]string{"ovs", node, "--", "ovs-vsctl", "list-br"}, "br-int", []string{"ovs", "no-such-node", "--", "ovs-vsctl", "list-br"}, says.Uncertain, "no ready pod"},
		{[]string{"perf", "--cleanup"}, "nothing to delete", // TestPlugin_PerfMeasures has measurements
			[]string{"perf", "--from", node, "--to", "none"}, says.Uncertain, "node none runs no pods"},
		// TestPlugin_PreflightNamesWhatIsWrong has the right form.
		{nil, "", []string{"preflight", "--nodes", "none"}, says.Usage, "there is no node none"},
		{[]string{"sb", "--", "--bare", "--columns=logical_port", "find", "Port_Binding", "logical_port=" + port}, port,
			[]string{"sb", "--", "list", "No_Such_Table"}, says.Degraded, "No_Such_Table"},
		{[]string{"status", "-o", "json"}, `"leader": "`, absent("status"), says.Uncertain, noContext},
		{[]string{"sysdump", "--file", archive, "--nodes", node, "--since", "1s"}, archive, absent("sysdump"), says.Uncertain, noContext},
		{[]string{"test", "--cleanup"}, "nothing to delete", // TestPlugin_TestFindsWhatDoesNotWork has cases
			[]string{"test", "--nodes", node + ",none"}, says.Uncertain, "node none runs no pods"},
		{[]string{"top", "-n", ns, "--node", node, "--interval", "1s"}, ns + "/client", []string{"top", "--node", "none"}, says.Degraded, "there is no agent of node none"},
		{[]string{"topology", "pod/web", "-n", ns}, "└─ a veth", []string{"topology", "node/none"}, says.Degraded, "there is no node"},
		{[]string{"trace", "pod/client", fmt.Sprintf("pod/web:%d", world.EchoPort), "-n", ns}, "DELIVERED",
			[]string{"trace", "pod/client", "pod/none", "-n", ns}, says.Degraded, none},
		{[]string{"version", "-o", "json"}, `"controller": "`, absent("version"), says.Uncertain, noContext},
	}
	verbs, tests := verbsOf(t), map[string]func(*testing.T){}
	for _, c := range cases {
		delete(verbs, c.refused[0])
		tests[c.refused[0]] = func(t *testing.T) {
			if c.right != nil {
				verbTells(t, c.has, c.right...)
			}
			verbRefuses(t, c.code, c.why, c.refused...)
		}
	}
	delete(verbs, "ui")
	tests["ui"] = func(t *testing.T) {
		page := openPage(t, "", "--direct")
		for name, want := range map[string]int{"web": http.StatusOK, "none": http.StatusNotFound} {
			world.Eventually(t, world.Soon, fmt.Sprintf("of pod %s the page has status %d", name, want), func() (bool, string) {
				got := page.view(t, "pod", podQuery(ns, name), nil)
				return got == want, fmt.Sprint(got)
			})
		}
	}
	world.AtOnce(t, tests)
	if len(verbs) > 0 {
		t.Errorf("verbs without a case: %v", verbs)
	}
}

// podOnVF is a manifest of a pod that asks for a VF.
const podOnVF = "kind: Pod\napiVersion: v1\nmetadata: {name: client}\nspec: {containers: [{name: c, resources: {limits: {ovn-offload.io/vf: 1}}}]}\n"

// verbsOf are the verbs that the help of the plugin lists.
func verbsOf(t *testing.T) map[string]bool {
	t.Helper()
	out, _ := kubectlOffload(t, "help")
	_, list, found := strings.Cut(out, "\nAvailable Commands:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	verbs := map[string]bool{}
	for line := range strings.Lines(list) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] != "completion" { // cobra's own
			verbs[fields[0]] = true
		}
	}
	if !found || len(verbs) < 10 {
		t.Fatalf("the help lists %v: %s", verbs, out)
	}
	return verbs
}

// verbTells waits until the answer of a verb has a text and exit code 0. Verbs that judge the cluster, which other tests share,
// may have any code but that of a wrong command.
func verbTells(t *testing.T, text string, args ...string) {
	t.Helper()
	judges := slices.Contains([]string{"explain", "status", "topology", "version"}, args[0])
	world.Eventually(t, world.Soon, fmt.Sprintf("%q has %q", args, text), func() (bool, string) {
		out, code := kubectlOffload(t, args...)
		return (code == int(says.Good) || judges && code != int(says.Usage)) && strings.Contains(out, text), fmt.Sprintf("exit code %d: %s", code, out)
	})
}

// verbRefuses has a verb end with a code and a text. A verb that did not get its facts in time is asked again; one that is
// not refused is an error at once.
func verbRefuses(t *testing.T, want says.Code, text string, args ...string) {
	t.Helper()
	world.Eventually(t, world.Soon, fmt.Sprintf("%q ends with exit code %d and %q", args, want, text), func() (bool, string) {
		out, code := kubectlOffload(t, args...)
		if code == int(says.Good) {
			t.Fatalf("%q is not refused with exit code %d and %q: %s", args, want, text, out)
		}
		return code == int(want) && strings.Contains(out, text), fmt.Sprintf("exit code %d: %s", code, out)
	})
}

// tenantOfNothing is a kubeconfig of a user who has no rights.
func tenantOfNothing(t *testing.T) string {
	t.Helper()
	_, path := cluster.Kubectl()
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.Impersonate, user.ImpersonateGroups = "tenant", []string{"system:authenticated"}
	}
	tenant := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, tenant); err != nil {
		t.Fatal(err)
	}
	return tenant
}
