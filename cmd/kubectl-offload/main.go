// kubectl-offload is the plugin of kubectl: `kubectl offload VERB`.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/ovn-offload/ovn-offload/cmd/kubectl-offload/dpu"
	"github.com/ovn-offload/ovn-offload/cmd/kubectl-offload/flags"
	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/trace"
)

// version is set by the linker.
var version = "dev" //nolint:gochecknoglobals // -ldflags -X needs a variable

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	silence()
	err := command().ExecuteContext(ctx)
	code, silent := exitCode(err)
	if err != nil && !silent {
		fmt.Fprintln(os.Stderr, "kubectl offload:", err)
	}
	os.Exit(code)
}

// exitCode is that of pkg/answer. An answer that is no, and a program that was run and failed, have said why.
func exitCode(err error) (code int, silent bool) {
	var said exit
	switch {
	case err == nil:
		return int(answer.Good), true
	case errors.As(err, &said):
		return int(said), true
	case errors.As(err, new(usage)), errors.As(err, new(trace.ErrNetwork)):
		return int(answer.Usage), false
	case errors.As(err, new(answer.ErrNotFound)):
		return int(answer.Degraded), false
	}
	return int(answer.Uncertain), false
}

// silence keeps what client-go logs from users: an error of an answer is in the answer.
func silence() { klog.SetLogger(klog.Logger{}) }

func command() *cobra.Command {
	root := &cobra.Command{
		Use: "kubectl-offload", Short: "operates ovn-offload", Version: version, SilenceUsage: true, SilenceErrors: true,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl offload"},
	}
	root.AddCommand(statusCommand(), explainCommand(), topologyCommand(), traceCommand(), flowsCommand(), topCommand(), uiCommand(), testCommand(), perfCommand(), lintCommand(), preflightCommand(), captureCommand(), sysdumpCommand(), dpu.Command(restConfig), versionCommand())
	root.AddCommand(rawCommands()...)
	root.SetHelpCommand(helpCommand(root))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	flags.Strict(root, wrong)
	return root
}
