package chassis

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// errRefused is wrapped by the reasons for which a request is denied for good.
var errRefused = errors.New("refused")

// validID is a system-id that can be a common name and a word of a record.
var validID = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,64}$`)

// nodeClaim is where the API server puts the Node of the pod that a token is bound to.
const nodeClaim = "authentication.kubernetes.io/node-name"

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errRefused, fmt.Sprintf(format, args...))
}

// parse reads what a request asks for.
func parse(request *certificatesv1.CertificateSigningRequest) (*x509.CertificateRequest, error) {
	block, rest := pem.Decode(request.Spec.Request)
	if block == nil || len(strings.TrimSpace(string(rest))) > 0 {
		return nil, refuse("not one PEM block")
	}
	asked, err := x509.ParseCertificateRequest(block.Bytes)
	if err == nil {
		err = asked.CheckSignature()
	}
	if err != nil {
		return nil, refuse("%v", err)
	}
	key, ok := asked.PublicKey.(*ecdsa.PublicKey)
	names := len(asked.DNSNames) + len(asked.EmailAddresses) + len(asked.IPAddresses) + len(asked.URIs)
	switch {
	case !ok || key.Curve != elliptic.P256():
		return nil, refuse("the key is not ECDSA P-256")
	case len(asked.Subject.Names) != 1 || names > 0 || !validID.MatchString(asked.Subject.CommonName):
		return nil, refuse("the subject is not just the system-id of a chassis")
	case !slices.Contains(request.Spec.Usages, certificatesv1.UsageClientAuth):
		return nil, refuse("the certificate is not for a client")
	}
	for _, usage := range request.Spec.Usages {
		if usage != certificatesv1.UsageClientAuth && usage != certificatesv1.UsageDigitalSignature {
			return nil, refuse("usage %q is not a client's", usage)
		}
	}
	return asked, nil
}

// requester gives the Node that a request speaks for: that of the agent's token, or
// of the host after which the account of a DPU is named.
func requester(request *certificatesv1.CertificateSigningRequest, namespace string) (node string, isDPU bool, err error) {
	user := request.Spec.Username
	if host, ok := strings.CutPrefix(user, "system:serviceaccount:"+DPUNamespace+":"); ok {
		return host, true, nil
	}
	claim := request.Spec.Extra[nodeClaim]
	switch {
	case user != "system:serviceaccount:"+namespace+":"+ordinaryAccount:
		return "", false, refuse("%s is not the account of an agent", user)
	case len(claim) != 1 || claim[0] == "":
		return "", false, refuse("the token of %s names no Node", user)
	}
	return claim[0], false, nil
}

// decide says which chassis a request is for, with the record to write first if that
// is not the one that there is. An error that is errRefused denies the request; one
// that is reconcile.ErrNotReady waits for a fact.
func decide(asked *x509.CertificateRequest, request *certificatesv1.CertificateSigningRequest, node *corev1.Node, w world) (record, error) {
	id, account := asked.Subject.CommonName, request.Spec.Username
	isDPU := strings.HasPrefix(account, "system:serviceaccount:"+DPUNamespace+":")
	_, labelled := node.Labels[contract.DPUHostLabel]
	if !isDPU && (w.isDPUHost || labelled) {
		return record{}, refuse("Node %s is a host with a DPU, which asks for itself", node.Name)
	}
	have, err := w.recordOf(node)
	want := record{systemID: id, uid: string(node.UID), account: account}
	switch {
	case err != nil:
		return record{}, fmt.Errorf("%w: %w", reconcile.ErrNotReady, err)
	case have != nil && have.revoked:
		return record{}, refuse("Node %s is revoked in ConfigMap %s", node.Name, RecordMap)
	case have != nil && have.systemID != id:
		return record{}, refuse("Node %s was recorded first as chassis %s, and asks to be %s. If the disk of the host was erased, remove the record: "+
			"kubectl -n ovn-kubernetes patch configmap %s --type=merge -p '{\"data\":{%q:null}}'", node.Name, have.systemID, id, RecordMap, node.Name)
	case have != nil && have.account != account:
		return record{}, refuse("Node %s was recorded first for %s", node.Name, have.account)
	case have != nil:
		return want, nil
	}
	if other := w.holder(id, node.Name); other != "" {
		return record{}, refuse("Node %s is chassis %s", other, id)
	}
	if annotated := node.Annotations[contract.NodeChassisIDKey]; annotated != id {
		return record{}, fmt.Errorf("%w: annotation %s of Node %s is %q, not %q", reconcile.ErrNotReady, contract.NodeChassisIDKey, node.Name, annotated, id)
	}
	return want, nil
}
