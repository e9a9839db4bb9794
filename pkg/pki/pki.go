// Package pki makes and renews the certificates that the OVN databases are
// served with. It is a package of its own because nothing else in the tree
// creates credentials, and because the account that it runs under is the only
// one that may write Secrets.
//
// In the data flow it stands before everything else: Ensure writes Secrets,
// the kubelet mounts them as files, ovsdb-server reads the files and reads them
// again when they change. Nothing is restarted.
//
// The Northbound and the Southbound database have a certificate authority
// each, and the chassis have a third one: what a node holds opens nothing in the
// Northbound. Members of clusters have one certificate of the Northbound's authority. The keys of the authorities are in Secrets that no pod mounts.
// pkg/chassis asks SignChassis for the certificate of a chassis.
//
// An authority is renewed by adding a new one beside it, and signing with the
// new one only when every peer has had the time to read the longer bundle. The
// authority of the chassis is replaced at once when a chassis is revoked:
// ovsdb-server knows no list of revoked certificates.
package pki

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
)

// The keys of every Secret with a certificate, and the authorities' own.
const (
	certKey = corev1.TLSCertKey
	keyKey  = corev1.TLSPrivateKeyKey
	caKey   = corev1.ServiceAccountRootCAKey
	// revokedKey names the Nodes for whose sake the authority of the chassis was made
	// anew, roleKey the role of the peers in a database.
	revokedKey = "revoked"
	roleKey    = "role"
)

// Config says what to certify. The zero values of durations and Now stand for
// those of Defaults.
type Config struct {
	Namespace string   // of the Secrets
	NBHosts   []string // addresses and names that the Northbound is reached by
	SBHosts   []string // the same for the Southbound
	// Life and AuthorityLife: a third of it before the end, a successor is made.
	Life, AuthorityLife time.Duration
	// ChassisLife is that of the certificate of a chassis.
	ChassisLife time.Duration
	// Settle is how long a new authority is only trusted before it signs: the
	// kubelet's time to bring the bundle to all nodes, and a node's time off.
	Settle time.Duration
	Every  time.Duration // between passes of Run, at most
	Now    func() time.Time
	// Clock asks the API server for its time; nil: Now is trusted.
	Clock func(ctx context.Context) (time.Time, error)
	// Chassis says what is known of the chassis; nil: nothing.
	Chassis func() Chassis
	// Wake asks Run for a pass, after a change of Chassis.
	Wake <-chan struct{}
}

// Chassis is what Secrets depend on beside time.
type Chassis struct {
	// Revoked names the Nodes whose certificates the Southbound has to refuse, sorted.
	Revoked []string
	// Waiting names the Nodes that use the shared client certificate of earlier
	// releases still.
	Waiting []string
}

// Defaults are a year for certificates, a month for those of chassis, and ten years
// for authorities.
func Defaults() Config {
	return Config{
		Namespace: "ovn-kubernetes", Life: 365 * 24 * time.Hour, AuthorityLife: 3650 * 24 * time.Hour,
		ChassisLife: 30 * 24 * time.Hour,
		Settle:      30 * 24 * time.Hour, Every: time.Hour, Now: time.Now,
	}
}

// Validate says what is missing or contradictory.
func (c Config) Validate() error {
	var errs []error
	if c.Namespace == "" {
		errs = append(errs, errors.New("no namespace"))
	}
	if len(c.NBHosts) == 0 || len(c.SBHosts) == 0 {
		errs = append(errs, errors.New("no address of a database"))
	}
	if c.Life <= 0 || c.AuthorityLife < 3*(c.Life+c.Settle) {
		errs = append(errs, fmt.Errorf("authorities of %s cannot serve certificates of %s: three times their life and the settling of %s is the least",
			c.AuthorityLife, c.Life, c.Settle))
	}
	if c.Now == nil || c.Every <= 0 {
		errs = append(errs, errors.New("no clock"))
	}
	return errors.Join(errs...)
}

// leafWant is one Secret with a certificate.
type leafWant struct {
	secret string
	usage  []x509.ExtKeyUsage
	hosts  []string // nil for clients
	// organization is that of the subject; "": none.
	organization string
	// trusted, if not nil, is the bundle for the peers' certificates in place of that
	// of the own authority.
	trusted []byte
	// role is what the database lets its peers do; "": everything.
	role string
}

// Ensure writes each Secret that is missing, damaged, due for renewal or made for other addresses, and returns the names
// of the written Secrets. Several processes may run Ensure at once. The API server accepts one write, and the other
// processes use its result. An authority that cannot be read is an error: a new authority would disconnect all peers.
func Ensure(ctx context.Context, client *api.Client, cfg Config) ([]string, error) {
	return ensureAll(ctx, client, cfg, newExpiry())
}

func ensureAll(ctx context.Context, client *api.Client, cfg Config, expiry *prometheus.GaugeVec) ([]string, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	if err := cfg.checkClock(ctx); err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	p := pass{cfg: cfg, secrets: client.Secrets(cfg.Namespace), maps: client.ConfigMaps(cfg.Namespace), expiry: expiry}
	err := errors.Join(p.northbound(ctx), p.southbound(ctx))
	return p.written, err
}

// newExpiry has the name of the Secret as the label.
func newExpiry() *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "ovn_offload_certificate_expiry_seconds", Help: "When a certificate ends, in seconds since 1970.",
	}, []string{"certificate"})
}

// checkClock refuses a clock that is wrong: certificates of another time shut
// every peer out, and authorities would be taken for ended.
func (c Config) checkClock(ctx context.Context) error {
	if c.Clock == nil {
		return nil
	}
	server, err := c.Clock(ctx)
	if err != nil {
		return fmt.Errorf("asking the API server for the time: %w", err)
	}
	if off := c.Now().Sub(server); off.Abs() > backdate {
		return fmt.Errorf("the clock here is off by %s from the API server's", off.Round(time.Second))
	}
	return nil
}

// Run calls Ensure at once and then every cfg.Every, sooner after an error,
// until ctx ends. Metrics gets the ends of the certificates.
func Run(ctx context.Context, client *api.Client, cfg Config, log *slog.Logger, metrics prometheus.Registerer) error {
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	expiry := newExpiry()
	metrics.MustRegister(expiry)
	const firstPause = time.Second
	for pause := firstPause; ; {
		wait := cfg.Every
		written, err := ensureAll(ctx, client, cfg, expiry)
		if len(written) > 0 {
			log.Info("certificates written", "secrets", written)
		}
		if err != nil {
			log.Error("certificates are not in order", "error", err)
			wait, pause = pause, min(2*pause, time.Minute)
		} else {
			pause = firstPause
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-cfg.Wake:
		case <-time.After(wait):
		}
	}
}

// pass is one run of Ensure.
type pass struct {
	cfg     Config
	secrets api.Resource[corev1.Secret, corev1.SecretList]
	maps    api.Resource[corev1.ConfigMap, corev1.ConfigMapList]
	expiry  *prometheus.GaugeVec
	written []string
}

// membersSecret is the certificate of the members of both databases' clusters, as servers and to each other. Its
// authority is that of the Northbound: no chassis has anything of it, so no chassis reaches a member.
const membersSecret = "ovn-raft"

func (p *pass) northbound(ctx context.Context) error {
	authorities, err := p.ensureAuthority(ctx, "ovn-nb-ca", nil)
	if err != nil {
		return err
	}
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	return errors.Join(
		p.ensureLeaf(ctx, authorities, leafWant{secret: membersSecret, usage: both, hosts: p.cfg.NBHosts}),
		p.ensureLeaf(ctx, authorities, leafWant{secret: "ovn-nb-server", usage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, hosts: p.cfg.NBHosts}),
		p.ensureLeaf(ctx, authorities, leafWant{secret: "ovn-nb-client", usage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}))
}

// ensureAuthority gives the authorities of a Secret, oldest first. Those signed for
// a Node that is among revoked since are replaced.
func (p *pass) ensureAuthority(ctx context.Context, name string, revoked []string) (authorities []authority, err error) {
	err = p.ensureSecret(ctx, name, func(have map[string][]byte) (map[string][]byte, error) {
		list, err := parseAuthorities(have)
		if err != nil {
			return nil, err
		}
		known := strings.Fields(string(have[revokedKey]))
		if slices.ContainsFunc(revoked, func(node string) bool { return !slices.Contains(known, node) }) {
			list = nil
		}
		if authorities, err = renewAuthorities(list, name, p.cfg); err != nil {
			return nil, err
		}
		return formatAuthorities(authorities, revoked)
	})
	if err != nil {
		return nil, fmt.Errorf("authority %s: %w", name, err)
	}
	return authorities, nil
}

func (p *pass) ensureLeaf(ctx context.Context, by []authority, want leafWant) error {
	err := p.ensureSecret(ctx, want.secret, func(have map[string][]byte) (map[string][]byte, error) {
		return renewLeaf(have, want, by, p.cfg)
	})
	if err != nil {
		return fmt.Errorf("certificate %s: %w", want.secret, err)
	}
	return nil
}

// ensureSecret writes the result of next into a Secret. Next gets the present data, nil when the Secret does not exist.
// After a conflict with another writer, next decides again.
func (p *pass) ensureSecret(ctx context.Context, name string, next func(have map[string][]byte) (map[string][]byte, error)) error {
	const attempts = 5
	var lost error
	for range attempts {
		secret, err := p.secrets.Get(ctx, name, metav1.GetOptions{})
		missing := apierrors.IsNotFound(err)
		if missing {
			secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: p.cfg.Namespace}, Type: corev1.SecretTypeTLS}
		} else if err != nil {
			return err
		}
		data, err := next(secret.Data)
		if err != nil {
			return err
		}
		switch {
		case missing:
			secret.Data = data
			_, err = p.secrets.Create(ctx, secret, metav1.CreateOptions{})
		case maps.EqualFunc(secret.Data, data, bytes.Equal):
			p.observe(name, data)
			return nil
		default:
			secret.Data = data
			_, err = p.secrets.Update(ctx, secret, metav1.UpdateOptions{})
		}
		if err == nil {
			p.written = append(p.written, name)
			p.observe(name, data)
			return nil
		}
		if !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err
		}
		lost = err
	}
	return cmp.Or(ctx.Err(), lost)
}

// observe counts the newest certificate of a Secret, which of several authorities is the last.
func (p *pass) observe(name string, data map[string][]byte) {
	blocks := pemBlocks(data[certKey])
	if len(blocks) == 0 {
		return
	}
	if cert, err := x509.ParseCertificate(blocks[len(blocks)-1]); err == nil {
		p.expiry.WithLabelValues(name).Set(float64(cert.NotAfter.Unix()))
	}
}
