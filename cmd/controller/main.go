// ovn-offload-controller watches Kubernetes, allocates node subnets, ids and pod
// addresses, and is the only writer of the Northbound database of its zone. Of
// several processes one leads, by a Lease; the others wait.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/ovn-offload/ovn-offload/pkg/expose"
	"github.com/ovn-offload/ovn-offload/pkg/ipam"
)

// version is set by the linker.
var version = "dev" //nolint:gochecknoglobals // -ldflags -X needs a variable

// options are the flags.
type options struct {
	kubeconfig, apiserver                                string
	nb, nbCert, nbKey, nbCA                              string
	sb, sbCert, sbKey, sbCA                              string
	clusterCIDRs, serviceCIDRs, joinCIDR, masqueradeCIDR string
	metricsAddress, secureAddress                        string
	advertise                                            string
	leaseNamespace                                       string
	renumberNodes, clustered                             bool
	networks, nativeNetworks                             bool
	namespaceIsolation, secondaryOnly                    bool
	sharedServices                                       []string
	runDir                                               string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "ovn-offload-controller:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var o options
	var level slog.Level
	root := &cobra.Command{
		Use:           "ovn-offload-controller",
		Short:         "drives OVN's Northbound database from Kubernetes",
		Version:       version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), o, expose.Logger(os.Stderr, level))
		},
	}
	persistent := root.PersistentFlags()
	persistent.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file; empty: the pod's service account")
	persistent.StringVar(&o.apiserver, "apiserver", "", "URL of the API server; empty: as the kubeconfig or the cluster says")
	persistent.TextVar(&level, "log-level", slog.LevelInfo, "debug, info, warn or error")
	flags := root.Flags()
	flags.StringVar(&o.nb, "nb", "unix:/run/ovn/ovnnb_db.sock", "endpoints of the Northbound database, comma-separated")
	flags.StringVar(&o.nbCert, "nb-cert", "", "client certificate for ssl endpoints")
	flags.StringVar(&o.nbKey, "nb-key", "", "its private key")
	flags.StringVar(&o.nbCA, "nb-ca", "", "authority that the database's certificate must be signed by")
	flags.StringVar(&o.sb, "sb", "", "endpoints of the Southbound database, from which the chassis of deleted nodes are removed; empty: they stay")
	flags.StringVar(&o.sbCert, "sb-cert", "", "client certificate for its ssl endpoints")
	flags.StringVar(&o.sbKey, "sb-key", "", "its private key")
	flags.StringVar(&o.sbCA, "sb-ca", "", "authority that its certificate must be signed by")
	flags.StringVar(&o.clusterCIDRs, "cluster-cidrs", "10.244.0.0/16/24", "pod networks, each with the prefix length of a node")
	flags.StringVar(&o.serviceCIDRs, "service-cidrs", "10.96.0.0/16", "service networks")
	flags.StringVar(&o.joinCIDR, "join-cidrs", "100.64.0.0/16,fd98::/64", "networks between the cluster router and the gateway routers")
	flags.StringVar(&o.masqueradeCIDR, "masquerade-cidrs", "169.254.0.0/17,fd69::/112", "addresses between a node and its gateway router, one subnet of each family; as the agents have them")
	flags.BoolVar(&o.renumberNodes, "renumber-nodes", false, "give nodes other subnets where --cluster-cidrs asks for it; their running pods lose the network")
	flags.StringVar(&o.metricsAddress, "metrics-address", "127.0.0.1:9411", "where /metrics, /healthz and /readyz are served to the node itself")
	flags.StringVar(&o.secureAddress, "secure-metrics-address", "", "where /metrics is served over TLS to accounts that may get it, such as :9413; empty: nowhere")
	flags.StringVar(&o.advertise, "advertise-address", "", "address by which the relay reaches --secure-metrics-address, for the names of flows; empty: they are not served")
	flags.StringVar(&o.leaseNamespace, "lease-namespace", "ovn-kubernetes", "namespace of the leader's Lease")
	flags.BoolVar(&o.clustered, "clustered", false, "the databases are clusters with a member on this node; have them drop servers that are not recorded")
	flags.BoolVar(&o.nativeNetworks, "native-networks", false, "without Multus: write the annotation k8s.v1.cni.cncf.io/network-status")
	flags.BoolVar(&o.networks, "networks", true, "give pods the networks of NetworkAttachmentDefinitions, and of the objects from which these are made")
	flags.BoolVar(&o.namespaceIsolation, "namespace-isolation", true, "a network is for the namespaces that its owner names; false: for the pods of all namespaces")
	flags.StringSliceVar(&o.sharedServices, "shared-services", nil, "further services, as namespace/name, that pods of primary networks reach beside the API server and the DNS of the cluster")
	flags.BoolVar(&o.secondaryOnly, "secondary-only", false, "another CNI plugin gives pods their default network, which is left alone")
	flags.StringVar(&o.runDir, "ovn-rundir", "/run/ovn", "directory of the control sockets of these members")
	root.AddCommand(certsCommand(&o, &level), memberCommand(&o, &level), removalCommand(&o, &level))
	return root
}

// plan is the address plan of the flags.
func (o options) plan() (ipam.Config, error) {
	plan := ipam.Defaults()
	plan.SecondaryOnly = o.secondaryOnly
	var err error
	if plan.Cluster, err = ipam.ParseClusterSubnets(o.clusterCIDRs); err != nil {
		return plan, fmt.Errorf("--cluster-cidrs: %w", err)
	}
	if plan.Services, err = ipam.ParsePrefixes(o.serviceCIDRs); err != nil {
		return plan, fmt.Errorf("--service-cidrs: %w", err)
	}
	if plan.Join, err = ipam.ParsePrefixes(o.joinCIDR); err != nil {
		return plan, fmt.Errorf("--join-cidrs: %w", err)
	}
	if plan.Masquerade, err = ipam.ParsePrefixes(o.masqueradeCIDR); err != nil {
		return plan, fmt.Errorf("--masquerade-cidrs: %w", err)
	}
	return plan, plan.Validate()
}

// serviceKeys are the names of services, namespace/name each.
func serviceKeys(names []string) ([]string, error) {
	for _, key := range names {
		namespace, name, ok := strings.Cut(key, "/")
		if problems := append(validation.IsDNS1123Label(namespace), validation.IsDNS1123Label(name)...); !ok || len(problems) > 0 {
			return nil, fmt.Errorf("%q is not the namespace/name of a service", key)
		}
	}
	return names, nil
}
