package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/nearby"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
)

// checkWatch refuses what cannot be repeated.
func checkWatch(o readOptions, formats ...string) error {
	switch {
	case o.from != "":
		return usage{errors.New("--watch reads a cluster, and no archive")}
	case !slices.Contains(formats, o.format):
		return usage{fmt.Errorf("-o %s with --watch: want one of %v", o.format, formats)}
	}
	return nil
}

// follow writes the streams, and then those that are new or changed, until it is interrupted.
func (o *flowOptions) follow(cmd *cobra.Command) error {
	if err := checkWatch(o.readOptions, append(streams.LineFormats(), "text")...); err != nil {
		return err
	}
	o.kept = &nearby.Kept{}
	var watched answer.Watched
	missing := answer.MissingOnce{}
	return again(cmd.Context(), flowapi.MinPeriod, func(ctx context.Context) error {
		a, err := o.streams(ctx)
		if err != nil || ctx.Err() != nil { // an interrupted answer is none
			return err
		}
		missing.Say(cmd.ErrOrStderr(), a.Missing)
		changed := watched.Changed(a)
		if o.format != "text" {
			return streams.WriteLines(cmd.OutOrStdout(), o.format, changed, a.Taken)
		}
		if len(changed) == 0 {
			return nil
		}
		_, err = io.WriteString(cmd.OutOrStdout(), watched.Lines(changed, a.Taken))
		return err
	})
}

// again does something until it fails or is interrupted, which is no error.
func again(ctx context.Context, pause time.Duration, do func(ctx context.Context) error) error {
	for {
		if err := do(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}
