package cluster

import (
	"context"
	"time"
)

// Pauses of poll: what is waited for needs the processor as well.
const (
	firstPause = 50 * time.Millisecond
	lookEvery  = 500 * time.Millisecond // for a try within this process
	runEvery   = 2 * time.Second        // for a try that runs a program
)

// poll tries until there is no error, and gives the last one when ctx ends: a server that is not there sends no events.
// The pauses between tries double up to every.
func poll(ctx context.Context, every time.Duration, try func() error) error {
	for pause := firstPause; ; pause = min(2*pause, every) {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}
