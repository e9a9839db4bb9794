package contract

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// userList is an annotation in which users write a list.
type userList struct {
	most int
	// value has n elements; parse reads them, of a pod that does not run.
	value func(n int) string
	parse func(value string) error
}

func listOf(n int, begin, form, end string) string {
	elements := make([]string, n)
	for i := range elements {
		elements[i] = strings.ReplaceAll(form, "N", fmt.Sprint(i))
	}
	return begin + strings.Join(elements, ",") + end
}

func annotated(annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "red", Name: "p", Annotations: annotations}}
}

func attachmentsOf(key string) func(value string) error {
	return func(value string) error {
		_, err := Attachments(annotated(map[string]string{key: value}))
		return err
	}
}

// userLists are the lists in annotations of users, by the name of the constant. No reader here: pkg/network has it, with a test.
func userLists() map[string]userList {
	return map[string]userList{
		"NetworksKey": {MaxAttachments, func(n int) string { return listOf(n, "[", `{"name":"nN"}`, "]") }, attachmentsOf(NetworksKey)},
		"DefaultNetworkKey": {1, func(n int) string { return listOf(n, "[", `{"namespace":"ovn-kubernetes","name":"default"}`, "]") }, func(value string) error {
			_, err := OnPrimary(annotated(map[string]string{DefaultNetworkKey: value}))
			return err
		}},
		"NodusNetworksKey": {MaxAttachments, func(n int) string {
			return listOf(n, `{"type":"ovn4nfv","interface":[`, `{"name":"nN","interface":"iN"}`, "]}")
		}, attachmentsOf(NodusNetworksKey)},
		"OVNNetworkKey": {MaxAttachments, func(n int) string { return listOf(n, "[", `{"name":"nN","interface":"iN"}`, "]") }, attachmentsOf(OVNNetworkKey)},
		"OVNRoutesKey": {MaxAskedRoutes, func(n int) string { return listOf(n, "[", `{"dst":"172.16.N.0/24","gw":"10.1.0.1","dev":"net1"}`, "]") }, func(value string) error {
			_, err := Attachments(annotated(map[string]string{NetworksKey: "n", OVNRoutesKey: strings.ReplaceAll(value, "172.16.256.", "172.17.0.")}))
			return err
		}},
		"OpenPortsKey": {MaxOpenPorts, func(n int) string { return listOf(n, "[", `{"protocol":"tcp","port":1N}`, "]") }, func(value string) error {
			_, err := ParseOpenPorts(value)
			return err
		}},
		"PolicyForKey": {MaxPolicyNADs, func(n int) string { return listOf(n, "", "nN", "") }, func(value string) error {
			_, err := ParsePolicyFor(value, "red")
			return err
		}},
		"NamespacesKey": {}, "GatewayKey": {},
	}
}

// userValues are the annotations of users that have one value.
var userValues = []string{
	"GatewayMTUSupportKey", "ACLLoggingKey", "MaxAttachmentsKey", "ResourceNameKey", "ServiceNetworkKey", "ChainFailureKey", "VMAddressKey",
}

// TestUserLists_BeyondTheLimitAreRefused, and at the limit accepted. From half of the limit to the limit, the memory that a
// reader needs grows about as the list does.
func TestUserLists_BeyondTheLimitAreRefused(t *testing.T) {
	for name, list := range userLists() {
		if list.parse == nil {
			continue
		}
		if err := list.parse(list.value(list.most)); err != nil {
			t.Errorf("%s with %d elements: %.300v", name, list.most, err)
		}
		if err := list.parse(list.value(list.most + 1)); err == nil || len(err.Error()) > 500 {
			t.Errorf("%s with %d elements: %.600v", name, list.most+1, err)
		}
		if err := list.parse(list.value(20000)); err == nil || len(err.Error()) > 500 {
			t.Errorf("%s with 20,000 elements: %.600v", name, err)
		}
		if list.most < 64 {
			continue
		}
		allocated := func(n int) uint64 {
			value := list.value(n)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range 20 {
				_ = list.parse(value)
			}
			runtime.ReadMemStats(&after)
			return after.TotalAlloc - before.TotalAlloc
		}
		if half, full := allocated(list.most/2), allocated(list.most); float64(full) > 2.5*float64(half) {
			t.Errorf("%s: %d bytes for half of the elements, %d for all", name, half, full)
		}
	}
}

// BenchmarkUserLists is what a reader costs at the limit: docs/limits.md has the times.
func BenchmarkUserLists(b *testing.B) {
	for name, list := range userLists() {
		if list.parse == nil {
			continue
		}
		value := list.value(list.most)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_ = list.parse(value)
			}
		})
	}
}

// TestUserLists_AreAllThatUsersWrite: each constant whose comment says that a user writes the annotation is a list with a
// limit, or one value.
func TestUserLists_AreAllThatUsersWrite(t *testing.T) {
	lists, found := userLists(), 0
	for name, comment := range commentsOf(t) {
		if !strings.HasSuffix(name, "Key") || !strings.Contains(strings.Join(strings.Fields(comment), " "), "; user") {
			continue
		}
		found++
		if _, isList := lists[name]; isList == slices.Contains(userValues, name) {
			t.Errorf("%s: a user writes it: give it a row in userLists with its limit, or in userValues", name)
		}
	}
	if want := len(lists) + len(userValues); found != want {
		t.Errorf("%d annotations of users are found, and this test knows %d", found, want)
	}
}

// commentsOf are the comments of the constants of this package, by name.
func commentsOf(t *testing.T) map[string]string {
	t.Helper()
	comments := map[string]string{}
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			constants, ok := declaration.(*ast.GenDecl)
			if !ok || constants.Tok != token.CONST {
				continue
			}
			for _, spec := range constants.Specs {
				value := spec.(*ast.ValueSpec)
				comments[value.Names[0].Name] = value.Doc.Text() + constants.Doc.Text()
			}
		}
	}
	return comments
}

// TestSelections_HaveNoOtherLists: each list within an element of an annotation has a limit, too.
func TestSelections_HaveNoOtherLists(t *testing.T) {
	limits := map[string]int{"ips": MaxAskedAddresses, "default-route": 2}
	for _, element := range []reflect.Type{reflect.TypeFor[selection](), reflect.TypeFor[nodusInterface](), reflect.TypeFor[nodusRoute](), reflect.TypeFor[OpenPort]()} {
		for i := range element.NumField() {
			field := element.Field(i)
			if kind := field.Type.Kind(); (kind == reflect.Slice || kind == reflect.Map) && limits[field.Tag.Get("json")] == 0 {
				t.Errorf("%s.%s has no limit", element.Name(), field.Name)
			}
		}
	}
	addresses := func(n int) string {
		return listOf(n, `[{"namespace":"ovn-kubernetes","name":"default","ips":[`, `"10.1.0.N"`, `]}]`)
	}
	routes := `[{"namespace":"ovn-kubernetes","name":"default","default-route":["10.1.0.1","fd00::1"%s]}]`
	for _, key := range []string{NetworksKey, DefaultNetworkKey} {
		parse := userLists()["DefaultNetworkKey"].parse
		if key == NetworksKey {
			parse = attachmentsOf(key)
			if err := parse(fmt.Sprintf(routes, `,"10.1.0.2"`)); err == nil {
				t.Error("three default routes are accepted")
			}
			if err := parse(fmt.Sprintf(routes, "")); err != nil {
				t.Error(err)
			}
		}
		if err := parse(addresses(MaxAskedAddresses)); err != nil {
			t.Errorf("%s with %d addresses: %v", key, MaxAskedAddresses, err)
		}
		if err := parse(addresses(MaxAskedAddresses + 1)); err == nil {
			t.Errorf("%s with %d addresses is accepted", key, MaxAskedAddresses+1)
		}
	}
}
