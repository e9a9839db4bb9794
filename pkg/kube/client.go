package kube

import (
	"fmt"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// ClientConfig says how to reach the API server.
type ClientConfig struct {
	// Kubeconfig is a file; "" uses the pod's service account.
	Kubeconfig string
	// Server, if set, replaces the address: a node's network must not depend on
	// a service address that it has yet to provide.
	Server string
	// UserAgent is what the API server's audit log and metrics show.
	UserAgent string
}

// NewClient makes a client without an artificial rate limit: the API server has
// its own, and ours would only delay pods.
func NewClient(cfg ClientConfig) (kubernetes.Interface, error) {
	rc, err := restConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("reading the API server's address: %w", err)
	}
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", rc.Host, err)
	}
	return client, nil
}

// NewDynamicClient is NewClient for kinds that are not Kubernetes' own.
func NewDynamicClient(cfg ClientConfig) (dynamic.Interface, error) {
	rc, err := restConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("reading the API server's address: %w", err)
	}
	client, err := dynamic.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", rc.Host, err)
	}
	return client, nil
}

func restConfig(cfg ClientConfig) (*rest.Config, error) {
	rc, err := rest.InClusterConfig()
	if cfg.Kubeconfig != "" {
		rc, err = clientcmd.BuildConfigFromFlags("", cfg.Kubeconfig)
	}
	if err != nil {
		return nil, err
	}
	if cfg.Server != "" {
		rc.Host = cfg.Server
	}
	rc.UserAgent = cfg.UserAgent
	rc.QPS = -1
	rc.ContentType = "application/vnd.kubernetes.protobuf"
	rc.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return rc, nil
}
