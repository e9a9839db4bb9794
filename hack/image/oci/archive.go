// Package oci writes images as OCI archives: an OCI image layout in one tar file. `ctr images import`, skopeo, oras and
// podman read them.
//
//	directories and binaries -> Files -> Layer, several -> Archive.Image, for each architecture -> Archive.Index -> file
//
// Equal content gives an equal archive: owners are root, and times are given.
package oci

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// containerdName is the annotation by which containerd names an image that it imports.
const containerdName = "io.containerd.image.name"

// Archive is an OCI archive that is being written. Its file appears when Close succeeds.
type Archive struct {
	path   string
	file   *os.File
	tar    *tar.Writer
	pushed map[digest.Digest]bool
	index  ocispec.Index
}

// Create begins an archive at a path.
func Create(path string) (*Archive, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".archive-*")
	if err != nil {
		return nil, err
	}
	index := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex}
	return &Archive{path: path, file: file, tar: tar.NewWriter(file), pushed: map[digest.Digest]bool{}, index: index}, nil
}

// Push writes a blob. The archive has each blob once.
func (a *Archive) Push(_ context.Context, blob ocispec.Descriptor, content io.Reader) error {
	if a.pushed[blob.Digest] {
		return nil
	}
	verifier := blob.Digest.Verifier()
	name := filepath.Join(ocispec.ImageBlobsDir, blob.Digest.Algorithm().String(), blob.Digest.Encoded())
	if err := a.add(name, blob.Size, io.TeeReader(content, verifier)); err != nil {
		return fmt.Errorf("writing %s: %w", blob.Digest, err)
	}
	if !verifier.Verified() {
		return fmt.Errorf("writing %s: the content has another digest", blob.Digest)
	}
	a.pushed[blob.Digest] = true
	return nil
}

// PushJSON writes a value as a blob in JSON.
func (a *Archive) PushJSON(ctx context.Context, mediaType string, value any) (ocispec.Descriptor, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	blob := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(text), Size: int64(len(text))}
	return blob, a.Push(ctx, blob, bytes.NewReader(text))
}

// Name gives a pushed manifest or index a name with a tag.
func (a *Archive) Name(blob ocispec.Descriptor, repository, tag string) {
	blob.Annotations = map[string]string{containerdName: repository + ":" + tag, ocispec.AnnotationRefName: tag}
	a.index.Manifests = append(a.index.Manifests, blob)
}

// Close completes the archive.
func (a *Archive) Close() error {
	if err := a.addJSON(ocispec.ImageLayoutFile, ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion}); err != nil {
		return err
	}
	if err := a.addJSON(ocispec.ImageIndexFile, a.index); err != nil {
		return err
	}
	if err := a.tar.Close(); err != nil {
		return err
	}
	if err := a.file.Chmod(0o644); err != nil {
		return err
	}
	if err := a.file.Close(); err != nil {
		return err
	}
	return os.Rename(a.file.Name(), a.path)
}

// Discard removes what was written, unless Close has succeeded.
func (a *Archive) Discard() {
	_, _ = a.file.Close(), os.Remove(a.file.Name())
}

func (a *Archive) addJSON(name string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return a.add(name, int64(len(text)), bytes.NewReader(text))
}

func (a *Archive) add(name string, size int64, content io.Reader) error {
	if err := a.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size}); err != nil {
		return err
	}
	_, err := io.Copy(a.tar, content)
	return err
}
