package relay

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// Directory finds the agents by the NodeOffloads. On a host with a DPU this is the agent of the DPU, in whatever cluster it
// is: it knows the relay by its certificate, and the relay knows it by the fingerprint.
type Directory struct {
	// Objects are those of the API server.
	Objects func() *snapshot.Snapshot
	// Certificate is the relay's own. It is read again for each connection: it is renewed while the relay runs.
	Certificate func() (*tls.Certificate, error)

	mu    sync.Mutex
	known map[endpoint]flowapi.Client
}

// endpoint is NodeOffload.status.agent, or what the controllers' Lease has.
type endpoint struct{ address, fingerprint string }

// Agents are those that serve flows. Clients are kept: their connections are used again.
func (d *Directory) Agents() map[string]flowapi.Source {
	d.mu.Lock()
	defer d.mu.Unlock()
	out, known := map[string]flowapi.Source{}, map[endpoint]flowapi.Client{}
	for _, object := range d.Objects().Shared(snapshot.NodeOffloads) {
		at, ok := endpointOf(object.Fields())
		if !ok {
			continue
		}
		client, ok := d.known[at]
		if !ok {
			client = d.client(at)
		}
		name, _, _ := unstructured.NestedString(object.Fields(), "metadata", "name")
		known[at], out[name] = client, client
	}
	for at, client := range d.known {
		if _, ok := known[at]; !ok {
			client.HTTP.CloseIdleConnections()
		}
	}
	d.known = known
	return out
}

func endpointOf(object map[string]any) (endpoint, bool) {
	address, _, _ := unstructured.NestedString(object, "status", "agent", "address")
	fingerprint, _, _ := unstructured.NestedString(object, "status", "agent", "fingerprint")
	return endpoint{address, fingerprint}, address != "" && fingerprint != ""
}

func (d *Directory) client(at endpoint) flowapi.Client {
	return flowapi.Client{URL: "https://" + at.address, HTTP: &http.Client{Transport: at.transport(d.Certificate)}}
}

// transport compares the fingerprint of the server's certificate. It shows a certificate of its own, if there is one.
func (e endpoint) transport(certificate func() (*tls.Certificate, error)) *http.Transport {
	config := &tls.Config{
		MinVersion: tls.VersionTLS13,
		// its own certificate has no authority: VerifyPeerCertificate compares the fingerprint
		InsecureSkipVerify: true, //nolint:gosec // see above
		VerifyPeerCertificate: func(certificates [][]byte, _ [][]*x509.Certificate) error {
			return e.verify(certificates)
		},
		SessionTicketsDisabled: true, // a resumed session would not be compared
	}
	if certificate != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate() }
	}
	return &http.Transport{
		MaxConnsPerHost: 4, MaxIdleConnsPerHost: 1, IdleConnTimeout: 2 * time.Minute, ForceAttemptHTTP2: true, TLSClientConfig: config,
	}
}

func (e endpoint) verify(certificates [][]byte) error {
	if len(certificates) == 0 {
		return errors.New("the server has no certificate")
	}
	sum := sha256.Sum256(certificates[0])
	if got := hex.EncodeToString(sum[:]); subtle.ConstantTimeCompare([]byte(got), []byte(e.fingerprint)) != 1 {
		return fmt.Errorf("the certificate at %s is not the one that the NodeOffload or the Lease has", e.address)
	}
	return nil
}
