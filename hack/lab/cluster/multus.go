package cluster

import (
	"context"
	_ "embed"
	"os"
	"strings"

	"github.com/ovn-offload/ovn-offload/hack/lab/build"
)

//go:embed multus.yaml
var multusManifest string

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
	if err := os.WriteFile(file, []byte(manifest), 0o644); err != nil {
		return err
	}
	if err := l.kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-f", file); err != nil {
		return err
	}
	return l.kubectl(ctx, "rollout", "status", "-n", "kube-system", "daemonset/kube-multus-ds", "--timeout=3m")
}
