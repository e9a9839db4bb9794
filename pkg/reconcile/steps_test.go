package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
)

type append1 struct {
	name string
	err  error
}

func (a append1) String() string { return a.name }

func (a append1) Apply(_ context.Context, host *string) error {
	if a.err == nil {
		*host += a.name
	}
	return a.err
}

func TestApply_StopsAtFailureGoesOnAfterSkip(t *testing.T) {
	errBroken := errors.New("broken")
	a, b, c := append1{"a", nil}, append1{"b", fmt.Errorf("no: %w", ErrSkipped)}, append1{"c", errBroken}
	host := ""
	skipped, err := Apply(t.Context(), slog.New(slog.DiscardHandler), &host, []Step[*string]{a, b, a, c, a})
	if host != "aa" || len(skipped) != 1 || skipped[0].String() != "b" {
		t.Errorf("applied %q, skipped %v", host, skipped)
	}
	if !errors.Is(err, errBroken) || err.Error() != "c: broken" {
		t.Errorf("error %v", err)
	}
}
