//go:build apiserver

package apiserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/chassis"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

func TestChassisCertificate_IsSignedForTheNodeOfTheTokenOnly(t *testing.T) {
	t.Parallel()
	tier.Strict(t)
	own, other := systemID(t, nodes[1]), systemID(t, nodes[2])
	if answer := requestAs(t, agentAccount, nodes[1], own); answer != "Approved" {
		t.Errorf("its own chassis: %s", answer)
	}
	if answer := requestAs(t, agentAccount, nodes[1], other); !strings.Contains(answer, "recorded first as chassis "+own) {
		t.Errorf("another node's chassis: %s", answer)
	}
	if answer := requestAs(t, agentAccount, nodes[1], "e2e"); !strings.Contains(answer, "recorded first as chassis "+own) {
		t.Errorf("a new name: %s", answer)
	}
}

// requestAs asks for the certificate of a chassis as the agent of a node, and gives
// the answer: Approved, or the reason of a denial.
func requestAs(t *testing.T, user, node, id string) string {
	t.Helper()
	client := as(t, user, map[string][]string{nodeKey: {node}})
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	asked, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: id}}, key)
	if err != nil {
		t.Fatal(err)
	}
	requests := cluster.client.CertificatesV1().CertificateSigningRequests()
	request, err := client.CertificatesV1().CertificateSigningRequests().Create(t.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-chassis-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: chassis.SignerName, Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: asked}),
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var answer string
	eventually(t, "the signer answers", func() (bool, string) {
		if request, err = requests.Get(t.Context(), request.Name, metav1.GetOptions{}); err != nil {
			return false, err.Error()
		}
		for _, c := range request.Status.Conditions {
			answer = string(c.Type)
			if c.Type == certificatesv1.CertificateDenied {
				answer = c.Message
			}
		}
		return answer != "" && (answer != "Approved" || len(request.Status.Certificate) > 0), answer
	})
	return answer
}

// systemID is the name of a node's chassis.
func systemID(t *testing.T, node string) string {
	t.Helper()
	object, err := cluster.client.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return object.Annotations[contract.NodeChassisIDKey]
}
