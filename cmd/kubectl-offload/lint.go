package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/lint"
	"github.com/ovn-offload/ovn-offload/pkg/vf/plugin"
)

// lintOptions are the flags of lint.
type lintOptions struct {
	readOptions
	file        string
	all, strict bool
	resources   []string
}

func lintCommand() *cobra.Command {
	var o lintOptions
	cmd := &cobra.Command{
		Use: "lint [-f FILE] [--all]", Args: cobra.NoArgs, Short: "which pods on VFs would have traffic outside hardware, by which object",
		Long: "Lint reads a manifest, the objects of the cluster, or both: then the manifest's objects replace those of the same name.\n" +
			"Exit code 1: a workload would have traffic that never is in hardware.",
		Example: "  kubectl offload lint -f shop.yaml\n  kubectl kustomize . | kubectl offload lint -f - --strict\n  kubectl offload lint --all",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.file == "" && !o.all {
				return usage{errors.New("want -f FILE or --all")}
			}
			objects, err := o.objects(cmd.Context(), cmd.InOrStdin())
			if err != nil {
				return err
			}
			world, err := lint.Read(objects)
			if err != nil {
				return usage{err}
			}
			return o.say(cmd.OutOrStdout(), answer.NewLinted(lint.Check(world, o.resources), o.strict, time.Now()))
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.file, "filename", "f", "", "manifest; -: standard input")
	f.BoolVar(&o.all, "all", false, "read the objects of the cluster")
	f.BoolVar(&o.strict, "strict", false, "exit code 1 for streams whose first packets are outside hardware, too")
	f.StringSliceVar(&o.resources, "resources", []string{plugin.DefaultResource}, "resources of VFs, as in vf_pools and vf_resources")
	f.StringVarP(&o.namespace, "namespace", "n", metav1.NamespaceDefault, "namespace of the manifest's objects that name none")
	return o.answerFlags(cmd)
}

func (o *lintOptions) objects(ctx context.Context, input io.Reader) (objects []unstructured.Unstructured, err error) {
	if o.file != "" && o.file != "-" {
		file, err := os.Open(o.file)
		if err != nil {
			return nil, usage{err}
		}
		defer file.Close()
		input = file
	}
	if o.all {
		client, err := o.client()
		if err != nil {
			return nil, err
		}
		if objects, err = lint.List(ctx, client); err != nil {
			return nil, err
		}
	}
	if o.file == "" {
		return objects, nil
	}
	manifest, err := lint.Decode(input, o.namespace)
	if err != nil {
		return nil, usage{fmt.Errorf("reading %s: %w", o.file, err)}
	}
	return lint.Merge(objects, manifest), nil
}
