package pki

import (
	"context"
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
)

// SouthboundMap is a ConfigMap for the nodes: under ServerKey the authorities of the
// Southbound's certificate, under ChassisKey those of the chassis.
const (
	SouthboundMap = "ovn-southbound"
	ServerKey     = "ca.crt"
	ChassisKey    = "chassis.crt"
)

// RelayOrganization is in the certificate of the relay.
const RelayOrganization = "ovn-offload-relay"

const (
	chassisAuthority = "ovn-chassis-ca"
	// sharedClient is what all nodes had before there was a certificate for each.
	sharedClient = "ovn-sb-client"
	// relaySecret is the certificate of the relay. Like that of a chassis it reads the Southbound. Agents know the relay
	// by RelayOrganization, which no chassis has.
	relaySecret = "ovn-relay"
	// chassisRole is OVN's, in the Southbound's RBAC_Role.
	chassisRole = "ovn-controller"
)

// southbound makes what the Southbound is served with. While a Node waits for the
// certificate of its chassis, the shared one is accepted, and no role narrows it: its
// name is that of no chassis, so that the role would let it do nothing.
func (p *pass) southbound(ctx context.Context) error {
	var known Chassis
	if p.cfg.Chassis != nil {
		known = p.cfg.Chassis()
	}
	chassis, err := p.ensureAuthority(ctx, chassisAuthority, known.Revoked)
	if err != nil {
		return err
	}
	own, err := p.ensureAuthority(ctx, "ovn-sb-ca", nil)
	if err != nil {
		return err
	}
	shared, err := p.shared(ctx, known.Waiting)
	if err != nil {
		return err
	}
	server := leafWant{
		secret: "ovn-sb-server", usage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, hosts: p.cfg.SBHosts,
		trusted: bundle(chassis), role: chassisRole,
	}
	if shared {
		server.trusted, server.role = append(server.trusted, bundle(own)...), ""
		err = p.ensureLeaf(ctx, own, leafWant{secret: sharedClient, usage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	}
	relay := leafWant{
		secret: relaySecret, organization: RelayOrganization, usage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, trusted: bundle(own),
	}
	return errors.Join(err, p.ensureLeaf(ctx, own, server), p.ensureLeaf(ctx, chassis, relay),
		p.ensureMap(ctx, SouthboundMap, map[string]string{ServerKey: string(bundle(own)), ChassisKey: string(bundle(chassis))}))
}

// shared says whether the shared certificate is in use, and deletes it when no Node
// waits. A new cluster never has one.
func (p *pass) shared(ctx context.Context, waiting []string) (bool, error) {
	_, err := p.secrets.Get(ctx, sharedClient, metav1.GetOptions{})
	if err == nil && len(waiting) > 0 {
		return true, nil
	}
	if err == nil {
		err = p.secrets.Delete(ctx, sharedClient, metav1.DeleteOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("the shared client certificate: %w", err)
	}
	return false, nil
}

func (p *pass) ensureMap(ctx context.Context, name string, data map[string]string) error {
	have, err := p.maps.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		have = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: p.cfg.Namespace}, Data: data}
		_, err = p.maps.Create(ctx, have, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // another process creates it with the same data, or the next pass decides
			if other, err := p.maps.Get(ctx, name, metav1.GetOptions{}); err == nil && maps.Equal(other.Data, data) {
				return nil
			}
		}
	case err == nil && maps.Equal(have.Data, data):
		return nil
	case err == nil:
		have.Data = data
		_, err = p.maps.Update(ctx, have, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("ConfigMap %s: %w", name, err)
	}
	p.written = append(p.written, name)
	return nil
}

// SignChassis gives the certificate, in PEM, of the chassis with a system-id for the
// holder of a key. The caller has made sure that the holder is that chassis.
func SignChassis(ctx context.Context, client *api.Client, cfg Config, systemID string, holder crypto.PublicKey) ([]byte, error) {
	if err := cfg.checkClock(ctx); err != nil {
		return nil, err
	}
	secret, err := client.Secrets(cfg.Namespace).Get(ctx, chassisAuthority, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("authority %s: %w", chassisAuthority, err)
	}
	list, err := parseAuthorities(secret.Data)
	if err != nil || len(list) == 0 {
		return nil, fmt.Errorf("authority %s: %w", chassisAuthority, errors.Join(err, errors.New("not made yet")))
	}
	by, now := signer(list, cfg), cfg.Now()
	cert, err := sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: systemID},
		NotBefore:   now.Add(-backdate),
		NotAfter:    earlier(now.Add(cfg.ChassisLife), by.cert.NotAfter),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, holder, by)
	if err != nil {
		return nil, fmt.Errorf("signing for chassis %s: %w", systemID, err)
	}
	return encode(pemCertificate, cert.Raw), nil
}
