package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/util"

	"github.com/ovn-offload/ovn-offload/deploy"
	"github.com/ovn-offload/ovn-offload/hack/image/oci"
	"github.com/ovn-offload/ovn-offload/hack/image/product"
)

// Media types of a chart in a registry: https://helm.sh/docs/topics/registries
const (
	chartConfig  = "application/vnd.cncf.helm.config.v1+json"
	chartContent = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// chart writes the chart as Helm's archive and as an OCI archive, and what it renders for kubectl.
func (r *release) chart(ctx context.Context) error {
	c, err := deploy.Chart()
	if err != nil {
		return err
	}
	stamp(c, r.version, r.Created)
	return product.Step("chart "+c.Metadata.Version, func() error {
		archive, err := util.Save(c, r.out)
		if err != nil {
			return err
		}
		if err := chartArchive(ctx, c, archive, filepath.Join(r.out, "ovn-offload-chart-"+c.Metadata.Version+".oci.tar")); err != nil {
			return fmt.Errorf("writing the chart's OCI archive: %w", err)
		}
		return r.manifests(c)
	})
}

// stamp gives the chart its version, the image's tag, and a time to all of its files.
func stamp(c *chart.Chart, version string, at time.Time) {
	c.Metadata.Version, c.Metadata.AppVersion = strings.TrimPrefix(version, "v"), version
	c.ModTime, c.SchemaModTime = at, at
	for _, file := range slices.Concat(c.Raw, c.Templates, c.Files) {
		file.ModTime = at
	}
}

// chartArchive writes a chart as Helm pushes it to a registry.
func chartArchive(ctx context.Context, c *chart.Chart, from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	archive, err := oci.Create(to)
	if err != nil {
		return err
	}
	defer archive.Discard()
	layer := ocispec.Descriptor{MediaType: chartContent, Digest: digest.FromBytes(content), Size: int64(len(content))}
	if err := archive.Push(ctx, layer, bytes.NewReader(content)); err != nil {
		return err
	}
	config, err := archive.PushJSON(ctx, chartConfig, c.Metadata)
	if err != nil {
		return err
	}
	manifest, err := archive.PushJSON(ctx, ocispec.MediaTypeImageManifest, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: config, Layers: []ocispec.Descriptor{layer},
		Annotations: map[string]string{
			ocispec.AnnotationTitle: c.Metadata.Name, ocispec.AnnotationVersion: c.Metadata.Version, ocispec.AnnotationDescription: c.Metadata.Description,
			ocispec.AnnotationURL: c.Metadata.Home, ocispec.AnnotationCreated: c.ModTime.UTC().Format(time.RFC3339),
		},
	})
	if err != nil {
		return err
	}
	archive.Name(manifest, c.Metadata.Name, c.Metadata.Version)
	return archive.Close()
}

// manifests writes install.yaml and removal.yaml, the chart rendered as in deploy/manifests.
func (r *release) manifests(c *chart.Chart) error {
	rendered, err := deploy.RenderChart(c, deploy.Example())
	if err != nil {
		return err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "# ovn-offload %s for kubectl apply --server-side. First replace API-SERVER and CONTROL-PLANE by addresses.\n", r.version)
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		fmt.Fprintf(&text, "---\n%s", rendered[name])
	}
	if err := r.write("install.yaml", text.String()); err != nil {
		return err
	}
	removal, err := deploy.RenderRemoval(c, deploy.Example())
	if err != nil {
		return err
	}
	return r.write("removal.yaml", removal)
}
