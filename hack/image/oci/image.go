package oci

import (
	"context"
	"os"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Layer is a layer of an image in a file: a tar archive, compressed or not.
type Layer struct {
	Path   string
	Blob   ocispec.Descriptor
	DiffID digest.Digest // digest of the content without compression
}

// Config is what an image says about itself.
type Config struct {
	Arch    string // GOARCH
	Created time.Time
	Labels  map[string]string
}

// Image writes layers, configuration and manifest of an image for one architecture.
func (a *Archive) Image(ctx context.Context, c Config, layers ...Layer) (ocispec.Descriptor, error) {
	platform := ocispec.Platform{Architecture: c.Arch, OS: "linux"}
	created := c.Created.UTC()
	config := ocispec.Image{Created: &created, Platform: platform, RootFS: ocispec.RootFS{Type: "layers"}, Config: ocispec.ImageConfig{
		Env:    []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		Labels: c.Labels,
	}}
	manifest := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest}
	for _, l := range layers {
		if err := a.pushFile(ctx, l.Blob, l.Path); err != nil {
			return ocispec.Descriptor{}, err
		}
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, l.DiffID)
		manifest.Layers = append(manifest.Layers, l.Blob)
	}
	var err error
	if manifest.Config, err = a.PushJSON(ctx, ocispec.MediaTypeImageConfig, config); err != nil {
		return ocispec.Descriptor{}, err
	}
	image, err := a.PushJSON(ctx, ocispec.MediaTypeImageManifest, manifest)
	image.Platform = &platform
	return image, err
}

// Index writes the index of the images for several architectures.
func (a *Archive) Index(ctx context.Context, annotations map[string]string, images ...ocispec.Descriptor) (ocispec.Descriptor, error) {
	index := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: images, Annotations: annotations}
	return a.PushJSON(ctx, ocispec.MediaTypeImageIndex, index)
}

func (a *Archive) pushFile(ctx context.Context, blob ocispec.Descriptor, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return a.Push(ctx, blob, file)
}
