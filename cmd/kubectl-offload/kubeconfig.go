package main

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// restConfig finds a cluster as kubectl does.
func restConfig(kubeconfig, name string) (*rest.Config, error) {
	rc, err := clientConfig(kubeconfig, name).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	rc.UserAgent, rc.QPS = "kubectl-offload/"+version, -1
	return rc, nil
}

// contextNamespace is the namespace that kubectl uses.
func contextNamespace(kubeconfig, name string) (string, error) {
	namespace, _, err := clientConfig(kubeconfig, name).Namespace()
	return namespace, err
}

func clientConfig(kubeconfig, name string) clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: name})
}
