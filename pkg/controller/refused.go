package controller

import (
	"context"

	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/kube/refused"
)

// reportRefused puts Events on objects that have no effect, until ctx ends.
func (c *Controller) reportRefused(ctx context.Context) error {
	if c.cfg.Dynamic == nil {
		return nil
	}
	return refused.New(refused.Deps{Client: c.cfg.Dynamic, Annotated: kube.Annotated(c.view), Event: c.report.Record, Logger: c.log}).Run(ctx)
}
