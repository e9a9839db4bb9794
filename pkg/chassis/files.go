package chassis

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/durable"
)

// The files that ovn-controller reads.
const (
	keyFile  = "tls.key"
	certFile = "tls.crt"
	caFile   = "ca.crt"
)

// current is a link to the directory of the present version. Key and certificate
// have to change at once: who reads one of each would be left with both.
const current = "..data"

func readFiles(dir string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, name := range []string{keyFile, certFile, caFile} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err == nil {
			files[name] = content
		}
	}
	return files, nil
}

// writeFiles replaces all files at once, for root only.
func writeFiles(dir string, files map[string][]byte) error {
	have, err := readFiles(dir)
	if err == nil && maps.EqualFunc(have, files, bytes.Equal) {
		return nil
	}
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.Chmod(dir, 0o700)); err != nil {
		return err
	}
	version, err := os.MkdirTemp(dir, "..version-")
	if err != nil {
		return err
	}
	for name, content := range files {
		if err := durable.WriteFile(filepath.Join(version, name), content, 0o600); err != nil {
			return err
		}
		if err := relink(filepath.Join(current, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	if err := relink(filepath.Base(version), filepath.Join(dir, current)); err != nil {
		return err
	}
	return removeOthers(dir, filepath.Base(version))
}

// relink points a link somewhere else without a moment in which it is missing.
func relink(target, link string) error {
	if have, err := os.Readlink(link); err == nil && have == target {
		return nil
	}
	next := link + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(target, next); err != nil {
		return err
	}
	return os.Rename(next, link)
}

func removeOthers(dir, version string) error {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "..version-") && entry.Name() != version {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, entry.Name())))
		}
	}
	return err
}

// renewal says when a new certificate is needed in place of that among files, now at
// the latest when it is of another chassis or of no authority of the bundle.
func renewal(files map[string][]byte, systemID string, authorities []byte, now time.Time) (time.Time, error) {
	if files[certFile] == nil {
		return now, errors.New("there is none yet")
	}
	pair, err := tls.X509KeyPair(files[certFile], files[keyFile])
	if err != nil {
		return now, err
	}
	cert := pair.Leaf
	if cert.Subject.CommonName != systemID {
		return now, fmt.Errorf("the certificate is of chassis %s, and this is %s", cert.Subject.CommonName, systemID)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authorities)
	usages := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: usages}); err != nil {
		return now, err
	}
	return cert.NotAfter.Add(-cert.NotAfter.Sub(cert.NotBefore) / 3), nil
}

// isCertificates: PEM with one certificate at least.
func isCertificates(text []byte) bool {
	block, _ := pem.Decode(text)
	return block != nil && block.Type == "CERTIFICATE"
}
