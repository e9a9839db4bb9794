//go:build apiserver

package apiserver

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// authority signs the certificates of clients and servers, into its directory.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  crypto.Signer
}

// identity is what a certificate says.
type identity struct {
	user      string
	groups    []string
	addresses []net.IP
}

// newAuthority writes ca.crt into a directory.
func newAuthority(dir string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	root, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "test/apiserver"}, key)
	if err != nil {
		return nil, err
	}
	a := &authority{dir: dir, cert: root, key: key}
	return a, a.write("ca", root)
}

func (a *authority) write(name string, c *x509.Certificate) error {
	text, err := cert.EncodeCertificates(c)
	if err != nil {
		return err
	}
	return cert.WriteCert(filepath.Join(a.dir, name+".crt"), text)
}

// issue writes a certificate, and its key beside it.
func (a *authority) issue(name string, of identity) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: of.user, Organization: of.groups},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		IPAddresses: of.addresses,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return err
	}
	signed, err := x509.ParseCertificate(der)
	if err != nil {
		return err
	}
	return errors.Join(a.write(name, signed), writeKey(filepath.Join(a.dir, name+".key"), key))
}

// newKey writes a new key.
func newKey(path string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	return writeKey(path, key)
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	text, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return err
	}
	return keyutil.WriteKey(path, text)
}
