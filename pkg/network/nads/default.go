package nads

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// defaultNAD is the NAD that contract.DefaultNetworkKey names.
func defaultNAD() contract.Owner {
	namespace, name, _ := strings.Cut(contract.DefaultNetworkNAD, "/")
	return contract.Owner{Kind: contract.KindNAD, Namespace: namespace, Name: name}
}

// makeDefault makes the NAD of the default network, unless there is one: Multus looks for it, as in a cluster with
// OVN-Kubernetes. It is no further network.
func (n *NADs) makeDefault(ctx context.Context) error {
	owner := defaultNAD()
	if !n.deps.Default || !n.facts.nads.HasSynced() || get(n.facts.nads, owner.Namespace, owner.Name) != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	nad := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": Resource().GroupVersion().String(), "kind": contract.KindNAD,
		"metadata": map[string]any{"namespace": owner.Namespace, "name": owner.Name},
		"spec":     map[string]any{"config": fmt.Sprintf(`{"cniVersion":"1.0.0","name":"ovn-kubernetes","type":%q}`, contract.PluginType)},
	}}
	if _, err := n.writer.client(nad).Create(ctx, nad, metav1.CreateOptions{}); err != nil && !isOutdated(err) {
		return fmt.Errorf("making NetworkAttachmentDefinition %s: %w", contract.DefaultNetworkNAD, err)
	}
	return nil
}
