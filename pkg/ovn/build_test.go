package ovn

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/yaml"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube"
	"github.com/ovn-offload/ovn-offload/pkg/kube/api/apitest"
	"github.com/ovn-offload/ovn-offload/pkg/kube/opnfv"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/network/render"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/lb"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/policy"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

var update = flag.Bool("update", false, "write the testdata again")

// facts is a View over the objects of a test case. Every annotation is taken as
// the allocator's decision, except one that the case calls forged.
type facts struct {
	*kube.ClusterView
	zone contract.Zone
}

func (f facts) Zone() contract.Zone { return f.zone }

func (f facts) NodeSubnets(node *corev1.Node, network string) []netip.Prefix {
	subnets, _ := contract.ParseNodeSubnets(node.Annotations[contract.NodeSubnetsKey], network)
	return subnets
}

func (f facts) PodWith(addr netip.Addr) *corev1.Pod {
	for _, pod := range f.Pods() {
		if value := f.Allocated(pod, ""); value != nil && slices.Contains(value.Addresses, netip.PrefixFrom(addr, addr.BitLen())) {
			return pod
		}
	}
	return nil
}

// networkOf is the network of an owner, the zero Network when it is gone.
func (f facts) networkOf(main contract.Network, owner contract.Owner) contract.Network {
	found := &main
	if owner.Network != "" && owner.Kind == contract.KindPod {
		found = f.NetworkOfNAD(contract.NADOf(owner.Network))
	} else if owner.Network != "" {
		found = f.Network(owner.Network)
	}
	if found == nil {
		return contract.Network{}
	}
	return *found
}

func (f facts) ServiceValues() *lb.Values { return lb.NewValues() }

func (f facts) Allocated(pod *corev1.Pod, network string) *contract.PodNetwork {
	value, _ := contract.ParsePodNetwork(pod.Annotations[contract.PodNetworksKey], contract.Network{Name: network}.Key())
	return value
}

func (f facts) Attached(pod *corev1.Pod, network string) (values []*contract.PodNetwork) {
	for _, key := range contract.AttachmentKeys(pod) {
		value, on := f.Allocated(pod, key), f.NetworkOfNAD(contract.NADOf(key))
		if value != nil && on != nil && on.Name == network {
			values = append(values, value)
		}
	}
	return values
}

// TestBuild_RowsOfEachCase reads each testdata/*.txtar: objects.yaml are the facts, "owner"
// lists the owners to build, config the cluster and join subnets; rows is what
// comes out, or the error.
func TestBuild_RowsOfEachCase(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			section := sectionsOf(archive)
			got := buildCase(t, section)
			if *update {
				setFile(archive, "rows", got)
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(section["rows"], got); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
}

func sectionsOf(archive *txtar.Archive) map[string]string {
	section := map[string]string{}
	for _, f := range archive.Files {
		section[f.Name] = string(f.Data)
	}
	return section
}

func buildCase(t *testing.T, section map[string]string) string {
	t.Helper()
	view := readObjects(t, section["objects.yaml"])
	network := readConfig(t, section["config"], &view.zone)
	var out strings.Builder
	for _, owner := range ownersOf(t, view, section["owner"]) {
		rows, err := Build(view, view.networkOf(network, owner), owner)
		fmt.Fprintf(&out, "# %s\n", owner)
		dumpRows(&out, rows)
		wantUses(t, owner, rows)
		if err != nil {
			kind := "error"
			if errors.Is(err, reconcile.ErrNotReady) {
				kind = "waiting"
			}
			fmt.Fprintf(&out, "%s: %v\n", kind, err)
		}
	}
	return out.String()
}

// wantUses: what a match names is what the row says that it uses.
func wantUses(t *testing.T, owner contract.Owner, rows []ovsdb.Row) {
	t.Helper()
	for _, row := range rows {
		rule, ok := row.Model.(*nb.ACL)
		if !ok {
			continue
		}
		for _, named := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(rule.Match, -1) {
			if !slices.Contains(row.Uses, ovsdb.Name{Table: nb.AddressSetTable, Name: named[1]}) {
				t.Errorf("%s, ACL %s: it does not say that it uses %s", owner, row.ID, named[1])
			}
		}
	}
}

// ownersOf reads the owners of a case; "PodSets" are all of that kind, since
// their names are hashes.
func ownersOf(t *testing.T, view facts, text string) []contract.Owner {
	t.Helper()
	var owners []contract.Owner
	for word := range strings.FieldsSeq(text) {
		if word == "PodSets" {
			sets := view.PodSetOwners()
			slices.SortFunc(sets, func(a, b contract.Owner) int { return strings.Compare(a.Name, b.Name) })
			owners = append(owners, sets...)
			continue
		}
		owner, err := contract.ParseOwner(word)
		if err != nil {
			t.Fatal(err)
		}
		owners = append(owners, owner)
	}
	return owners
}

func readConfig(t *testing.T, text string, zone *contract.Zone) contract.Network {
	t.Helper()
	var network contract.Network
	for line := range strings.Lines(text) {
		key, values, _ := strings.Cut(strings.TrimSpace(line), ": ")
		var prefixes []netip.Prefix
		for value := range strings.FieldsSeq(values) {
			prefixes = append(prefixes, netip.MustParsePrefix(value))
		}
		switch key {
		case "cluster":
			network.Subnets = subnets(prefixes...)
		case "join":
			network.JoinSubnets = prefixes
		case "services":
			zone.ServiceSubnets = prefixes
		case "masquerade":
			zone.MasqueradeSubnets = prefixes
		case "default":
			zone.DefaultSubnets = prefixes
		case "namespaces", "routed namespaces":
			zone.NamespaceSubnets = append(zone.NamespaceSubnets, contract.NamespaceSubnet{Prefixes: prefixes, Routed: key != "namespaces"})
		default:
			t.Fatalf("config line %q", line)
		}
	}
	return network
}

// subnets give each node Kubernetes' default part.
func subnets(prefixes ...netip.Prefix) []contract.Subnet {
	var out []contract.Subnet
	for _, prefix := range prefixes {
		subnet := contract.Subnet{Prefix: prefix, NodeBits: 24}
		if prefix.Addr().Is6() {
			subnet.NodeBits = 64
		}
		out = append(out, subnet)
	}
	return out
}

// oneNetwork is a default network with these subnets of pods.
func oneNetwork(prefixes ...string) contract.Network {
	var network contract.Network
	for _, prefix := range prefixes {
		network.Subnets = append(network.Subnets, subnets(netip.MustParsePrefix(prefix))...)
	}
	return network
}

func readObjects(t *testing.T, text string) facts {
	t.Helper()
	var all []runtime.Object
	for _, doc := range strings.Split(text, "---\n") {
		var kind struct{ Kind string }
		if err := yaml.Unmarshal([]byte(doc), &kind); err != nil {
			t.Fatal(err)
		}
		switch kind.Kind {
		case "Node":
			all = append(all, decode[corev1.Node](t, doc))
		case "Pod":
			all = append(all, decode[corev1.Pod](t, doc))
		case "Service":
			all = append(all, decode[corev1.Service](t, doc))
		case "ServiceCIDR":
			all = append(all, decode[networkingv1.ServiceCIDR](t, doc))
		case "EndpointSlice":
			all = append(all, decode[discoveryv1.EndpointSlice](t, doc))
		case "Namespace":
			all = append(all, decode[corev1.Namespace](t, doc))
		case "NetworkPolicy":
			all = append(all, decode[networkingv1.NetworkPolicy](t, doc))
		case contract.KindAdminNetworkPolicy, contract.KindBaselineAdminNetworkPolicy, contract.KindClusterNetworkPolicy, contract.KindNAD, contract.KindMultiNetworkPolicy, contract.KindNetworkChaining, contract.KindPortMirror:
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(doc), &object.Object); err != nil {
				t.Fatal(err)
			}
			all = append(all, object)
		case "":
		default:
			t.Fatalf("object of kind %q", kind.Kind)
		}
	}
	return viewOf(t, all...)
}

// viewOf is the View of a controller that sees these objects.
func viewOf(t *testing.T, objects ...runtime.Object) facts {
	t.Helper()
	isAdmin := func(o runtime.Object) bool { _, ok := o.(*unstructured.Unstructured); return ok }
	// Those whose resource does not follow from the kind.
	irregular := map[string]schema.GroupVersionResource{contract.KindNAD: kube.NADs(), contract.KindMultiNetworkPolicy: kube.MultiNetworkPolicies(), contract.KindNetworkChaining: opnfv.NetworkChainings(), contract.KindPortMirror: v1alpha1.PortMirrors()}
	var admin, others []runtime.Object
	for _, o := range objects {
		switch {
		case isAdmin(o) && irregular[o.GetObjectKind().GroupVersionKind().Kind].Resource != "":
			others = append(others, o)
		case isAdmin(o):
			admin = append(admin, o)
		}
	}
	view, err := kube.NewClusterView(apitest.Client(fake.NewClientset(slices.DeleteFunc(objects, isAdmin)...)))
	if err != nil {
		t.Fatal(err)
	}
	lists := map[schema.GroupVersionResource]string{kube.IPAMClaims(): "IPAMClaimList", v1alpha1.PhysicalNetworks(): "PhysicalNetworkList"}
	for kind, resource := range irregular {
		lists[resource] = kind + "List"
	}
	for kind, resource := range policy.AdminKinds() {
		lists[resource] = kind + "List"
	}
	for kind, resource := range render.Kinds() {
		lists[resource], irregular[kind] = kind+"List", resource
	}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, admin...)
	for _, o := range others {
		object := o.(*unstructured.Unstructured)
		if err := client.Tracker().Create(irregular[object.GetKind()], object, object.GetNamespace()); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(view.WatchAdminPolicies(t.Context(), client), view.WatchNetworks(t.Context(), client, nil), view.WatchPortMirrors(t.Context(), client)); err != nil {
		t.Fatal(err)
	}
	if err := view.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return facts{ClusterView: view}
}

func decode[T any](t *testing.T, doc string) *T {
	t.Helper()
	var object T
	if err := yaml.UnmarshalStrict([]byte(doc), &object); err != nil {
		t.Fatalf("%v in\n%s", err, doc)
	}
	return &object
}

// dumpRows prints rows sorted: a line for the row, one for each column that is set.
func dumpRows(out *strings.Builder, rows []ovsdb.Row) {
	var dumps []string
	for _, row := range rows {
		var b strings.Builder
		value := reflect.ValueOf(row.Model).Elem()
		fmt.Fprintf(&b, "%s %q", value.Type().Name(), row.ID)
		for _, parent := range row.Parents {
			fmt.Fprintf(&b, " in %s %s %s", parent.Table, parent.Name, parent.Column)
		}
		for _, ref := range row.References {
			fmt.Fprintf(&b, " refers to %s %s", ref.Table, ref.Name)
		}
		b.WriteByte('\n')
		for i := range value.NumField() {
			column := value.Type().Field(i).Tag.Get("ovsdb")
			field := reflect.Indirect(value.Field(i))
			if field.IsValid() && !value.Field(i).IsZero() && column != "_uuid" {
				fmt.Fprintf(&b, "    %s = %v\n", column, field.Interface())
			}
		}
		dumps = append(dumps, b.String())
	}
	slices.Sort(dumps)
	out.WriteString(strings.Join(dumps, ""))
}

func setFile(archive *txtar.Archive, name, data string) {
	for i := range archive.Files {
		if archive.Files[i].Name == name {
			archive.Files[i].Data = []byte(data)
			return
		}
	}
	archive.Files = append(archive.Files, txtar.File{Name: name, Data: bytes.Clone([]byte(data))})
}
