package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// process is one that is stopped at the end.
type process struct{ *exec.Cmd }

// start runs a program, whose output is in a file of its name.
func start(dir, program string, args ...string) (process, error) {
	log, err := os.Create(filepath.Join(dir, filepath.Base(program)+".log"))
	if err != nil {
		return process{}, err
	}
	defer log.Close()
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, dir
	return process{cmd}, cmd.Start()
}

func (p process) stop() {
	p.Process.Kill()
	p.Wait()
}

// control is an API server with its etcd.
type control struct {
	etcd, server process
	config       *rest.Config
	kubeconfig   string
}

// adminToken is that of an account that may do everything.
const adminToken = "admin"

func startControl(ctx context.Context, programs, dir string) (*control, error) {
	etcdURL, peerURL, port := "http://"+freeAddress(), "http://"+freeAddress(), ""
	_, port, _ = net.SplitHostPort(freeAddress())
	key, err := writeFiles(dir, port)
	if err != nil {
		return nil, err
	}
	c := &control{kubeconfig: filepath.Join(dir, "kubeconfig")}
	c.config = &rest.Config{Host: "https://127.0.0.1:" + port, BearerToken: adminToken, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: -1}
	c.etcd, err = start(dir, filepath.Join(programs, "etcd"), "--data-dir="+filepath.Join(dir, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls="+etcdURL, "--advertise-client-urls="+etcdURL, "--listen-peer-urls="+peerURL,
		"--initial-advertise-peer-urls="+peerURL, "--initial-cluster=default="+peerURL)
	if err != nil {
		return nil, err
	}
	c.server, err = start(dir, filepath.Join(programs, "kube-apiserver"), "--etcd-servers="+etcdURL, "--cert-dir="+dir,
		"--bind-address=127.0.0.1", "--endpoint-reconciler-type=none", "--secure-port="+port, "--authorization-mode=RBAC",
		"--token-auth-file="+filepath.Join(dir, "tokens"), "--service-cluster-ip-range=10.96.0.0/16",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+key, "--service-account-signing-key-file="+key,
		"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition")
	if err != nil {
		c.etcd.stop()
		return nil, err
	}
	if err := c.ready(ctx); err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

func (c *control) stop() {
	c.server.stop()
	c.etcd.stop()
}

func (c *control) ready(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return err
	}
	return eventually(ctx, "the API server is ready", func() error {
		_, err := client.RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err
	})
}

// eventually waits up to two minutes.
func eventually(ctx context.Context, what string, try func() error) error {
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		err := try()
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Now().After(end) {
			return fmt.Errorf("waiting until %s: %w", what, err)
		}
	}
}

// writeFiles makes the key for tokens of accounts, the administrator's token and the kubeconfig.
func writeFiles(dir, port string) (key string, err error) {
	key = filepath.Join(dir, "sa.key")
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	der, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return "", err
	}
	for path, text := range map[string]string{
		key:                          string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})),
		filepath.Join(dir, "tokens"): adminToken + `,admin,admin,"system:masters"` + "\n",
		filepath.Join(dir, "kubeconfig"): fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "https://127.0.0.1:%s", insecure-skip-tls-verify: true}}]
users: [{name: c, user: {token: %s}}]
contexts: [{name: c, context: {cluster: c, user: c}}]
`, port, adminToken),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	return key, nil
}

// freeAddress is one without a listener.
func freeAddress() string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
