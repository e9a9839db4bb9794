package chassis

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/pki"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

const (
	agentUser = "system:serviceaccount:ovn-kubernetes:ovnkube-node"
	dpuUser   = "system:serviceaccount:ovn-dpu:n1"
)

func testNode(name, uid, systemID string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}}
	if systemID != "" {
		node.Annotations = map[string]string{contract.NodeChassisIDKey: systemID}
	}
	return node
}

func csr(t *testing.T, template x509.CertificateRequest, key crypto.Signer) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &template, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func p256(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func named(systemID string) x509.CertificateRequest {
	return x509.CertificateRequest{Subject: pkix.Name{CommonName: systemID}}
}

// asks is a request as the API server has filled it in.
func asks(request []byte, user, node string) *certificatesv1.CertificateSigningRequest {
	out := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "chassis-x"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: SignerName, Request: request, Username: user,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}
	if node != "" {
		out.Spec.Extra = map[string]certificatesv1.ExtraValue{nodeClaim: {node}}
	}
	return out
}

func TestParse_RefusesAllButTheNameOfAChassis(t *testing.T) {
	key := p256(t)
	_, edwards, _ := ed25519.GenerateKey(rand.Reader)
	p384, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	good := csr(t, named("chassis-1"), key)
	forged := []byte(strings.Replace(string(good), "A", "B", 1))
	with := func(change func(*x509.CertificateRequest)) []byte {
		template := named("chassis-1")
		change(&template)
		return csr(t, template, key)
	}
	for name, tc := range map[string]struct {
		request []byte
		usages  []certificatesv1.KeyUsage
		ok      bool
	}{
		"good":            {request: good, ok: true},
		"two blocks":      {request: append(append([]byte(nil), good...), good...)},
		"no PEM":          {request: []byte("hello")},
		"altered":         {request: forged},
		"an organisation": {request: with(func(r *x509.CertificateRequest) { r.Subject.Organization = []string{"system:masters"} })},
		"two names": {request: with(func(r *x509.CertificateRequest) {
			r.Subject.ExtraNames = []pkix.AttributeTypeAndValue{{Type: []int{2, 5, 4, 3}, Value: "chassis-1"}, {Type: []int{2, 5, 4, 3}, Value: "chassis-2"}}
		})},
		"a host":                {request: with(func(r *x509.CertificateRequest) { r.DNSNames = []string{"sb.example"} })},
		"no name":               {request: csr(t, named(""), key)},
		"a name with a blank":   {request: csr(t, named("chassis 1"), key)},
		"a name with an escape": {request: csr(t, named("chassis-1\n"), key)},
		"a name of 65":          {request: csr(t, named(strings.Repeat("x", 65)), key)},
		"Ed25519":               {request: csr(t, named("chassis-1"), edwards)},
		"P-384":                 {request: csr(t, named("chassis-1"), p384)},
		"for a server":          {request: good, usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, certificatesv1.UsageServerAuth}},
		"for signing":           {request: good, usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, certificatesv1.UsageCertSign}},
		"for no client":         {request: good, usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature}},
	} {
		t.Run(name, func(t *testing.T) {
			request := asks(tc.request, agentUser, "n1")
			if tc.usages != nil {
				request.Spec.Usages = tc.usages
			}
			asked, err := parse(request)
			if (err == nil) != tc.ok || err != nil && !errors.Is(err, errRefused) {
				t.Fatalf("%v", err)
			}
			if tc.ok && asked.Subject.CommonName != "chassis-1" {
				t.Errorf("name %q", asked.Subject.CommonName)
			}
		})
	}
}

func TestRequester_IsTheNodeOfTheToken(t *testing.T) {
	for name, tc := range map[string]struct{ user, claim, want string }{
		"agent":                       {agentUser, "n1", "n1"},
		"agent without a node":        {agentUser, "", ""},
		"agent of another namespace":  {"system:serviceaccount:default:ovnkube-node", "n1", ""},
		"host with a DPU":             {"system:serviceaccount:ovn-kubernetes:ovnkube-node-dpu-host", "n1", ""},
		"kubelet":                     {"system:node:n1", "n1", ""},
		"administrator":               {"kubernetes-admin", "n1", ""},
		"DPU":                         {dpuUser, "", "n1"},
		"DPU whose token has a claim": {dpuUser, "n2", "n1"},
	} {
		t.Run(name, func(t *testing.T) {
			node, _, err := requester(asks(nil, tc.user, tc.claim), "ovn-kubernetes")
			if node != tc.want || (err == nil) != (tc.want != "") {
				t.Errorf("%q, %v", node, err)
			}
		})
	}
}

func TestDecide_RequestIsSignedRefusedOrDelayed(t *testing.T) {
	key := p256(t)
	own := "id-1 uid-1 " + agentUser
	for name, tc := range map[string]struct {
		id, user string
		records  map[string]string
		change   func(node *corev1.Node, w *world)
		want     string // the record
		refused  string
		waits    bool
	}{
		"first":                         {want: own},
		"again":                         {records: map[string]string{"n1": own}, want: own},
		"another system-id later":       {id: "id-9", records: map[string]string{"n1": own}, refused: `recorded first as chassis id-1, and asks to be id-9. If the disk of the host was erased, remove the record: kubectl -n ovn-kubernetes patch configmap ovn-chassis --type=merge -p '{"data":{"n1":null}}'`},
		"the annotation is another's":   {id: "id-9", waits: true},
		"no annotation yet":             {change: func(n *corev1.Node, _ *world) { n.Annotations = nil }, waits: true},
		"recorded, no annotation":       {records: map[string]string{"n1": own}, change: func(n *corev1.Node, _ *world) { n.Annotations = nil }, want: own},
		"another Node's recorded id":    {id: "id-2", change: annotate("id-2"), records: map[string]string{"n2": "id-2 uid-2 " + agentUser}, refused: "Node n2 is chassis id-2"},
		"another Node's announced id":   {id: "id-2", change: annotate("id-2"), refused: "Node n2 is chassis id-2"},
		"an id that n2 only announces":  {records: map[string]string{"n2": "id-2 uid-2 " + agentUser}, change: func(_ *corev1.Node, w *world) { w.nodes["n2"].Annotations[contract.NodeChassisIDKey] = "id-1" }, want: own},
		"an id of a Node that is gone":  {id: "id-3", change: annotate("id-3"), records: map[string]string{"n3": "id-3 uid-3 " + agentUser}, want: "id-3 uid-1 " + agentUser},
		"a Node of the same name":       {id: "id-9", change: annotate("id-9"), records: map[string]string{"n1": "id-1 uid-0 " + agentUser}, want: "id-9 uid-1 " + agentUser},
		"revoked":                       {records: map[string]string{"n1": "revoked"}, refused: "n1 is revoked"},
		"revoked, with a reason":        {records: map[string]string{"n1": "revoked stolen in May"}, refused: "n1 is revoked"},
		"a record that is damaged":      {records: map[string]string{"n1": "what"}, waits: true},
		"DPU":                           {user: dpuUser, want: "id-1 uid-1 " + dpuUser},
		"DPU of a labelled host":        {user: dpuUser, change: label, want: "id-1 uid-1 " + dpuUser},
		"host with the DPU's label":     {change: label, refused: "host with a DPU"},
		"host whose label is gone":      {change: func(_ *corev1.Node, w *world) { w.isDPUHost = true }, refused: "host with a DPU"},
		"agent where a DPU is recorded": {records: map[string]string{"n1": "id-1 uid-1 " + dpuUser}, refused: "recorded first for " + dpuUser},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.id == "" {
				tc.id = "id-1"
			}
			if tc.user == "" {
				tc.user = agentUser
			}
			node := testNode("n1", "uid-1", "id-1")
			w := world{nodes: map[string]*corev1.Node{"n1": node, "n2": testNode("n2", "uid-2", "id-2")}, records: tc.records}
			if tc.change != nil {
				tc.change(node, &w)
			}
			request := asks(csr(t, named(tc.id), key), tc.user, "n1")
			asked, err := parse(request)
			if err != nil {
				t.Fatal(err)
			}
			got, err := decide(asked, request, node, w)
			switch {
			case tc.refused != "":
				if !errors.Is(err, errRefused) || !strings.Contains(err.Error(), tc.refused) {
					t.Errorf("%v, want %q", err, tc.refused)
				}
			case tc.waits:
				if !errors.Is(err, reconcile.ErrNotReady) {
					t.Errorf("%v, want to wait", err)
				}
			case err != nil || got.String() != tc.want:
				t.Errorf("%q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

func annotate(id string) func(*corev1.Node, *world) {
	return func(n *corev1.Node, _ *world) { n.Annotations[contract.NodeChassisIDKey] = id }
}

func label(n *corev1.Node, _ *world) { n.Labels = map[string]string{contract.DPUHostLabel: ""} }

func TestWorld_WhatSecretsDependOn(t *testing.T) {
	w := world{
		nodes: map[string]*corev1.Node{
			"own": testNode("own", "u1", "id-1"), "shared": testNode("shared", "u2", "id-2"), "new": testNode("new", "u3", ""),
			"replaced": testNode("replaced", "u4", "id-4"), "bad": testNode("bad", "u5", "id-5"),
		},
		records: map[string]string{
			"own": "id-1 u1 " + agentUser, "replaced": "id-0 u0 " + agentUser, "bad": "revoked", "gone": "revoked", "left": "id-6 u6 " + agentUser,
		},
	}
	want := pki.Chassis{Revoked: []string{"bad", "gone"}, Waiting: []string{"replaced", "shared"}}
	if diff := cmp.Diff(want, w.chassis()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	kept := map[string]string{"own": "id-1 u1 " + agentUser, "bad": "revoked", "gone": "revoked"}
	if diff := cmp.Diff(kept, w.kept()); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
}
