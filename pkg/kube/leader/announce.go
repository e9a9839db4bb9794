package leader

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// Announce writes an annotation of the lease until it is written, or ctx ends; "" removes it. The elector keeps annotations: it
// reads the lease again after a change by others.
func Announce(ctx context.Context, leases coordination.LeasesGetter, cfg Config, key, value string) {
	tick := time.NewTicker(cfg.Retry)
	defer tick.Stop()
	for announce(ctx, leases, cfg, key, value) != nil {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func announce(ctx context.Context, leases coordination.LeasesGetter, cfg Config, key, value string) error {
	lease, err := leases.Leases(cfg.Namespace).Get(ctx, cfg.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if holder := lease.Spec.HolderIdentity; holder == nil || *holder != cfg.Identity {
		return fmt.Errorf("the lease %s/%s has another holder: %w", cfg.Namespace, cfg.Name, ErrLost)
	}
	if lease.Annotations[key] == value {
		return nil
	}
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[key] = value
	if value == "" {
		delete(lease.Annotations, key)
	}
	_, err = leases.Leases(cfg.Namespace).Update(ctx, lease, metav1.UpdateOptions{}) // with its version: it is ours still
	return err
}
