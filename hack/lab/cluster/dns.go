package cluster

import (
	"context"
	_ "embed"
	"os"
	"strings"

	"github.com/ovn-offload/ovn-offload/hack/lab/build"
)

//go:embed dns.yaml
var dnsManifest string

func (l *Lab) dnsImage() string { return l.path("images/coredns.tar") }

// buildDNS makes the image of CoreDNS.
func (l *Lab) buildDNS(ctx context.Context) error {
	program, err := l.cache.CoreDNS(ctx)
	if err != nil {
		return err
	}
	return build.ProgramImage(build.DNSImage, "coredns", program, l.dnsImage())
}

// dns runs CoreDNS, which reaches the API server by its service as every pod
// does, and waits until it answers.
func (l *Lab) dns(ctx context.Context) error {
	if l.cfg.CNI != CNIOffload {
		return nil // without services there is no DNS either
	}
	file := l.path("dns.yaml")
	manifest := strings.NewReplacer("CLUSTER_DNS", l.clusterDNS(), "FINGERPRINT", l.fingerprints[l.dnsImage()]).Replace(dnsManifest)
	if err := os.WriteFile(file, []byte(manifest), 0o644); err != nil {
		return err
	}
	if err := l.kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-f", file); err != nil {
		return err
	}
	return l.kubectl(ctx, "rollout", "status", "-n", "kube-system", "deployment/coredns", "--timeout=2m")
}
