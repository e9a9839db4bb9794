package cni

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/cni/shim"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

func contains(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }

func wire(change func(*shim.Request)) []byte {
	r := shim.Request{
		Command: "ADD", ContainerID: sandboxA, Netns: "/run/netns/x", IfName: "eth0",
		Args:   "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web;K8S_POD_UID=" + webUID,
		Config: json.RawMessage(`{"cniVersion":"1.1.0","name":"ovn-kubernetes","mtu":1300}`),
	}
	change(&r)
	b, _ := json.Marshal(r)
	return b
}

func TestParse_ReadsWholeRequest(t *testing.T) {
	got, err := parse(wire(func(*shim.Request) {}))
	must(t, err)
	want := &Request{
		Command: "ADD", Sandbox: sandboxA, Netns: "/run/netns/x", IfName: "eth0", Pod: web, UID: webUID,
		Conf: Conf{CNIVersion: "1.1.0", Name: "ovn-kubernetes", MTU: 1300},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func TestParse_RefusesInvalidRequests(t *testing.T) {
	tests := []struct {
		name   string
		change func(*shim.Request)
		code   uint
		text   string
	}{
		{"container with a path", func(r *shim.Request) { r.ContainerID = "../x" }, 4, "CNI_CONTAINERID"},
		{"long interface", func(r *shim.Request) { r.IfName = "sixteen-letters-" }, 4, "CNI_IFNAME"},
		{"interface with a slash", func(r *shim.Request) { r.IfName = "a/b" }, 4, "CNI_IFNAME"},
		{"host's namespace", func(r *shim.Request) { r.Netns = "/proc/thread-self/ns/net" }, 8, "host's namespace"},
		{"no namespace of the pod", func(r *shim.Request) { r.Args = "K8S_POD_NAME=web" }, 4, "K8S_POD_NAMESPACE"},
		{"slash in the pod's name", func(r *shim.Request) { r.Args = "K8S_POD_NAMESPACE=a;K8S_POD_NAME=b/c" }, 4, "K8S_POD_NAME"},
		{"underscore in the pod's name", func(r *shim.Request) { r.Args = "K8S_POD_NAMESPACE=a;K8S_POD_NAME=b_c" }, 4, "K8S_POD_NAME"},
		{"version", func(r *shim.Request) { r.Config = json.RawMessage(`{"cniVersion":"9.0.0","name":"n"}`) }, 1, "9.0.0"},
		{"no version", func(r *shim.Request) { r.Config = json.RawMessage(`{"name":"n"}`) }, 1, "cniVersion"},
		{"MTU", func(r *shim.Request) { r.Config = json.RawMessage(`{"cniVersion":"1.1.0","name":"n","mtu":-1}`) }, 7, "mtu"},
		{"GC in 1.0.0", func(r *shim.Request) {
			r.Command, r.Config = "GC", json.RawMessage(`{"cniVersion":"1.0.0","name":"n"}`)
		}, 1, "GC needs"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse(wire(tt.change))
			if codeOf(err) != tt.code || !contains(err, tt.text) {
				t.Errorf("error %v with code %d, want %d and %q", err, codeOf(err), tt.code, tt.text)
			}
		})
	}
}

// TestParse_DELNeedsSandboxOnly: nothing that is missing may keep a sandbox from being removed.
func TestParse_DELNeedsSandboxOnly(t *testing.T) {
	got, err := parse(wire(func(r *shim.Request) { r.Command, r.Netns, r.Args = "DEL", "", "" }))
	must(t, err)
	if got.Sandbox != sandboxA || got.Pod != (contract.Owner{}) {
		t.Errorf("request %+v", got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(wire(func(*shim.Request) {}))
	f.Add(wire(func(r *shim.Request) { r.Command = "DEL"; r.Args = "K8S_POD_NAME" }))
	f.Add([]byte(`{"command":"GC","config":{"cniVersion":"1.1.0","name":"n","cni.dev/valid-attachments":[{}]}}`))
	f.Add([]byte(`{"command":"ADD","config":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := parse(body)
		if err != nil {
			if codeOf(err) == 0 {
				t.Errorf("error without a CNI code: %v", err)
			}
			return
		}
		if r.Command == "GC" || r.Command == "STATUS" {
			return
		}
		if link := hostLink(r.Sandbox, r.IfName, ""); link == "" || len(link) > 15 || strings.ContainsAny(link, "/ ") {
			t.Errorf("sandbox %q gives link %q", r.Sandbox, link)
		}
		if r.Pod == (contract.Owner{}) && r.Command == "DEL" {
			return
		}
		if back, err := contract.ParseOwner(r.Pod.String()); err != nil || back != r.Pod {
			t.Errorf("pod %v does not survive as owner %s", r.Pod, r.Pod)
		}
	})
}
