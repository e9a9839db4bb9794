// hyperkube is Kubernetes and Helm in one binary: it runs the component that it is
// called as (argv[0], a symbolic link), or the one named by its first argument.
// One binary links the shared code once, which halves the build time of the lab.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	helm "helm.sh/helm/v4/pkg/cmd"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

func main() {
	component := filepath.Base(os.Args[0])
	if component == "hyperkube" && len(os.Args) > 1 {
		component = os.Args[1]
		os.Args = os.Args[1:]
	}
	if component == "helm" {
		os.Exit(runHelm())
	}
	command := newCommand(component)
	if command == nil {
		fmt.Fprintf(os.Stderr, "hyperkube: no component %q\n", component)
		os.Exit(2)
	}
	os.Exit(cli.Run(command))
}

// runHelm runs Helm without the flags and the log of Kubernetes' components.
func runHelm() int {
	command, err := helm.NewRootCmd(os.Stdout, os.Args[1:], helm.SetupLogging)
	if err == nil {
		err = command.Execute()
	}
	if err != nil {
		return 1
	}
	return 0
}

func newCommand(component string) *cobra.Command {
	switch component {
	case "kube-apiserver":
		return apiserver.NewAPIServerCommand()
	case "kube-controller-manager":
		return controllermanager.NewControllerManagerCommand()
	case "kube-scheduler":
		return scheduler.NewSchedulerCommand()
	case "kubelet":
		return kubelet.NewKubeletCommand(context.Background()) // it makes its own signal context
	case "kubectl":
		return kubectl.NewDefaultKubectlCommand()
	}
	return nil
}
