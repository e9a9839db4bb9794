package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/controller"
	"github.com/ovn-offload/ovn-offload/pkg/expose"
	"github.com/ovn-offload/ovn-offload/pkg/flownames"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/kube/leader"
)

// run watches Kubernetes and, once this process leads, drives the database.
func run(ctx context.Context, o options, log *slog.Logger) error {
	plan, err := o.plan()
	if err != nil {
		return err
	}
	shared, err := serviceKeys(o.sharedServices)
	if err != nil {
		return fmt.Errorf("--shared-services: %w", err)
	}
	server := api.Config{Kubeconfig: o.kubeconfig, Server: o.apiserver, UserAgent: "ovn-offload-controller/" + version}
	client, err := api.New(server)
	if err != nil {
		return err
	}
	objects, err := api.NewDynamic(server)
	if err != nil {
		return err
	}
	leases, err := leader.NewLeases(server)
	if err != nil {
		return err
	}
	registry := expose.NewRegistry(version)
	log.Info("controller starts", "version", version)
	host, _ := os.Hostname()
	lead := leader.Defaults()
	lead.Namespace, lead.Identity = o.leaseNamespace, fmt.Sprintf("%s-%d-%d", host, os.Getpid(), time.Now().UnixNano())
	group, ctx := errgroup.WithContext(ctx)
	zone := controller.ZoneConfig{Northbound: strings.Split(o.nb, ","), TLS: clientTLS(o.nbCert, o.nbKey, o.nbCA)}
	if o.sb != "" {
		zone.Southbound, zone.SouthboundTLS = strings.Split(o.sb, ","), clientTLS(o.sbCert, o.sbKey, o.sbCA)
	}
	certificate, err := expose.SelfSigned()
	if err != nil {
		return fmt.Errorf("making a certificate: %w", err)
	}
	endpoint, err := o.endpoint(certificate)
	if err != nil {
		return err
	}
	cfg := controller.Config{
		Plan: plan, RenumberNodes: o.renumberNodes, Zones: []controller.ZoneConfig{zone},
		Dynamic: objects, Networks: o.networks, Shared: controller.Shared{Networks: !o.namespaceIsolation, Services: shared}, Native: o.nativeNetworks, Leader: lead, Leases: leases, Logger: log, Registerer: registry,
		Announce: map[string]string{flownames.LeaseKey: endpoint, contract.LeaderVersionKey: version + " " + lead.Identity},
	}
	c, err := controller.New(ctx, cfg, client)
	if err != nil {
		return err
	}
	names := o.names(c, client, registry)
	group.Go(func() error {
		return expose.Run(ctx, expose.Config{
			Local: o.metricsAddress, Secure: o.secureAddress, Certificate: &certificate, More: names, Gatherer: registry, Ready: c.Ready, Allowed: client.Allowed, Logger: log,
		})
	})
	group.Go(func() error { return c.Run(ctx) })
	if watch := o.watchClusters(client, log); watch != nil {
		watch.Registerer = registry
		group.Go(func() error { return watch.Run(ctx) })
	}
	return group.Wait()
}
