package chassis

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/pki"
)

// Config of a Client.
type Config struct {
	// Dir is where ovn-controller finds tls.key, tls.crt and ca.crt.
	Dir string
	// Namespace has pki.SouthboundMap.
	Namespace string
	// SystemID is the name of the chassis, "" while it is not known.
	SystemID func() string
	// Answer bounds the wait for an answer to one request.
	Answer     time.Duration
	Now        func() time.Time
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Defaults leaves SystemID, Logger and Registerer to be set.
func Defaults() Config {
	return Config{Dir: "/var/lib/ovn-offload/chassis", Namespace: "ovn-kubernetes", Answer: 10 * time.Minute, Now: time.Now}
}

// Client keeps the certificate of the local chassis.
type Client struct {
	cfg    Config
	client *api.Client
	facts  cache.SharedIndexInformer
	wake   chan struct{}
	expiry *prometheus.GaugeVec // no series while there is no certificate

	mu      sync.Mutex
	problem error
	asked   string // the system-id of the last pass
}

// NewClient makes a Client; nothing is asked before Run.
func NewClient(client *api.Client, cfg Config) *Client {
	c := &Client{
		cfg: cfg, client: client, wake: make(chan struct{}, 1), problem: errors.New("the certificate of the chassis has not been looked for"),
		facts: api.NewInformer(client.ConfigMaps(cfg.Namespace), &corev1.ConfigMap{}, nil, func(o *metav1.ListOptions) {
			o.FieldSelector = "metadata.name=" + pki.SouthboundMap
		}),
		expiry: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ovn_offload_certificate_expiry_seconds", Help: "When a certificate ends, in seconds since 1970.",
		}, []string{"certificate"}),
	}
	cfg.Registerer.MustRegister(c.expiry)
	return c
}

// Changed asks for a pass if the system-id is another one now.
func (c *Client) Changed() {
	c.mu.Lock()
	same := c.asked == c.cfg.SystemID()
	c.mu.Unlock()
	if !same {
		c.mark()
	}
}

func (c *Client) mark() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Problem says why there is no good certificate; nil when there is one.
func (c *Client) Problem() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.problem
}

// Run keeps the files right until ctx ends.
func (c *Client) Run(ctx context.Context) error {
	_, err := c.facts.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { c.mark() },
		UpdateFunc: func(any, any) { c.mark() },
	})
	if err != nil {
		return err
	}
	go c.facts.RunWithContext(ctx)
	cache.WaitForCacheSync(ctx.Done(), c.facts.HasSynced)
	const shortest, longest = time.Second, 5 * time.Minute
	for pause := shortest; ; {
		until, err := c.pass(ctx)
		wait := until.Sub(c.cfg.Now())
		if err != nil && ctx.Err() == nil {
			c.cfg.Logger.Warn("the chassis gets no certificate", "error", err)
			wait, pause = pause, min(2*pause, longest)
		} else {
			pause = shortest
		}
		c.mu.Lock()
		c.problem = err
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.wake:
		case <-time.After(wait):
		}
	}
}

// pass makes the files right and says when to come back. A certificate that can
// still be used stays until its successor is there.
func (c *Client) pass(ctx context.Context) (time.Time, error) {
	now := c.cfg.Now()
	facts := c.known()
	id := c.cfg.SystemID()
	c.mu.Lock()
	c.asked = id
	c.mu.Unlock()
	server, authorities := []byte(facts[pki.ServerKey]), []byte(facts[pki.ChassisKey])
	if id == "" || !isCertificates(server) || !isCertificates(authorities) {
		return now, fmt.Errorf("waiting for the system-id (%q) and the authorities in ConfigMap %s", id, pki.SouthboundMap)
	}
	files, err := readFiles(c.cfg.Dir)
	if err != nil {
		return now, err
	}
	due, why := renewal(files, id, authorities, now)
	if !now.Before(due) {
		if files[certFile] != nil { // of use until its successor is there, with the newest authorities
			files[caFile] = server
			if err := writeFiles(c.cfg.Dir, files); err != nil {
				return now, err
			}
		}
		c.cfg.Logger.Info("asking for a certificate", "chassis", id, "reason", why)
		if files, err = c.obtain(ctx, id); err != nil {
			return now, err
		}
		if due, err = renewal(files, id, authorities, now); err != nil {
			return now, fmt.Errorf("the signer's certificate: %w", err)
		}
	}
	files[caFile] = server
	if err := writeFiles(c.cfg.Dir, files); err != nil {
		return now, err
	}
	if block, _ := pem.Decode(files[certFile]); block != nil {
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			c.expiry.WithLabelValues("chassis").Set(float64(cert.NotAfter.Unix()))
		}
	}
	return due, nil
}

// Authorities are those of the chassis and of the relay, in PEM.
func (c *Client) Authorities() []byte { return []byte(c.known()[pki.ChassisKey]) }

func (c *Client) known() map[string]string {
	object, _, _ := c.facts.GetStore().GetByKey(c.cfg.Namespace + "/" + pki.SouthboundMap)
	if facts, ok := object.(*corev1.ConfigMap); ok {
		return facts.Data
	}
	return nil
}

// obtain asks the signer for a certificate of a new key.
func (c *Client) obtain(ctx context.Context, id string) (map[string][]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	asked, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: id}}, key)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Answer)
	defer cancel()
	request, err := c.client.Requests.Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "chassis-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: SignerName, Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: asked}),
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("asking for a certificate: %w", err)
	}
	cert, err := c.answered(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("CertificateSigningRequest %s: %w", request.Name, err)
	}
	return map[string][]byte{certFile: cert, keyFile: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})}, nil
}

// answered waits for the signer.
func (c *Client) answered(ctx context.Context, request *certificatesv1.CertificateSigningRequest) ([]byte, error) {
	for {
		cert, err := answer(request)
		if cert != nil || err != nil {
			return cert, err
		}
		if request, err = c.next(ctx, request); err != nil {
			return nil, err
		}
	}
}

// next is the request after its next change, or after the watch has ended.
func (c *Client) next(ctx context.Context, request *certificatesv1.CertificateSigningRequest) (*certificatesv1.CertificateSigningRequest, error) {
	watch, err := c.client.Requests.Watch(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + request.Name, ResourceVersion: request.ResourceVersion,
	})
	if err != nil {
		return nil, err
	}
	defer watch.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the signer does not answer: %w", ctx.Err())
		case event, ok := <-watch.ResultChan():
			if next, is := event.Object.(*certificatesv1.CertificateSigningRequest); ok && is && next.Name == request.Name {
				return next, nil
			}
			if !ok {
				return c.client.Requests.Get(ctx, request.Name, metav1.GetOptions{})
			}
		}
	}
}

func answer(request *certificatesv1.CertificateSigningRequest) ([]byte, error) {
	for _, condition := range request.Status.Conditions {
		if condition.Type == certificatesv1.CertificateDenied || condition.Type == certificatesv1.CertificateFailed {
			return nil, fmt.Errorf("%s: %s", condition.Type, condition.Message)
		}
	}
	if len(request.Status.Certificate) > 0 {
		return request.Status.Certificate, nil
	}
	return nil, nil
}
