package cluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

const validity = 365 * 24 * time.Hour

// authority is the lab's certificate authority, of clients and servers alike.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte
}

// identity is what a certificate says.
type identity struct {
	user   string
	groups []string
	names  []string
	addrs  []netip.Addr
}

// openAuthority reads the authority in dir, or makes it.
func openAuthority(dir string) (*authority, error) {
	certFile, keyFile := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")
	if _, err := os.Stat(certFile); errors.Is(err, os.ErrNotExist) {
		if err := newAuthority(certFile, keyFile); err != nil {
			return nil, fmt.Errorf("making the certificate authority: %w", err)
		}
	}
	raw, err := os.ReadFile(certFile)
	if err != nil {
		return nil, err
	}
	key, err := readKey(keyFile)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, fmt.Errorf("reading %s: no certificate in it", certFile)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", certFile, err)
	}
	return &authority{cert: cert, key: key, pem: raw}, nil
}

func newAuthority(certFile, keyFile string) error {
	if err := os.MkdirAll(filepath.Dir(certFile), 0o700); err != nil {
		return err
	}
	key, err := newKey(keyFile)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ovn-offload lab"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(validity),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	return writePEM(certFile, "CERTIFICATE", der)
}

// issue writes base.crt and base.key; those that are there already stay.
func (a *authority) issue(base string, id identity) error {
	if _, err := os.Stat(base + ".crt"); err == nil {
		return nil
	}
	key, err := newKey(base + ".key")
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}
	var ips []net.IP
	for _, addr := range id.addrs {
		ips = append(ips, addr.AsSlice())
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: id.user, Organization: id.groups},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(validity),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		DNSNames:    id.names, IPAddresses: ips,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return fmt.Errorf("signing the certificate of %s: %w", id.user, err)
	}
	return writePEM(base+".crt", "CERTIFICATE", der)
}

// kubeconfig writes a client configuration with a certificate of its own inside.
func (a *authority) kubeconfig(path, server string, id identity) error {
	base := path + ".client"
	if err := a.issue(base, id); err != nil {
		return err
	}
	cert, err := os.ReadFile(base + ".crt")
	if err != nil {
		return err
	}
	key, err := os.ReadFile(base + ".key")
	if err != nil {
		return err
	}
	config := api.NewConfig()
	config.Clusters["lab"] = &api.Cluster{Server: server, CertificateAuthorityData: a.pem}
	config.AuthInfos[id.user] = &api.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
	config.Contexts["lab"] = &api.Context{Cluster: "lab", AuthInfo: id.user}
	config.CurrentContext = "lab"
	return clientcmd.WriteToFile(*config, path)
}

func newKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writePEM(path, "PRIVATE KEY", der)
}

func readKey(path string) (crypto.Signer, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, fmt.Errorf("reading %s: no key in it", path)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("reading %s: %T cannot sign", path, key)
	}
	return signer, nil
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// serviceAccountKeys writes the pair with which tokens are signed and checked.
func serviceAccountKeys(base string) error {
	if _, err := os.Stat(base + ".pub"); err == nil {
		return nil
	}
	key, err := newKey(base + ".key")
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	return writePEM(base+".pub", "PUBLIC KEY", der)
}
