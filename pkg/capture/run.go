package capture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Command runs tcpdump at a point, until ctx ends.
type Command func(ctx context.Context, at string, out, errs io.Writer) error

// Run copies what a command reads at a point. It ends when the command has ended, or when the file is full, and then ends the
// command.
func (w *Writer) Run(ctx context.Context, at, comment string, run Command) (packets int, isFull bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, to := io.Pipe()
	var errs bytes.Buffer
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		to.CloseWithError(run(ctx, at, to, &errs))
	}()
	packets, err = w.Copy(from, at, comment)
	from.CloseWithError(err)
	if errors.Is(err, ErrFull) {
		return packets, true, nil
	}
	cancel()
	<-ended
	if err != nil && !IsWhole(errs.String(), packets) {
		return packets, false, fmt.Errorf("capturing at %s: %w: %s", at, err, strings.TrimSpace(errs.String()))
	}
	return packets, false, nil
}
