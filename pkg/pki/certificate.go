package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"strings"
	"time"
)

// backdate covers clocks of nodes that are behind.
const backdate = time.Hour

const (
	pemCertificate = "CERTIFICATE"
	pemKey         = "PRIVATE KEY"
)

// authority is one signing key. A database's list of them is oldest first, and
// has two entries while one takes over from the other.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// parseAuthorities reads a Secret that formatAuthorities wrote: certificates
// under tls.crt and keys under tls.key, in the same order.
func parseAuthorities(data map[string][]byte) ([]authority, error) {
	certs, keys := pemBlocks(data[certKey]), pemBlocks(data[keyKey])
	if len(certs) != len(keys) || len(data) > 0 && len(certs) == 0 {
		return nil, fmt.Errorf("%d certificates and %d keys", len(certs), len(keys))
	}
	var list []authority
	for i := range certs {
		cert, err := x509.ParseCertificate(certs[i])
		if err != nil {
			return nil, err
		}
		parsed, err := x509.ParsePKCS8PrivateKey(keys[i])
		if err != nil {
			return nil, err
		}
		key, ok := parsed.(*ecdsa.PrivateKey)
		if !ok || !key.PublicKey.Equal(cert.PublicKey) {
			return nil, errors.New("a key does not belong to its certificate")
		}
		list = append(list, authority{cert, key})
	}
	return list, nil
}

func formatAuthorities(list []authority, revoked []string) (map[string][]byte, error) {
	var keys []byte
	for _, a := range list {
		der, err := x509.MarshalPKCS8PrivateKey(a.key)
		if err != nil {
			return nil, err
		}
		keys = append(keys, encode(pemKey, der)...)
	}
	data := map[string][]byte{certKey: bundle(list), keyKey: keys}
	if len(revoked) > 0 {
		data[revokedKey] = []byte(strings.Join(revoked, " "))
	}
	return data, nil
}

// renewAuthorities drops those that are not valid and have a successor that signs,
// and adds one where the newest is in the last third of its life. A clock that was
// wrong for a pass drops nothing: no successor has signed by then.
func renewAuthorities(list []authority, name string, cfg Config) ([]authority, error) {
	now := cfg.Now()
	successor := slices.ContainsFunc(list, func(a authority) bool { return a.valid(now) && a.settled(cfg) })
	list = slices.DeleteFunc(list, func(a authority) bool { return successor && !a.valid(now) })
	if len(list) > 0 && !due(list[len(list)-1].cert, now) {
		return list, nil
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: fmt.Sprintf("%s %s", name, now.UTC().Format(time.RFC3339))},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(cfg.AuthorityLife),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	cert, err := sign(template, key.Public(), authority{template, key})
	if err != nil {
		return nil, err
	}
	return append(list, authority{cert, key}), nil
}

func (a authority) valid(now time.Time) bool {
	return !now.Before(a.cert.NotBefore) && now.Before(a.cert.NotAfter)
}

// settled: every peer has had the time to read the bundle that has it.
func (a authority) settled(cfg Config) bool {
	return cfg.Now().Sub(a.cert.NotBefore) >= cfg.Settle+backdate
}

// signer is the newest authority that every peer trusts by now, else the oldest valid one.
func signer(list []authority, cfg Config) authority {
	valid := slices.DeleteFunc(slices.Clone(list), func(a authority) bool { return !a.valid(cfg.Now()) })
	for _, a := range slices.Backward(valid) {
		if a.settled(cfg) {
			return a
		}
	}
	return append(valid, list...)[0]
}

// renewLeaf gives the data of want's Secret: have as it is while it is good.
func renewLeaf(have map[string][]byte, want leafWant, list []authority, cfg Config) (map[string][]byte, error) {
	by := signer(list, cfg)
	next := map[string][]byte{certKey: have[certKey], keyKey: have[keyKey], caKey: want.trusted}
	if want.trusted == nil {
		next[caKey] = bundle(list)
	}
	if want.role != "" {
		next[roleKey] = []byte(want.role)
	}
	if leafGood(have, want, by, cfg.Now()) {
		return next, nil
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: want.secret},
		NotBefore:   cfg.Now().Add(-backdate),
		NotAfter:    earlier(cfg.Now().Add(cfg.Life), by.cert.NotAfter),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: want.usage,
	}
	if want.organization != "" {
		template.Subject.Organization = []string{want.organization}
	}
	for _, host := range want.hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	cert, err := sign(template, key.Public(), by)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	next[certKey], next[keyKey] = encode(pemCertificate, cert.Raw), encode(pemKey, der)
	return next, nil
}

// leafGood: a certificate with its key, by this signer, for this use and these
// hosts, and not due.
func leafGood(data map[string][]byte, want leafWant, by authority, now time.Time) bool {
	pair, err := tls.X509KeyPair(data[certKey], data[keyKey])
	if err != nil || due(pair.Leaf, now) || pair.Leaf.CheckSignatureFrom(by.cert) != nil {
		return false
	}
	if !slices.Equal(pair.Leaf.ExtKeyUsage, want.usage) {
		return false
	}
	return !slices.ContainsFunc(want.hosts, func(host string) bool { return pair.Leaf.VerifyHostname(host) != nil })
}

func due(cert *x509.Certificate, now time.Time) bool {
	life := cert.NotAfter.Sub(cert.NotBefore)
	return !now.Before(cert.NotAfter.Add(-life/3)) || now.Before(cert.NotBefore)
}

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// sign completes template for the holder of a key.
func sign(template *x509.Certificate, holder crypto.PublicKey, by authority) (cert *x509.Certificate, err error) {
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, holder, by.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func bundle(list []authority) []byte {
	var out []byte
	for _, a := range list {
		out = append(out, encode(pemCertificate, a.cert.Raw)...)
	}
	return out
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func pemBlocks(data []byte) [][]byte {
	var blocks [][]byte
	for {
		var block *pem.Block
		if block, data = pem.Decode(bytes.TrimSpace(data)); block == nil {
			return blocks
		}
		blocks = append(blocks, block.Bytes)
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
