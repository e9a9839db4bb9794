package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/conncheck/disrupt"
)

// disruptOptions are the flags of test about connections that last.
type disruptOptions struct {
	setup, check bool
	maxSilence   time.Duration
}

func (o *disruptOptions) disruptFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.setup, "setup-disrupt", false, "begin connections that last in the namespace "+disrupt.Namespace+", and end")
	f.BoolVar(&o.check, "check-disrupt", false, "say what became of the connections of --setup-disrupt, and delete them")
	f.DurationVar(&o.maxSilence, "max-silence", disrupt.MaxSilence, "with --check-disrupt: the longest time without an answer that is good")
}

func (o *testOptions) validateDisrupt() error {
	switch {
	case !o.setup && !o.check:
		return nil
	case o.setup && o.check || o.cleanup || o.given || o.full || o.quick || o.run != "" || o.instead != "" || len(o.external) > 0:
		return errors.New("want --setup-disrupt, with --nodes, --image or --resource, or --check-disrupt, with --max-silence or --keep; both with --junit")
	case o.maxSilence <= 0:
		return fmt.Errorf("--max-silence=%s: want a time", o.maxSilence)
	}
	return nil
}

// disrupt begins connections, or says what became of them.
func (o *testOptions) disrupt(cmd *cobra.Command) error {
	client, exec, err := o.clientIn(disrupt.Namespace)
	if err != nil {
		return err
	}
	ctx, progress, session := cmd.Context(), cmd.ErrOrStderr(), disrupt.NewSession(client, exec)
	if o.check {
		out, at, err := session.Check(ctx, progress, o.maxSilence, o.keep)
		if err != nil {
			return err
		}
		return o.tell(cmd, answer.NewLasting(at, *out, o.maxSilence, time.Now()))
	}
	at, err := o.place(ctx)
	if err != nil {
		return err
	}
	out, err := session.Setup(ctx, progress, at)
	if err != nil {
		return err
	}
	return o.tell(cmd, answer.NewLasting(at, *out, 0, time.Now()))
}
