//go:build apiserver

package apiserver

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

const (
	apiAddress = "192.0.2.1"
	apiURL     = "https://" + apiAddress + ":6443"
	etcdURL    = "http://127.0.0.1:2379" // without TLS: the network namespace has no other clients

	podSubnets, serviceSubnets = "10.244.0.0/16/24,fd00:10:244::/48/64", "10.96.0.0/16,fd00:10:96::/112"
)

// controllers are those of Kubernetes on which tests depend. The others would look at nodes and pods that never run.
const controllers = "namespace-controller,serviceaccount-controller,serviceaccount-token-controller," +
	"root-ca-certificate-publisher-controller,garbage-collector-controller,resourcequota-controller,replicaset-controller"

// controlPlane has the processes and files of etcd, API server and controller manager.
type controlPlane struct {
	dir, logs string
	ca        *authority
}

func newControlPlane(logs string) (*controlPlane, error) {
	dir, err := os.MkdirTemp("", "control-plane")
	if err != nil {
		return nil, err
	}
	ca, err := newAuthority(dir)
	return &controlPlane{dir: dir, logs: logs, ca: ca}, err
}

func (p *controlPlane) file(name string) string { return filepath.Join(p.dir, name) }

func (p *controlPlane) log(name string) string { return filepath.Join(p.logs, name+".log") }

// logger writes a log of its own.
func (p *controlPlane) logger(name string) (*slog.Logger, error) {
	log, err := os.Create(p.log(name))
	if err != nil {
		return nil, err
	}
	return slog.New(slog.NewJSONHandler(log, nil)), nil
}

// start runs a program until this process ends: the kernel then ends all processes of the PID namespace.
func (p *controlPlane) start(program string, args ...string) error {
	name := filepath.Base(program)
	log, err := os.Create(p.log(name))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", name, err)
	}
	go func() { p.fail(name, cmd.Wait()) }()
	return nil
}

// fail ends the test binary when a process of the control plane has ended. No test can pass without that process.
func (p *controlPlane) fail(name string, err error) {
	fmt.Fprintf(os.Stderr, "%s has ended (%v); see %s\n", name, err, p.log(name))
	os.Exit(1)
}

// poll repeats a look until it gives no error or ctx ends.
func (p *controlPlane) poll(ctx context.Context, what string, look func() error) error {
	for {
		err := look()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w; see the logs in %s", what, err, p.logs)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// startAPI starts etcd and the API server, with the lab's arguments, and makes the clients of tests.
func (p *controlPlane) startAPI(ctx context.Context) error {
	if err := p.certify(); err != nil {
		return fmt.Errorf("making certificates: %w", err)
	}
	if err := p.start(filepath.Join(*programs, "etcd"), "--data-dir="+p.file("etcd"), "--unsafe-no-fsync",
		"--log-level=warn", "--listen-client-urls="+etcdURL, "--advertise-client-urls="+etcdURL,
		"--listen-peer-urls=http://127.0.0.1:2380"); err != nil {
		return err
	}
	if err := p.start(filepath.Join(*programs, "kube-apiserver"),
		"--bind-address=0.0.0.0", "--advertise-address="+apiAddress, "--secure-port=6443", "--etcd-servers="+etcdURL,
		"--client-ca-file="+p.file("ca.crt"),
		"--tls-cert-file="+p.file("apiserver.crt"), "--tls-private-key-file="+p.file("apiserver.key"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file="+p.file("accounts.key"),
		"--service-account-signing-key-file="+p.file("accounts.key"),
		"--service-cluster-ip-range="+serviceSubnets,
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true"); err != nil {
		return err
	}
	if err := p.connect(); err != nil {
		return err
	}
	return p.poll(ctx, "the API server", func() error {
		_, err := cluster.client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err
	})
}

// certify writes the certificates and keys of the control plane.
func (p *controlPlane) certify() error {
	addresses := []net.IP{net.ParseIP("127.0.0.1"), net.ParseIP(apiAddress)}
	if err := p.ca.issue("apiserver", identity{user: "kube-apiserver", addresses: addresses}); err != nil {
		return err
	}
	if err := p.ca.issue("admin", identity{user: "kubernetes-admin", groups: []string{"system:masters"}}); err != nil {
		return err
	}
	if err := p.ca.issue("controllers", identity{user: "system:kube-controller-manager"}); err != nil {
		return err
	}
	return newKey(p.file("accounts.key"))
}

// connect makes the clients of an administrator.
func (p *controlPlane) connect() (err error) {
	authorities, err := os.ReadFile(p.file("ca.crt"))
	if err != nil {
		return err
	}
	cluster.config = &rest.Config{Host: apiURL, QPS: -1, TLSClientConfig: rest.TLSClientConfig{
		CAData: authorities, CertFile: p.file("admin.crt"), KeyFile: p.file("admin.key"),
	}}
	if cluster.client, err = kubernetes.NewForConfig(cluster.config); err != nil {
		return err
	}
	cluster.dynamic, err = dynamic.NewForConfig(cluster.config)
	return err
}

func (p *controlPlane) startControllers() error {
	config := p.file("controllers.conf")
	who := &api.AuthInfo{ClientCertificate: p.file("controllers.crt"), ClientKey: p.file("controllers.key")}
	if err := p.kubeconfig(config, who); err != nil {
		return err
	}
	return p.start(filepath.Join(*programs, "kube-controller-manager"),
		"--kubeconfig="+config, "--bind-address=127.0.0.1",
		"--service-account-private-key-file="+p.file("accounts.key"), "--root-ca-file="+p.file("ca.crt"),
		"--use-service-account-credentials", "--allocate-node-cidrs=false", "--leader-elect=false",
		"--controllers="+controllers)
}

// kubeconfig writes the configuration of a client.
func (p *controlPlane) kubeconfig(path string, who *api.AuthInfo) error {
	config := api.NewConfig()
	config.Clusters["test"] = &api.Cluster{Server: apiURL, CertificateAuthorityData: cluster.config.CAData}
	config.AuthInfos["test"] = who
	config.Contexts["test"] = &api.Context{Cluster: "test", AuthInfo: "test"}
	config.CurrentContext = "test"
	return clientcmd.WriteToFile(*config, path)
}
