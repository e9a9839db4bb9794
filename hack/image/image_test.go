package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/hack/image/debian"
	"github.com/ovn-offload/ovn-offload/hack/image/product"
)

// deploy/Containerfile says what hack/image does.
func TestContainerfile_InstallsSamePackagesAsImage(t *testing.T) {
	text, err := os.ReadFile("../../deploy/Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]bool{}
	for _, word := range strings.Fields(string(text)) {
		words[filepath.Base(word)] = true
	}
	for _, p := range debian.NewBase(debian.DefaultSuite, "amd64", time.Now()).Packages {
		if !words[p] {
			t.Errorf("package %s is missing in the Containerfile", p)
		}
	}
	for _, b := range product.Programs() {
		if !words[b.Name] {
			t.Errorf("binary %s is missing in the Containerfile", b.Name)
		}
	}
}

func TestTag_IsSplitAtItsColon(t *testing.T) {
	for name, want := range map[string][2]string{
		"registry.example.com:5000/net:v1": {"registry.example.com:5000/net", "v1"},
		"net:v1":                           {"net", "v1"},
	} {
		repository, tag, err := options{name: name}.names("")
		if err != nil || repository != want[0] || tag != want[1] {
			t.Errorf("%s: %q, %q: %v", name, repository, tag, err)
		}
	}
	for _, name := range []string{"net", "registry.example.com:5000/net", "net:", ":v1"} {
		if repository, tag, err := (options{name: name}).names(""); err == nil {
			t.Errorf("%s: %q, %q", name, repository, tag)
		}
	}
}
