package token

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/ovn-offload/ovn-offload/pkg/durable"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// Config of a Renewer.
type Config struct {
	// File has the token; "" when the token is Inline.
	File, Inline string
	// Validity is what new tokens are requested for. The API server may grant less.
	Validity time.Duration
	// Warning is the time before the end of the token from which on Warn is called in each pass, which is each hour.
	Warning time.Duration
	Warn    func(message string)
	// Request asks the API server for a token of an account.
	Request    func(ctx context.Context, account types.NamespacedName, validity time.Duration) (string, error)
	Now        func() time.Time
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Defaults takes the token of a REST configuration. It leaves Warn, Request, Logger and Registerer to be set.
func Defaults(rc *rest.Config) Config {
	cfg := Config{File: rc.BearerTokenFile, Validity: 90 * 24 * time.Hour, Warning: 30 * 24 * time.Hour, Now: time.Now}
	if cfg.File == "" {
		cfg.Inline = rc.BearerToken
	}
	return cfg
}

// Claims reads those of the present token.
func (c Config) Claims() (Claims, error) {
	if c.File == "" {
		return Parse(c.Inline)
	}
	raw, err := os.ReadFile(c.File)
	if err != nil {
		return Claims{}, err
	}
	claims, err := Parse(string(raw))
	if err != nil {
		return Claims{}, fmt.Errorf("%s: %w", c.File, err)
	}
	return claims, nil
}

// Renewer renews one token.
type Renewer struct {
	cfg    Config
	loop   *reconcile.Single
	expiry prometheus.Gauge
}

// NewRenewer makes a Renewer; nothing runs before Run.
func NewRenewer(cfg Config) *Renewer {
	r := &Renewer{cfg: cfg, expiry: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "ovn_offload_dpu_token_expiry_seconds",
		Help: "When the DPU's token for the cluster of its host ends, in seconds since 1970; 0: never.",
	})}
	cfg.Registerer.MustRegister(r.expiry)
	lc := reconcile.Defaults("token")
	lc.Logger, lc.Registerer = cfg.Logger, cfg.Registerer
	r.loop = reconcile.NewSingle(lc, r.pass)
	return r
}

// Run renews the token until ctx ends.
func (r *Renewer) Run(ctx context.Context) error { return r.loop.Run(ctx) }

// pass renews the token if that is due.
func (r *Renewer) pass(ctx context.Context) error {
	claims, err := r.cfg.Claims()
	if err != nil {
		return err
	}
	if claims.Expires.IsZero() {
		return nil
	}
	now := r.cfg.Now()
	if r.cfg.File != "" && !now.Before(claims.due()) {
		if err = r.renew(ctx, &claims); err == nil {
			r.cfg.Logger.Info("token renewed", "account", claims.Account, "expires", claims.Expires)
		}
	}
	r.expiry.Set(float64(claims.Expires.Unix()))
	// A third of a short validity: a token that is renewed in time is no reason to warn.
	if claims.Expires.Sub(now) < min(r.cfg.Warning, claims.Expires.Sub(claims.Issued)/3) {
		r.cfg.Warn(warning(claims, err))
	}
	if r.cfg.File != "" {
		r.loop.MarkSpaced(max(0, claims.due().Sub(now)), time.Minute)
	}
	return err
}

// renew replaces the token in the file, and its claims.
func (r *Renewer) renew(ctx context.Context, claims *Claims) error {
	token, err := r.cfg.Request(ctx, claims.Account, r.cfg.Validity)
	if err != nil {
		return fmt.Errorf("renewing the token of %s: %w", claims.Account, err)
	}
	renewed, err := Parse(token)
	if err != nil {
		return fmt.Errorf("renewing the token of %s: %w", claims.Account, err)
	}
	if err := durable.WriteFile(r.cfg.File, []byte(token), 0o600); err != nil {
		return err
	}
	*claims = renewed
	return nil
}

func warning(claims Claims, err error) string {
	text := fmt.Sprintf("the token of account %s ends at %s", claims.Account, claims.Expires.UTC().Format(time.RFC3339))
	if err != nil {
		return text + ": " + err.Error()
	}
	return text + " and nothing renews the token: run kubectl offload dpu join again"
}
