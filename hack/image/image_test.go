package main

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func readTar(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	files := map[string]string{}
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[fmt.Sprintf("%o %s", h.Mode, h.Name)] = string(content)
	}
}

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func TestProductLayer_HoldsFilesAndBinariesReproducibly(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/rootfs/usr/local/bin/start", "#!", 0o755)
	write(t, dir+"/rootfs/etc/a.conf", "a", 0o600)
	write(t, dir+"/bins/agent", "binary", 0o700)
	first, err := writeProductLayer(dir+"/1.tar", dir+"/rootfs", dir+"/bins", []string{"agent"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"755 usr/local/bin/start": "#!", "644 etc/a.conf": "a", "755 usr/local/bin/agent": "binary"}
	if diff := cmp.Diff(want, readTar(t, first.path)); diff != "" {
		t.Errorf("layer (-want +got):\n%s", diff)
	}
	os.Chtimes(dir+"/bins/agent", time.Time{}, time.Now().Add(time.Hour))
	again, err := writeProductLayer(dir+"/2.tar", dir+"/rootfs", dir+"/bins", []string{"agent"})
	if err != nil || again.digest != first.digest {
		t.Errorf("equal content, digests %s and %s (%v)", first.digest, again.digest, err)
	}
	if _, err := writeProductLayer(dir+"/3.tar", dir+"/rootfs", dir+"/bins", []string{"missing"}); err == nil {
		t.Error("a missing binary was no error")
	}
}

// The archive holds what its manifest names, under the digests that it claims.
func TestImageArchive_ManifestNamesDigestsOfContent(t *testing.T) {
	dir := t.TempDir()
	var layers []layer
	for _, content := range []string{"base", "ours"} {
		path := filepath.Join(dir, content)
		write(t, path, content, 0o644)
		digest, err := fileDigest(path)
		if err != nil {
			t.Fatal(err)
		}
		layers = append(layers, layer{path, digest})
	}
	o := options{out: dir + "/out/image.tar", tag: "name:tag", version: "v1", arch: "amd64"}
	if err := writeArchive(o, layers...); err != nil {
		t.Fatal(err)
	}
	files := readTar(t, o.out)
	var entries []archiveEntry
	if err := json.Unmarshal([]byte(files["644 manifest.json"]), &entries); err != nil || len(entries) != 1 {
		t.Fatalf("manifest %q: %v", files["644 manifest.json"], err)
	}
	rawConfig := files["644 "+entries[0].Config]
	if want := fmt.Sprintf("%x.json", sha256.Sum256([]byte(rawConfig))); entries[0].Config != want {
		t.Errorf("config is named %s, want %s", entries[0].Config, want)
	}
	var config imageConfig
	if err := json.Unmarshal([]byte(rawConfig), &config); err != nil {
		t.Fatal(err)
	}
	for i, content := range []string{"base", "ours"} {
		got := files["644 "+entries[0].Layers[i]]
		if want := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(got))); got != content || config.RootFS.DiffIDs[i] != want {
			t.Errorf("layer %d is %q with %s, want %q with %s", i, got, config.RootFS.DiffIDs[i], content, want)
		}
	}
	if entries[0].RepoTags[0] != "name:tag" || config.Config.Labels["org.opencontainers.image.version"] != "v1" {
		t.Errorf("tags %v, labels %v", entries[0].RepoTags, config.Config.Labels)
	}
	left, _ := filepath.Glob(dir + "/out/.image-*")
	if len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestBaseKey_ChangesWeeklyAndWithContent(t *testing.T) {
	monday := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	key := defaultBase("amd64", monday).key()
	if other := defaultBase("amd64", monday.Add(7*24*time.Hour-time.Second)).key(); other != key {
		t.Error("the key changed within the week")
	}
	changed := defaultBase("amd64", monday)
	changed.packages = append(changed.packages, "more")
	for name, b := range map[string]base{
		"week": defaultBase("amd64", monday.AddDate(0, 0, 7)), "arch": defaultBase("arm64", monday), "packages": changed,
	} {
		if b.key() == key {
			t.Errorf("another %s, the same key", name)
		}
	}
}

func TestDefaultTag_HasRepositoryOfChart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "values.yaml")
	write(t, file, "image: {repository: registry.example.com/net, tag: v1}\n", 0o644)
	if tag, err := defaultTag(file); err != nil || tag != "registry.example.com/net:dev" {
		t.Errorf("tag %q: %v", tag, err)
	}
	write(t, file, "image: {tag: v1}\n", 0o644)
	if tag, err := defaultTag(file); err == nil {
		t.Errorf("values without a repository give %q", tag)
	}
}

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
	for _, p := range defaultBase("amd64", time.Now()).packages {
		if !words[p] {
			t.Errorf("package %s is missing in the Containerfile", p)
		}
	}
	for _, b := range binaries {
		if !words[b[0]] {
			t.Errorf("binary %s is missing in the Containerfile", b[0])
		}
	}
}
