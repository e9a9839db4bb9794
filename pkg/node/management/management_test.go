package management

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/node"
)

// TestHost_WithoutVFKeepsOtherNetworksClaims: only the default network's claim goes from the annotation.
func TestHost_WithoutVFKeepsOtherNetworksClaims(t *testing.T) {
	const blue = `{"blue":{"PfId":0,"FuncId":2}}`
	for former, want := range map[string]string{
		`{"blue":{"PfId":0,"FuncId":2},"default":{"PfId":0,"FuncId":1}}`: blue,
		`{"default":{"PfId":0,"FuncId":1}}`:                              "",
		`{"PfId":0,"FuncId":1}`:                                          "",
	} {
		object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{contract.ManagementPortKey: former}}}
		var written map[string]string
		deps := node.Deps{
			Node: func() *corev1.Node { return object },
			Annotate: func(_ context.Context, _ *corev1.Node, values map[string]string) error {
				written = values
				return nil
			},
		}
		m := &Runner{Port: NewPort(node.Config{Node: "n"}, deps, func() (*node.VF, error) { return nil, nil })}
		if err := m.onHost(t.Context(), state{}); err != nil {
			t.Fatal(err)
		}
		if got := written[contract.ManagementPortKey]; got != want {
			t.Errorf("%s becomes %q, want %q", former, got, want)
		}
	}
}
