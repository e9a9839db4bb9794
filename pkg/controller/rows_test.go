package controller

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/policy"
)

// rows is every row of every table, sorted, a line for each. A row that another
// refers to is called by its owner and id there, or by its name: no UUIDs.
func (w *world) rows() []string {
	w.t.Helper()
	var lines []string
	rows, names := w.read()
	for _, row := range rows {
		line := row["table"].(string)
		if line == nb.NBGlobalTable { // it says who leads
			continue
		}
		for _, column := range slices.Sorted(maps.Keys(row)) {
			if text := plain(row[column], names); column != "_uuid" && column != "table" && text != "" {
				line += " " + column + "=" + text
			}
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

// read gives the database's rows, with their tables, and the rows' names by UUID.
func (w *world) read() (rows []map[string]any, names map[string]string) {
	names = map[string]string{}
	for decoder := json.NewDecoder(strings.NewReader(w.server.Content())); decoder.More(); {
		var table struct {
			Caption  string
			Headings []string
			Data     [][]any
		}
		if err := decoder.Decode(&table); err != nil {
			w.t.Fatal(err)
		}
		for _, values := range table.Data {
			row := map[string]any{"table": strings.TrimSuffix(table.Caption, " table")}
			for i, column := range table.Headings {
				row[column] = values[i]
			}
			uuid := row["_uuid"].([]any)[1].(string)
			if names[uuid] = plain(row["name"], nil); row["external_ids"] != nil {
				ids := asMap(row["external_ids"])
				names[uuid] = strings.TrimSpace(ids[ovsdb.OwnerKey] + " " + ids[ovsdb.IDKey])
			}
			rows = append(rows, row)
		}
	}
	return rows, names
}

// asMap reads OVSDB's notation of a map of texts.
func asMap(value any) map[string]string {
	out := map[string]string{}
	for _, pair := range value.([]any)[1].([]any) {
		out[pair.([]any)[0].(string)] = pair.([]any)[1].(string)
	}
	return out
}

// plain writes a value of OVSDB's notation, "" one that is not set. A reference to a row that is not there is none: ovsdb-server 3.5 had
// one in a port group in one of some 50 histories, of which its client knew nothing, and ovn-northd sees none.
func plain(value any, names map[string]string) string {
	pair, ok := value.([]any)
	if !ok {
		return strings.TrimPrefix(fmt.Sprint(value), "<nil>")
	}
	var texts []string
	switch pair[0] {
	case "uuid":
		name, exists := names[pair[1].(string)]
		if exists && name == "" {
			return fmt.Sprint(pair[1])
		}
		return name
	case "map":
		for key, value := range asMap(value) {
			texts = append(texts, key+"="+value)
		}
	default:
		for _, member := range pair[1].([]any) {
			if text := plain(member, names); text != "" {
				texts = append(texts, text)
			}
		}
	}
	if len(texts) == 0 {
		return ""
	}
	slices.Sort(texts)
	return "{" + strings.Join(texts, "; ") + "}"
}

// hasRow says that some row has all these texts.
func (w *world) hasRow(texts ...string) bool {
	w.t.Helper()
	return slices.ContainsFunc(w.rows(), func(row string) bool {
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(row, text) })
	})
}

// endsAs waits until the database holds what a fresh controller has written for the
// same objects, row by row, and neither has anything left to do.
func (w *world) endsAs(fresh *world) {
	w.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		want, got := fresh.rows(), w.rows()
		settled := w.settled() && fresh.settled()
		if settled && slices.Equal(want, got) {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("settled: %t; rows that are missing:\n%s\nrows that should not be there:\n%s", settled, without(want, got), without(got, want))
		}
	}
}

// without lists the rows that are not among others.
func without(rows, others []string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(rows), func(row string) bool { return slices.Contains(others, row) }), "\n")
}

// defaultPort is the owner of a pod's port on the default network.
var defaultPort = regexp.MustCompile(`Pod/[^@"]+"`)

// settled says that no owner waits for its turn and that every pod has its port on the default network.
func (w *world) settled() bool {
	pods, err := w.client.CoreV1().Pods("").List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	ports := 0
	for i := range pods.Items {
		if contract.WantsNetwork(&pods.Items[i]) {
			ports++
		}
	}
	return dirtyKeys(w.t, w.registry) == 0 && len(defaultPort.FindAllString(w.server.Dump("Logical_Switch_Port", "external_ids"), -1)) == ports
}

// objects is what the API holds, for another world, once it is all that the
// controller makes of it: every pod has its address.
func (w *world) objects() []runtime.Object {
	w.t.Helper()
	ctx := w.t.Context()
	w.eventually("addresses for all pods", func() bool {
		pods, _ := w.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		return !slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool {
			return contract.WantsNetwork(&p) && p.Annotations[contract.PodNetworksKey] == ""
		})
	})
	nodes, _ := w.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	namespaces, _ := w.client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	pods, _ := w.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	policies, _ := w.client.NetworkingV1().NetworkPolicies("").List(ctx, metav1.ListOptions{})
	services, _ := w.client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	endpoints, _ := w.client.DiscoveryV1().EndpointSlices("").List(ctx, metav1.ListOptions{})
	return slices.Concat(pointers(nodes.Items), pointers(namespaces.Items), pointers(pods.Items),
		pointers(policies.Items), pointers(services.Items), pointers(endpoints.Items))
}

// clusterPolicies are those of the API for the whole cluster.
func (w *world) clusterPolicies() (all []runtime.Object) {
	for _, resource := range policy.AdminKinds() {
		list, err := w.policies.Resource(resource).List(w.t.Context(), metav1.ListOptions{})
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, pointers[unstructured.Unstructured](list.Items)...)
	}
	return all
}

// pointers are those to a list's items.
func pointers[T any, P interface {
	*T
	runtime.Object
}](items []T) []runtime.Object {
	var all []runtime.Object
	for i := range items {
		all = append(all, P(&items[i]))
	}
	return all
}
