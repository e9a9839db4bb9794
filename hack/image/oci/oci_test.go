package oci

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/memory"
	layout "oras.land/oras-go/v2/content/oci"
)

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func files(t *testing.T, l Layer) map[string]string {
	t.Helper()
	file, err := os.Open(l.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var content io.Reader = file
	if l.Blob.MediaType == ocispec.MediaTypeImageLayerGzip {
		if content, err = gzip.NewReader(file); err != nil {
			t.Fatal(err)
		}
	}
	found := map[string]string{}
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		found[h.FileInfo().Mode().String()+" "+h.Name] = string(text)
	}
}

func TestFiles_HoldTreeAndProgramsReproducibly(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/rootfs/usr/local/bin/start", "#!", 0o755)
	write(t, dir+"/rootfs/etc/a.conf", "a", 0o600)
	write(t, dir+"/bins/agent", "binary", 0o700)
	first, err := Files(dir+"/1.tar", dir+"/rootfs", dir+"/bins", []string{"agent"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"-rwxr-xr-x usr/local/bin/start": "#!", "-rw-r--r-- etc/a.conf": "a", "-rwxr-xr-x usr/local/bin/agent": "binary"}
	if diff := cmp.Diff(want, files(t, first)); diff != "" {
		t.Errorf("layer (-want +got):\n%s", diff)
	}
	if err := os.Chtimes(dir+"/bins/agent", time.Time{}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	again, err := Files(dir+"/2.tar", dir+"/rootfs", dir+"/bins", []string{"agent"})
	if err != nil || again.Blob.Digest != first.Blob.Digest {
		t.Errorf("equal content, digests %s and %s (%v)", first.Blob.Digest, again.Blob.Digest, err)
	}
	small, err := Compress(first, dir+"/1.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, files(t, small)); diff != "" || small.DiffID != first.Blob.Digest || small.Blob.Digest == first.Blob.Digest {
		t.Errorf("compressed layer %+v (-want +got):\n%s", small, diff)
	}
	if _, err := Files(dir+"/3.tar", dir+"/rootfs", dir+"/bins", []string{"missing"}); err == nil {
		t.Error("a missing program was no error")
	}
}

// twoImages writes an archive with an index of two images and gives its path.
func twoImages(t *testing.T, content string) string {
	t.Helper()
	dir := t.TempDir()
	out := filepath.Join(dir, "out", "image.tar")
	a, err := Create(out)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Discard()
	var images []ocispec.Descriptor
	for _, arch := range []string{"amd64", "arm64"} {
		write(t, dir+"/rootfs/name", content+arch, 0o644)
		write(t, dir+"/rootfs/same", content, 0o644)
		layer, err := Files(filepath.Join(dir, arch), dir+"/rootfs", dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		image, err := a.Image(t.Context(), Config{Arch: arch, Created: time.Unix(1e9, 0), Labels: map[string]string{"version": "v1"}}, layer)
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, image)
	}
	index, err := a.Index(t.Context(), nil, images...)
	if err != nil {
		t.Fatal(err)
	}
	a.Name(index, "registry.example.com/net", "v1")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	return out
}

// The library of another project reads the archive, and checks size and digest of each blob.
func TestArchive_IsLayoutWithIndexOfImages(t *testing.T) {
	ctx := t.Context()
	out := twoImages(t, "a")
	store, err := layout.NewFromTar(ctx, out)
	if err != nil {
		t.Fatal(err)
	}
	copied := memory.New()
	root, err := oras.Copy(ctx, store, "v1", copied, "v1", oras.DefaultCopyOptions)
	if err != nil {
		t.Fatal(err)
	}
	var index ocispec.Index
	fetch(ctx, t, copied, root, &index)
	if root.Annotations["io.containerd.image.name"] != "registry.example.com/net:v1" || len(index.Manifests) != 2 {
		t.Fatalf("root %+v, index %+v", root, index)
	}
	for i, arch := range []string{"amd64", "arm64"} {
		var manifest ocispec.Manifest
		fetch(ctx, t, copied, index.Manifests[i], &manifest)
		var config ocispec.Image
		fetch(ctx, t, copied, manifest.Config, &config)
		if index.Manifests[i].Platform.Architecture != arch || config.Architecture != arch || config.Config.Labels["version"] != "v1" {
			t.Errorf("image %d: platform %+v, configuration %+v", i, index.Manifests[i].Platform, config)
		}
		text, err := content.FetchAll(ctx, copied, manifest.Layers[0])
		if err != nil || !strings.Contains(string(text), "a"+arch) || config.RootFS.DiffIDs[0] != manifest.Layers[0].Digest {
			t.Errorf("layer of %s: %v, difference %s", arch, err, config.RootFS.DiffIDs[0])
		}
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(out), ".archive-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

func fetch(ctx context.Context, t *testing.T, from content.Fetcher, blob ocispec.Descriptor, value any) {
	t.Helper()
	text, err := content.FetchAll(ctx, from, blob)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, value); err != nil {
		t.Fatal(err)
	}
}

func TestArchive_IsEqualForEqualContent(t *testing.T) {
	read := func(content string) digest.Digest {
		text, err := os.ReadFile(twoImages(t, content))
		if err != nil {
			t.Fatal(err)
		}
		return digest.FromBytes(text)
	}
	if first, again := read("a"), read("a"); first != again {
		t.Errorf("equal content gives %s and %s", first, again)
	}
	if first, other := read("a"), read("b"); first == other {
		t.Error("other content gives the same archive")
	}
}

func TestArchive_RefusesContentWithAnotherDigest(t *testing.T) {
	out := filepath.Join(t.TempDir(), "image.tar")
	a, err := Create(out)
	if err != nil {
		t.Fatal(err)
	}
	blob := ocispec.Descriptor{Digest: digest.FromString("wanted"), Size: 5}
	if err := a.Push(t.Context(), blob, strings.NewReader("other")); err == nil {
		t.Error("the content was taken")
	}
	a.Discard()
	if left, _ := os.ReadDir(filepath.Dir(out)); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}
