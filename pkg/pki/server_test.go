package pki

import (
	"bytes"
	"crypto/tls"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/ovsdbtest"
)

const testSchema = `{"name": "Test", "version": "1.0.0", "tables": {"T": {"columns": {"name": {"type": "string"}}}}}`

// writeCerts lays data out as the kubelet does: all files change at once.
func writeCerts(t *testing.T, dir string, data map[string][]byte) {
	t.Helper()
	version, err := os.MkdirTemp(dir, "..")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range data {
		if err := os.WriteFile(filepath.Join(version, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
		os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)) // there from the second time on
	}
	next := filepath.Join(dir, "..data_tmp")
	if err := os.Symlink(filepath.Base(version), next); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
}

// startServer runs a real ovsdb-server over TLS and gives its address.
func startServer(t *testing.T, certs string) string {
	t.Helper()
	ovsdbtest.Need(t, "ovsdb-server", "ovsdb-tool")
	dir := t.TempDir()
	db, schema := filepath.Join(dir, "db"), filepath.Join(dir, "schema")
	if err := os.WriteFile(schema, []byte(testSchema), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("ovsdb-tool", "create", db, schema).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	address := ovsdbtest.FreeAddress(t)
	host, port, _ := net.SplitHostPort(address)
	cmd := exec.Command("ovsdb-server", db, "--remote=pssl:"+port+":"+host, "--unixctl="+filepath.Join(dir, "ctl"), "--no-chdir",
		"--private-key="+certs+"/tls.key", "--certificate="+certs+"/tls.crt", "--ca-cert="+certs+"/ca.crt", "-vsyslog:off", "-vfile:off")
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return address
}

// ask opens a connection and has its echo answered; it gives the server's serial number.
func ask(address string, config *tls.Config) (string, *tls.Conn, error) {
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", address, config)
	if err != nil {
		return "", nil, err
	}
	if err := echo(conn); err != nil {
		conn.Close()
		return "", nil, err
	}
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String(), conn, nil
}

func echo(conn *tls.Conn) error {
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := conn.Write([]byte(`{"method": "echo", "params": [], "id": 1}`)); err != nil {
		return err
	}
	_, err := conn.Read(make([]byte, 100))
	return err
}

// What the database containers rely on: ovsdb-server refuses who has no
// certificate of its authority, and serves a renewed one without a restart and
// without cutting connections.
func TestOVSDBServer_ReadsRenewedCertificates(t *testing.T) {
	now := time.Now()
	client, cfg := fake.NewClientset(), testConfig(&now)
	secrets := ensure(t, client, cfg)
	certs := t.TempDir()
	writeCerts(t, certs, secrets["ovn-nb-server"])
	address := startServer(t, certs)
	config := func(name string) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{pair(t, secrets[name])}, RootCAs: pool(secrets["ovn-nb-client"]), ServerName: "127.0.0.1"}
	}
	var serial string
	var conn *tls.Conn
	eventually(t, "a first answer", func() (err error) {
		serial, conn, err = ask(address, config("ovn-nb-client"))
		return err
	})
	defer conn.Close()
	if _, c, err := ask(address, config("ovn-sb-server")); err == nil {
		c.Close()
		t.Error("a client of the other authority was let in")
	}
	if _, c, err := ask(address, &tls.Config{InsecureSkipVerify: true}); err == nil {
		c.Close()
		t.Error("a client without a certificate was let in")
	}

	cfg.NBHosts = append(cfg.NBHosts, "another.example") // makes a new certificate that is valid today
	secrets = ensure(t, client, cfg)
	writeCerts(t, certs, secrets["ovn-nb-server"])
	eventually(t, "the new certificate", func() error {
		got, c, err := ask(address, config("ovn-nb-client"))
		if err != nil {
			return err
		}
		c.Close()
		if got == serial {
			return os.ErrExist
		}
		return nil
	})
	if err := echo(conn); err != nil {
		t.Errorf("the connection from before: %v", err)
	}
}

func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
