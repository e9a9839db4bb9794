package main

import (
	"archive/tar"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdxlib"

	"github.com/ovn-offload/ovn-offload/hack/image/product"
)

// base writes a base layer with a dpkg status.
func base(t *testing.T, status string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "base.tar")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w := tar.NewWriter(file)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "./var/lib/dpkg/status", Size: int64(len(status))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(status)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// The program of the bill of materials is this test: its modules are those that it imports.
func TestMaterials_NamePackagesAndModules(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := release{version: "v7.8.9", out: t.TempDir(), suite: "trixie", repository: "registry.example.com/net", Source: product.Source{Created: time.Unix(1e9, 0)}}
	built := product.Built{
		Image:    ocispec.Descriptor{Digest: digest.FromString("image")},
		Base:     base(t, "Package: libstdc++6\nStatus: install ok installed\nArchitecture: arm64\nMaintainer: A <a@example.com>\nVersion: 1:14.2+x-1\n"),
		Programs: []string{self},
	}
	if err := r.materials("arm64", built); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(filepath.Join(r.out, "ovn-offload-v7.8.9-linux-arm64.spdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	doc, err := spdxjson.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := spdxlib.ValidateDocument(doc); err != nil {
		t.Error(err)
	}
	described, err := spdxlib.GetDescribedPackageIDs(doc)
	if err != nil || len(described) != 1 {
		t.Errorf("described: %v, %v", described, err)
	}
	urls := locators(doc)
	for _, want := range []string{
		"pkg:deb/debian/libstdc%2B%2B6@1%3A14.2%2Bx-1?arch=arm64&distro=trixie",
		"pkg:oci/ovn-offload@" + escape(digest.FromString("image").String()) + "?arch=arm64&repository_url=registry.example.com%2Fnet",
		"pkg:golang/github.com/spdx/tools-golang@v0.5.7", "pkg:golang/stdlib@1.",
	} {
		if !slices.ContainsFunc(urls, func(url string) bool { return strings.HasPrefix(url, want) }) {
			t.Errorf("no package %s in %q", want, urls)
		}
	}
}

func locators(doc *spdx.Document) []string {
	var urls []string
	for _, p := range doc.Packages {
		for _, ref := range p.PackageExternalReferences {
			urls = append(urls, ref.Locator)
		}
	}
	return urls
}

func TestMaterials_StopWithoutPackages(t *testing.T) {
	r := release{version: "v7.8.9", out: t.TempDir()}
	if err := r.materials("arm64", product.Built{Image: ocispec.Descriptor{Digest: digest.FromString("image")}, Base: filepath.Join(t.TempDir(), "missing")}); err == nil {
		t.Error("a missing base layer is no error")
	}
	if left, _ := os.ReadDir(r.out); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}
