package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Step is one change of a host, safe to repeat. A plan is a list of steps: observe the
// host, plan purely, apply. The text names the step in errors, logs and tests.
type Step[Host any] interface {
	fmt.Stringer
	Apply(ctx context.Context, host Host) error
}

// ErrSkipped is wrapped by the error of a step that changed nothing and that the steps
// behind it do not need.
var ErrSkipped = errors.New("skipped")

// Apply applies steps in their order until one fails, and gives those that were skipped.
func Apply[Host any](ctx context.Context, log *slog.Logger, host Host, steps []Step[Host]) (skipped []Step[Host], err error) {
	for _, step := range steps {
		start := time.Now()
		err := step.Apply(ctx, host)
		if errors.Is(err, ErrSkipped) {
			skipped = append(skipped, step)
			continue
		}
		if err != nil {
			return skipped, fmt.Errorf("%s: %w", step, err)
		}
		log.Info("applied a step", "step", step.String(), "took", time.Since(start))
	}
	return skipped, nil
}
