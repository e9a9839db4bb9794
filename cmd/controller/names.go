package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/ovn-offload/ovn-offload/pkg/controller"
	"github.com/ovn-offload/ovn-offload/pkg/expose"
	"github.com/ovn-offload/ovn-offload/pkg/flownames"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// readWithin bounds a reading of the Southbound at one endpoint.
const readWithin = 30 * time.Second

// servesNames says whether this process serves the names of flows while it leads.
func (o options) servesNames() bool { return o.sb != "" && o.secureAddress != "" && o.advertise != "" }

// endpoint is the annotation by which the relay finds the names; "": nowhere.
func (o options) endpoint(certificate tls.Certificate) (string, error) {
	if !o.servesNames() {
		return "", nil
	}
	_, port, err := net.SplitHostPort(o.secureAddress)
	if err != nil {
		return "", fmt.Errorf("--secure-metrics-address: %w", err)
	}
	text, err := json.Marshal(flownames.Endpoint{Address: net.JoinHostPort(o.advertise, port), Fingerprint: expose.Fingerprint(certificate)})
	return string(text), err
}

// names serves the names of flows to tokens of accounts that may get them.
func (o options) names(c *controller.Controller, client *api.Client, registry prometheus.Registerer) map[string]http.Handler {
	if !o.servesNames() {
		return nil
	}
	cfg := ovsdb.Defaults(strings.Split(o.sb, ","), ovsdb.Schema{})
	cfg.TLS, cfg.ConnectTimeout = clientTLS(o.sbCert, o.sbKey, o.sbCA), readWithin
	live := flownames.NewLive(&flownames.Live{
		Read: func(ctx context.Context, tables map[string][]string) (map[string][]json.RawMessage, error) {
			return ovsdb.Select(ctx, cfg, "OVN_Southbound", tables)
		},
		Table: func(table string) ([]any, error) {
			models, leads := c.Northbound(table)
			if !leads {
				return nil, errors.New("this controller does not lead, or has lost the Northbound")
			}
			return models, nil
		},
	}, registry)
	right := authorizationv1.ResourceAttributes{Verb: "get", Group: v1alpha1.Group, Resource: flownames.Resource}
	return map[string]http.Handler{flownames.Path: expose.NewGuard(flownames.Handler(flownames.Databases{Source: live}, registry),
		"get "+flownames.Resource+" of "+v1alpha1.Group+", for the audience "+flownames.Audience,
		func(ctx context.Context, token string) (bool, error) {
			return client.MayFor(ctx, flownames.Audience, token, right)
		})}
}
