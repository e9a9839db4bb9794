// Package token keeps the token of a service account current where no kubelet does so: on a DPU, whose agent reaches
// the cluster of its host by a kubeconfig.
//
//	tokenFile of the kubeconfig -> Parse -> account and validity -> TokenRequest for the same account -> tokenFile
//
// client-go reads the file again once a minute, so connections continue. The account may request tokens for itself only
// (ValidatingAdmissionPolicy ovn-dpu-own-token). A token inside the kubeconfig itself is not renewed: its end is reported.
package token

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Claims are what a token of a service account says about itself.
type Claims struct {
	Account         types.NamespacedName
	Issued, Expires time.Time // Expires is zero for a token without an end
}

// Parse reads a JSON Web Token (RFC 7519) of a service account. Only the API server can check the signature.
func Parse(token string) (Claims, error) {
	parts := strings.Split(strings.TrimSpace(token), ".")
	if len(parts) != 3 {
		return Claims{}, errors.New("no JSON Web Token: want three parts with dots between")
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return Claims{}, fmt.Errorf("decoding the token: %w", err)
	}
	var said struct {
		Subject string `json:"sub"`
		Issued  int64  `json:"iat"`
		Expires int64  `json:"exp"`
	}
	if err := json.Unmarshal(raw, &said); err != nil {
		return Claims{}, fmt.Errorf("decoding the token: %w", err)
	}
	account, ok := strings.CutPrefix(said.Subject, "system:serviceaccount:")
	namespace, name, both := strings.Cut(account, ":")
	if !ok || !both {
		return Claims{}, fmt.Errorf("the token is of %q, which is no service account", said.Subject)
	}
	claims := Claims{Account: types.NamespacedName{Namespace: namespace, Name: name}, Issued: time.Unix(said.Issued, 0)}
	if said.Expires != 0 {
		claims.Expires = time.Unix(said.Expires, 0)
	}
	return claims, nil
}

// due is when the token is renewed: a third of its validity has passed, so two thirds remain for failed attempts.
func (c Claims) due() time.Time { return c.Issued.Add(c.Expires.Sub(c.Issued) / 3) }
