//go:build apiserver

package apiserver

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"

	"github.com/ovn-offload/ovn-offload/pkg/chassis"
	"github.com/ovn-offload/ovn-offload/pkg/controller"
	"github.com/ovn-offload/ovn-offload/pkg/ipam"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/kube/leader"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/pki"
)

// product is what runs of ovn-offload: the controller and the signer, as cmd/controller wires them.
type product struct {
	plane      *controlPlane
	northbound string
	logger     *slog.Logger

	mu   sync.Mutex
	stop func() // ends the controller, and returns when it has ended
}

// newProduct starts the database, the controller and the signer, and waits until the controller leads.
func newProduct(ctx context.Context, plane *controlPlane) (*product, error) {
	p := &product{plane: plane, northbound: "unix:" + plane.file("nb.sock")}
	var err error
	if p.logger, err = plane.logger("controller"); err != nil {
		return nil, err
	}
	klog.SetSlogLogger(p.logger)
	if err := p.startNorthbound(ctx); err != nil {
		return nil, fmt.Errorf("starting the Northbound database: %w", err)
	}
	if err := p.startSigner(ctx); err != nil {
		return nil, fmt.Errorf("starting the signer: %w; see %s", err, plane.log("signer"))
	}
	if err := p.startController(ctx); err != nil {
		return nil, fmt.Errorf("starting the controller: %w; see %s", err, plane.log("controller"))
	}
	return p, nil
}

func (p *product) startNorthbound(ctx context.Context) error {
	file, schema := p.plane.file("nb.db"), p.plane.file("nb.ovsschema")
	if err := os.WriteFile(schema, nb.Definition, 0o600); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "ovsdb-tool", "create", file, schema).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	control := "--unixctl=" + p.plane.file("nb.ctl")
	if err := p.plane.start("ovsdb-server", "--remote=p"+p.northbound, control, "--no-chdir", file); err != nil {
		return err
	}
	return p.plane.poll(ctx, "the Northbound database", func() error {
		_, err := p.nbctl(ctx, "init")
		return err
	})
}

// nbctl runs ovn-nbctl.
func (p *product) nbctl(ctx context.Context, args ...string) (string, error) {
	command := append([]string{"--db=" + p.northbound, "--timeout=20"}, args...)
	out, err := exec.CommandContext(ctx, "ovn-nbctl", command...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("ovn-nbctl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// server is how a process of the product reaches the API server: with a token of its account.
func (p *product) server(ctx context.Context, account string) (api.Config, error) {
	accounts := cluster.client.CoreV1().ServiceAccounts(system)
	granted, err := accounts.CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return api.Config{}, fmt.Errorf("asking for a token of %s: %w", account, err)
	}
	path := p.plane.file(account + ".conf")
	who := &clientcmdapi.AuthInfo{Token: granted.Status.Token}
	return api.Config{Kubeconfig: path, UserAgent: account}, p.plane.kubeconfig(path, who)
}

// startSigner runs what `ovn-offload-controller certs` runs.
func (p *product) startSigner(ctx context.Context) error {
	server, err := p.server(ctx, "ovnkube-identity")
	if err != nil {
		return err
	}
	client, err := api.New(server)
	if err != nil {
		return err
	}
	log, err := p.plane.logger("signer")
	if err != nil {
		return err
	}
	cfg := pki.Defaults()
	cfg.NBHosts, cfg.SBHosts, cfg.Clock = []string{apiAddress}, []string{apiAddress}, client.Time
	signer := chassis.NewSigner(client, cfg, log)
	running := context.WithoutCancel(ctx)
	if err := signer.Start(running); err != nil {
		return err
	}
	cfg.Chassis, cfg.Wake = signer.Chassis, signer.Wake()
	group, running := errgroup.WithContext(running)
	group.Go(func() error { return signer.Run(running) })
	group.Go(func() error { return pki.Run(running, client, cfg, log, prometheus.NewRegistry()) })
	go func() { p.plane.fail("signer", group.Wait()) }()
	return nil
}

// startController runs what `ovn-offload-controller` runs, and waits until it leads.
func (p *product) startController(ctx context.Context) error {
	server, err := p.server(ctx, "ovnkube-master")
	if err != nil {
		return err
	}
	client, err := api.New(server)
	if err != nil {
		return err
	}
	objects, err := api.NewDynamic(server)
	if err != nil {
		return err
	}
	leases, err := leader.NewLeases(server)
	if err != nil {
		return err
	}
	plan := ipam.Defaults()
	if plan.Cluster, err = ipam.ParseClusterSubnets(podSubnets); err != nil {
		return err
	}
	if plan.Services, err = ipam.ParsePrefixes(serviceSubnets); err != nil {
		return err
	}
	lead := leader.Defaults()
	lead.Identity = fmt.Sprint("test-", time.Now().UnixNano())
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c, err := controller.New(running, controller.Config{
		Plan: plan, Zones: []controller.ZoneConfig{{Northbound: []string{p.northbound}}},
		Dynamic: objects, Networks: true, Native: true,
		Leader: lead, Leases: leases, Logger: p.logger, Registerer: prometheus.NewRegistry(),
	}, client)
	if err != nil {
		cancel()
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := c.Run(running); running.Err() == nil {
			p.plane.fail("controller", err)
		}
	}()
	p.stop = func() { cancel(); <-ended }
	return p.plane.poll(ctx, "a controller that leads", func() error { return leads(ctx, leases, lead) })
}

// leads is an error until the lease has the holder of a configuration.
func leads(ctx context.Context, leases coordination.LeasesGetter, of leader.Config) error {
	lease, err := leases.Leases(of.Namespace).Get(ctx, of.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if holder := lease.Spec.HolderIdentity; holder == nil || *holder != of.Identity {
		return fmt.Errorf("the lease is of another process than %s", of.Identity)
	}
	return nil
}

// restartController ends the controller, whose successor reads everything from the API and the database.
func restartController(t *testing.T) {
	t.Helper()
	p := cluster.product
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	if err := p.startController(ctx); err != nil {
		t.Fatal(err)
	}
}

// nbctl runs ovn-nbctl.
func nbctl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := cluster.product.nbctl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
