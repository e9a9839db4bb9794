//go:build apiserver

package apiserver

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/ovn-offload/ovn-offload/pkg/dpu/join"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
	"github.com/ovn-offload/ovn-offload/pkg/kube/token"
)

// TestDPU_JoinGivesTokenThatRenewsItself: the files of a join let a DPU renew its own token, and no other one. Without
// the account the token has no rights.
func TestDPU_JoinGivesTokenThatRenewsItself(t *testing.T) {
	t.Parallel()
	host, dpuNode := nodes[0], nodes[2] // the record of their chassis goes, and other tests ask for that of nodes[1]
	admin := apitest.Client(cluster.client)
	files, err := join.Admit(t.Context(), admin, host, "https://192.0.2.10:6443", cluster.config.CAData)
	if err != nil {
		t.Fatal(err)
	}
	rc := rest.AnonymousClientConfig(cluster.config)
	rc.BearerTokenFile = filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(rc.BearerTokenFile, files["token"], 0o600); err != nil {
		t.Fatal(err)
	}
	dpu, err := api.NewFor(rc)
	if err != nil {
		t.Fatal(err)
	}
	own, others := types.NamespacedName{Namespace: "ovn-dpu", Name: host}, types.NamespacedName{Namespace: "ovn-dpu", Name: dpuNode}
	if _, err := join.Admit(t.Context(), admin, others.Name, "https://192.0.2.10:6443", nil); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		account types.NamespacedName
		may     bool
	}{"its own token": {own, true}, "the token of another DPU": {others, false}} {
		if _, err := dpu.Token(t.Context(), tc.account, time.Hour); tc.may && err != nil || !tc.may && !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want it given: %t", name, err, tc.may)
		}
	}
	renewOnce(t, rc, dpu)
	if err := join.Leave(t.Context(), admin, host); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a token without its account", func() (bool, string) {
		_, err := dpu.Token(t.Context(), own, time.Hour)
		return apierrors.IsUnauthorized(err), fmt.Sprint(err)
	})
}

// renewOnce runs the renewal as if a third of the token's validity had passed.
func renewOnce(t *testing.T, rc *rest.Config, dpu *api.Client) {
	t.Helper()
	cfg := token.Defaults(rc)
	before, err := cfg.Claims()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Request, cfg.Logger, cfg.Registerer = dpu.Token, slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	cfg.Warn = func(message string) { t.Error(message) }
	cfg.Now = func() time.Time { return before.Issued.Add(before.Expires.Sub(before.Issued) / 2) }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- token.NewRenewer(cfg).Run(ctx) }()
	defer func() { cancel(); <-ended }()
	first, err := os.ReadFile(rc.BearerTokenFile)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "another token in the file", func() (bool, string) {
		now, err := os.ReadFile(rc.BearerTokenFile)
		return err == nil && string(now) != string(first), fmt.Sprint(err)
	})
}
