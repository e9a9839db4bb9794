package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"oras.land/oras-go/v2/content"
	layout "oras.land/oras-go/v2/content/oci"

	"github.com/ovn-offload/ovn-offload/deploy"
	"github.com/ovn-offload/ovn-offload/hack/image/product"
)

func TestVersion_IsSemantic(t *testing.T) {
	for version, valid := range map[string]bool{"v0.1.0": true, "v1.2.3-rc.1": true, "0.1.0": false, "v1": false, "v01.2.3": false, "": false, "fc6f1d3": false} {
		if err := checkVersion(version); (err == nil) != valid {
			t.Errorf("version %q: %v", version, err)
		}
	}
}

func TestNotes_AreSectionOfVersion(t *testing.T) {
	log := "# Changelog\n\n## [Unreleased]\n\n- later\n\n## [0.2.0] - 2027-01-01\n\n### Added\n\n- this\n\n## [0.1.0]\n\n- before\n"
	got, err := section(log, "0.2.0")
	if err != nil || got != "### Added\n\n- this\n" {
		t.Errorf("%q: %v", got, err)
	}
	if got, err := section(log, "0.1.0"); err != nil || got != "- before\n" {
		t.Errorf("the last section: %q: %v", got, err)
	}
	for name, log := range map[string]string{"no section": log, "an empty one": "## [0.3.0]\n\n## [0.1.0]\n\n- text\n"} {
		if got, err := section(log, "0.3.0"); err == nil {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestChangelog_HasVersionOfChart(t *testing.T) {
	c, err := deploy.Chart()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := section(string(text), c.Metadata.Version); err != nil {
		t.Error(err)
	}
}

func TestChecksums_AreThoseOfSha256sum(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func() error {
		cmd := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
		cmd.Dir = dir
		return cmd.Run()
	}
	if err := checksums(dir); err != nil {
		t.Fatal(err)
	}
	if err := check(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "b"), []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if check() == nil {
		t.Error("a changed file passes")
	}
}

// chartRelease writes the chart's files of a release and gives their directory.
func chartRelease(t *testing.T) string {
	t.Helper()
	r := release{version: "v7.8.9", out: t.TempDir(), Source: product.Source{Created: time.Unix(1e9, 0)}}
	if err := r.chart(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r.out
}

func TestChart_HasVersionOfReleaseInAllForms(t *testing.T) {
	ctx := t.Context()
	dir := chartRelease(t)
	c, err := loader.LoadFile(filepath.Join(dir, "ovn-offload-7.8.9.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Metadata.Version != "7.8.9" || c.Metadata.AppVersion != "v7.8.9" {
		t.Errorf("metadata %+v", c.Metadata)
	}
	tree, err := deploy.Chart()
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Templates) != len(tree.Templates) || len(c.Schema) == 0 {
		t.Errorf("%d templates, %d in the tree; %d bytes of schema", len(c.Templates), len(tree.Templates), len(c.Schema))
	}
	manifests, err := os.ReadFile(filepath.Join(dir, "install.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(manifests), "/ovn-offload:v7.8.9\n"); n < 8 || strings.Contains(string(manifests), tree.Metadata.AppVersion) {
		t.Errorf("install.yaml names the image of the release %d times", n)
	}

	store, err := layout.NewFromTar(ctx, filepath.Join(dir, "ovn-offload-chart-7.8.9.oci.tar"))
	if err != nil {
		t.Fatal(err)
	}
	root, err := store.Resolve(ctx, "7.8.9")
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := content.Successors(ctx, store, root)
	if err != nil || len(blobs) != 2 || blobs[0].MediaType != chartConfig || blobs[1].MediaType != chartContent {
		t.Fatalf("blobs of the artifact: %+v, %v", blobs, err)
	}
	got, err := content.FetchAll(ctx, store, blobs[1])
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(dir, "ovn-offload-7.8.9.tgz"))
	if err != nil || string(got) != string(want) {
		t.Errorf("the artifact and the archive differ: %v", err)
	}
}

func TestChart_IsEqualInEachRun(t *testing.T) {
	sums := func() string {
		dir := chartRelease(t)
		if err := checksums(dir); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	first := sums()
	time.Sleep(1100 * time.Millisecond) // times in archives have seconds
	if diff := cmp.Diff(first, sums()); diff != "" || first == "" {
		t.Errorf("checksums of two runs (-first +second):\n%s", diff)
	}
}
