package cluster

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"strings"

	"github.com/ovn-offload/ovn-offload/hack/lab/build"
)

//go:embed multus.yaml
var multusManifest string

//go:embed multus-crd.yaml
var multusKind string

func (l *Lab) multusImage() string { return l.path("images/multus.tar") }

func (l *Lab) buildMultus(ctx context.Context) error {
	programs, err := l.cache.Multus(ctx)
	if err != nil {
		return err
	}
	return build.MultusImage(programs, l.multusImage())
}

// multus runs Multus' daemon on each node, where the container runtime then asks Multus first.
func (l *Lab) multus(ctx context.Context) error {
	if !l.cfg.Multus {
		return nil
	}
	file := l.path("multus.yaml")
	manifest := strings.ReplaceAll(multusManifest, "FINGERPRINT", l.fingerprints[l.multusImage()])
	if l.cfg.CNI == CNIBridge { // it has no services
		const env = "          env:\n"
		api := l.cfg.apiAddress()
		manifest = multusKind + strings.Replace(manifest, env, fmt.Sprintf("%s            - {name: KUBERNETES_SERVICE_HOST, value: %q}\n"+
			"            - {name: KUBERNETES_SERVICE_PORT, value: \"%d\"}\n", env, api.Addr(), api.Port()), 1)
	}
	if err := os.WriteFile(file, []byte(manifest), 0o644); err != nil {
		return err
	}
	if err := l.kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-f", file); err != nil {
		return err
	}
	if err := l.kubectl(ctx, "rollout", "status", "-n", "kube-system", "daemonset/kube-multus-ds", "--timeout=3m"); err != nil {
		return err
	}
	nodes, err := l.nodes()
	if err != nil {
		return err
	}
	for _, node := range nodes { // the daemon, which has no probes, writes the file when it answers
		const announced = "timeout 60 sh -c 'until [ -e /etc/cni/net.d/00-multus.conf ]; do sleep 0.2; done'"
		if out, err := node.Command(ctx, "sh", "-c", announced).CombinedOutput(); err != nil {
			return fmt.Errorf("the container runtime of %s has no configuration of Multus: %w: %s", node.Name, err, out)
		}
	}
	return nil
}
