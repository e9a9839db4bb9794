// Package pki makes and renews the certificates that the OVN databases are
// served with. It is a package of its own because nothing else in the tree
// creates credentials, and because the account that it runs under (the only
// one that may write Secrets) has no other rights.
//
// In the data flow it stands before everything else: Ensure writes Secrets,
// the kubelet mounts them as files, ovsdb-server and ovn-controller read the
// files and read them again when they change. Nothing is restarted.
//
// The Northbound and the Southbound database have a certificate authority
// each. So what a node holds (the Southbound's client certificate) opens
// nothing in the Northbound, and the keys of the authorities are in Secrets
// that no pod mounts.
//
// An authority is renewed by adding a new one beside it, and signing with the
// new one only when every peer has had the time to read the longer bundle.
package pki

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"time"

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
)

// Config says what to certify. The zero values of durations and Now stand for
// those of Defaults.
type Config struct {
	Namespace string   // of the Secrets
	NBHosts   []string // addresses and names that the Northbound is reached by
	SBHosts   []string // the same for the Southbound
	// Life and AuthorityLife: a third of it before the end, a successor is made.
	Life, AuthorityLife time.Duration
	// Settle is how long a new authority is only trusted before it signs: the
	// kubelet's time to bring the bundle to all nodes, and a node's time off.
	Settle time.Duration
	Every  time.Duration // between passes of Run, at most
	Now    func() time.Time
}

// Defaults are a year for certificates and ten for authorities.
func Defaults() Config {
	return Config{
		Namespace: "ovn-kubernetes", Life: 365 * 24 * time.Hour, AuthorityLife: 3650 * 24 * time.Hour,
		Settle: 30 * 24 * time.Hour, Every: time.Hour, Now: time.Now,
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
	usage  x509.ExtKeyUsage
	hosts  []string // nil for clients
}

// databases is what there is: an authority by its Secret, and what it signs.
func (c Config) databases() map[string][]leafWant {
	return map[string][]leafWant{
		"ovn-nb-ca": {
			{secret: "ovn-nb-server", usage: x509.ExtKeyUsageServerAuth, hosts: c.NBHosts},
			{secret: "ovn-nb-client", usage: x509.ExtKeyUsageClientAuth},
		},
		"ovn-sb-ca": {
			{secret: "ovn-sb-server", usage: x509.ExtKeyUsageServerAuth, hosts: c.SBHosts},
			{secret: "ovn-sb-client", usage: x509.ExtKeyUsageClientAuth},
		},
	}
}

// Ensure makes the Secrets right once: those missing, damaged, due for renewal
// or made for other addresses. It may run in several processes at once; the
// API server decides who wins, and the others take over the winner's result.
// An authority that cannot be read is an error and never replaced: that would
// cut off everybody. It gives the names of the Secrets that it wrote.
func Ensure(ctx context.Context, client *api.Client, cfg Config) ([]string, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	p := pass{cfg: cfg, secrets: client.Secrets(cfg.Namespace)}
	var errs []error
	for authority, leaves := range cfg.databases() {
		errs = append(errs, p.ensureDatabase(ctx, authority, leaves))
	}
	return p.written, errors.Join(errs...)
}

// Run calls Ensure at once and then every cfg.Every, sooner after an error,
// until ctx ends.
func Run(ctx context.Context, client *api.Client, cfg Config, log *slog.Logger) error {
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	const firstPause = time.Second
	for pause := firstPause; ; {
		wait := cfg.Every
		written, err := Ensure(ctx, client, cfg)
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
		case <-time.After(wait):
		}
	}
}

// pass is one run of Ensure.
type pass struct {
	cfg     Config
	secrets api.Resource[corev1.Secret, corev1.SecretList]
	written []string
}

func (p *pass) ensureDatabase(ctx context.Context, name string, leaves []leafWant) error {
	var authorities []authority
	err := p.ensureSecret(ctx, name, func(have map[string][]byte) (map[string][]byte, error) {
		list, err := parseAuthorities(have)
		if err != nil {
			return nil, err
		}
		if authorities, err = renewAuthorities(list, name, p.cfg); err != nil {
			return nil, err
		}
		return formatAuthorities(authorities)
	})
	if err != nil {
		return fmt.Errorf("authority %s: %w", name, err)
	}
	var errs []error
	for _, want := range leaves {
		err := p.ensureSecret(ctx, want.secret, func(have map[string][]byte) (map[string][]byte, error) {
			return renewLeaf(have, want, authorities, p.cfg)
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("certificate %s: %w", want.secret, err))
		}
	}
	return errors.Join(errs...)
}

// ensureSecret brings a Secret to what next makes of its present data, nil when
// it does not exist. When somebody else wrote in between, next decides again.
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
		case sameData(secret.Data, data):
			return nil
		default:
			secret.Data = data
			_, err = p.secrets.Update(ctx, secret, metav1.UpdateOptions{})
		}
		if err == nil {
			p.written = append(p.written, name)
			return nil
		}
		if !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err
		}
		lost = err
	}
	return cmp.Or(ctx.Err(), lost)
}

func sameData(a, b map[string][]byte) bool {
	for _, key := range []string{certKey, keyKey, caKey} {
		if string(a[key]) != string(b[key]) {
			return false
		}
	}
	return len(a) == len(b)
}
