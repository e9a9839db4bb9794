//go:build apiserver

package apiserver

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/dpu/join"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
)

// northPort is where the Northbound database is for ovn-northd in the machine.
const northPort = "6641:" + apiAddress

var arm64 = flag.String("arm64", "", "directory with the arm64 image's root file system and with the test of test/bench/arm64; make bench-arm64 sets it")

// TestARM64_DPUAttachesPods boots an arm64 machine with each size of pages, which is a host with a DPU: the agents, the
// CNI plugin, Open vSwitch and OVN of the arm64 image. test/bench/arm64 is what happens inside. Here are its Node and
// pods, and what the agents have written about the pods.
func TestARM64_DPUAttachesPods(t *testing.T) {
	if *arm64 == "" {
		t.Skip("the machine is slow: make bench-arm64")
	}
	out, err := exec.Command("ovs-appctl", "-t", cluster.product.plane.file("nb.ctl"), "ovsdb-server/add-remote", "ptcp:"+northPort).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, pages := range []int{4, 64} {
		t.Run(fmt.Sprintf("%dKiB", pages), func(t *testing.T) { testARM64(t, pages) })
	}
}

func testARM64(t *testing.T, pages int) {
	ns, host := namespace(t), fmt.Sprintf("arm64-%dk", pages)
	files := slices.Concat(hostFiles(t, host), dpuFiles(t, host), southboundFiles(t))
	for _, name := range []string{"web1", "web2"} {
		addressed(t, ns, name, host)
	}
	bin, err := filepath.Abs("../../_output/bin")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{
		"--arch=arm64", fmt.Sprint("--pages=", pages), "--root=" + filepath.Join(*arm64, "root"), "--nics=1", "--vfs=0", "--switchdev=false",
		"--outward=2", "--timeout=30m", "--console=" + cluster.product.plane.log(host),
	}
	for _, file := range files {
		args = append(args, "--file="+file)
	}
	args = append(args, filepath.Join(*arm64, "arm64.test"), "-test.v", fmt.Sprint("-pages=", pages), "-node="+host, "-namespace="+ns,
		"-north=tcp:"+apiAddress+":6641", "-pod-subnets="+podSubnets, "-service-subnets="+serviceSubnets)
	cmd := exec.Command(filepath.Join(bin, "benchvm"), args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	acknowledged(t, ns, "web2")
	if left := details(t, ns, "web1"); left != "" {
		t.Errorf("after DEL web1 has the annotations %s", left)
	}
}

// acknowledged wants the host's details and the DPU's status of a pod.
func acknowledged(t *testing.T, ns, name string) {
	t.Helper()
	pod := getPod(t, ns, name)
	claim, err := contract.ParseDPUConnection(pod.Annotations[contract.DPUConnectionKey], contract.DefaultNetwork)
	if err != nil || claim == nil || claim.Sandbox != "sandbox-"+name || claim.VF == nil || *claim.VF != 1 {
		t.Errorf("%s has the details %s: %v", name, details(t, ns, name), err)
	}
	status, err := contract.ParseDPUStatus(pod.Annotations[contract.DPUStatusKey], contract.DefaultNetwork)
	if err != nil || status == nil || status.Status != contract.DPUReady || status.Sandbox != "sandbox-"+name {
		t.Errorf("%s has the status %s: %v", name, details(t, ns, name), err)
	}
}

// details are the annotations of a host and its DPU.
func details(t *testing.T, ns, name string) string {
	t.Helper()
	pod := getPod(t, ns, name)
	return pod.Annotations[contract.DPUConnectionKey] + pod.Annotations[contract.DPUStatusKey]
}

// hostFiles makes the Node, and the configuration of its agent's client, whose token is of that Node.
func hostFiles(t *testing.T, host string) []string {
	t.Helper()
	nodes := cluster.client.CoreV1().Nodes()
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: host, Labels: map[string]string{contract.DPUHostLabel: ""}}}
	node, err := nodes.Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nodes.Delete(context.Background(), host, metav1.DeleteOptions{}) })
	const addresses = `{"status":{"addresses":[{"type":"InternalIP","address":"192.168.60.1"}]}}`
	if _, err := nodes.PatchStatus(t.Context(), host, []byte(addresses)); err != nil {
		t.Fatal(err)
	}
	asked := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: host, UID: node.UID},
	}}
	granted, err := cluster.client.CoreV1().ServiceAccounts(system).CreateToken(t.Context(), "ovnkube-node-dpu-host", asked, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "host.conf")
	if err := cluster.product.plane.kubeconfig(path, &clientcmdapi.AuthInfo{Token: granted.Status.Token}); err != nil {
		t.Fatal(err)
	}
	return []string{path}
}

// dpuFiles are those that kubectl offload dpu join writes.
func dpuFiles(t *testing.T, host string) []string {
	t.Helper()
	files, err := join.Admit(t.Context(), apitest.Client(cluster.client), host, apiURL, cluster.config.CAData)
	if err != nil {
		t.Fatal(err)
	}
	return written(t, files)
}

// southboundFiles are the certificate of the Southbound database, which the signer makes.
func southboundFiles(t *testing.T) []string {
	t.Helper()
	var files map[string][]byte
	eventually(t, "the certificate of the Southbound database", func() (bool, string) {
		secret, err := cluster.client.CoreV1().Secrets(system).Get(t.Context(), "ovn-sb-server", metav1.GetOptions{})
		if err == nil {
			files = secret.Data
		}
		return err == nil, fmt.Sprint(err)
	})
	return written(t, files)
}

func written(t *testing.T, files map[string][]byte) (paths []string) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}
