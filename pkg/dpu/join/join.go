// Package join admits a DPU to the cluster of its host.
//
//	cmd/kubectl-offload -> Pair -> Admit: account and token in the hosts' cluster -> Files
//	                            -> Deliver: a pod in the DPU's cluster writes the files on the DPU
//	                            -> Label: the DaemonSets of DPUs and of their hosts begin
//
// The agent on the DPU does the rest: it renews the token (pkg/kube/token) and requests the certificate of its chassis
// (pkg/chassis). Each step can be repeated. A token is in no object that outlives the command: the Secret from which the
// pod takes the files is deleted.
package join

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/ovn-offload/ovn-offload/pkg/chassis"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
)

const (
	// Dir is where the agent of a DPU looks for its kubeconfig.
	Dir = "/etc/ovn-offload/host-cluster"
	// validity of the first token. The agent requests its successor after a third.
	validity = 90 * 24 * time.Hour

	kubeconfigFile = "kubeconfig"
	tokenFile      = "token"
)

// Files are those of Dir, by name.
type Files map[string][]byte

// Admit makes the account of the host's DPU, and the files with which the DPU's agent uses it. server and ca are the
// address of the hosts' API server, as the DPU reaches it, and the PEM of its authority.
func Admit(ctx context.Context, client *api.Client, host, server string, ca []byte) (Files, error) {
	if err := checkServer(server); err != nil {
		return nil, err
	}
	if _, err := client.Namespaces.Get(ctx, chassis.DPUNamespace, metav1.GetOptions{}); err != nil {
		return nil, fmt.Errorf("hosts with a DPU need the chart's value dpuHosts.enabled=true: %w", err)
	}
	if err := forgetChassis(ctx, client, host); err != nil {
		return nil, err
	}
	account := types.NamespacedName{Namespace: chassis.DPUNamespace, Name: host}
	object := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: account.Namespace, Name: account.Name}}
	if _, err := client.Accounts(account.Namespace).Create(ctx, object, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("making account %s: %w", account, err)
	}
	token, err := client.Token(ctx, account, validity)
	if err != nil {
		return nil, err
	}
	config, err := kubeconfig(server, ca)
	if err != nil {
		return nil, err
	}
	return Files{kubeconfigFile: config, tokenFile: []byte(token)}, nil
}

// checkServer refuses addresses that only the administrator's own machine reaches.
func checkServer(server string) error {
	address, err := url.Parse(server)
	if err != nil || address.Scheme != "https" || address.Host == "" {
		return fmt.Errorf("API server %q: want a URL such as https://192.0.2.10:6443", server)
	}
	if ip := net.ParseIP(address.Hostname()); address.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
		return fmt.Errorf("API server %s: a DPU does not reach this address; name another one with --server", server)
	}
	return nil
}

// forgetChassis removes the record of the chassis that a Node had before it became a host with a DPU: the DPU is another
// chassis, and a record admits one.
func forgetChassis(ctx context.Context, client *api.Client, host string) error {
	node, err := client.Nodes.Get(ctx, host, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("the host is not in the cluster: %w", err)
	}
	if _, is := node.Labels[contract.DPUHostLabel]; is {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"data": map[string]any{host: nil}})
	if err != nil {
		return err
	}
	_, err = client.ConfigMaps(contract.DPULeaseNamespace).Patch(ctx, chassis.RecordMap, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("removing the record of the host's former chassis: %w", err)
	}
	return nil
}

// kubeconfig names the file of the token, which the agent replaces.
func kubeconfig(server string, ca []byte) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters["hosts"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos["dpu"] = &clientcmdapi.AuthInfo{TokenFile: tokenFile}
	config.Contexts["hosts"] = &clientcmdapi.Context{Cluster: "hosts", AuthInfo: "dpu"}
	config.CurrentContext = "hosts"
	return clientcmd.Write(*config)
}

// Authority is the PEM of the authority that a client trusts.
func Authority(rc *rest.Config) ([]byte, error) {
	rc = rest.CopyConfig(rc)
	if err := rest.LoadTLSFiles(rc); err != nil {
		return nil, err
	}
	if len(rc.CAData) == 0 {
		return nil, errors.New("the kubeconfig has no certificate-authority of the API server")
	}
	return rc.CAData, nil
}

// Label sets a label without a value on a Node.
func Label(ctx context.Context, client *api.Client, node, label string) error {
	return patchLabel(ctx, client, node, map[string]any{label: ""})
}

// Unlabel removes a label from a Node.
func Unlabel(ctx context.Context, client *api.Client, node, label string) error {
	return patchLabel(ctx, client, node, map[string]any{label: nil})
}

func patchLabel(ctx context.Context, client *api.Client, node string, labels map[string]any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	if err != nil {
		return err
	}
	if _, err := client.Nodes.Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("labelling the Node: %w", err)
	}
	return nil
}

// Leave deletes the account of a host's DPU, which locks the DPU out at once.
func Leave(ctx context.Context, client *api.Client, host string) error {
	if err := client.Accounts(chassis.DPUNamespace).Delete(ctx, host, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting the account of the DPU: %w", err)
	}
	return nil
}
