// Package deploy renders the Helm chart in deploy/chart, the one source of the manifests.
//
//	chart + values -> Render -> deploy/manifests, and the objects that tests look at
//
// The chart looks up facts of its cluster when Helm installs it. Here is no cluster, so values have to name them.
package deploy

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	ci "helm.sh/helm/v4/pkg/chart"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

// Namespace is the only namespace that the chart can be installed in.
const Namespace = "ovn-kubernetes"

const (
	removal = "95-removal.yaml" // the file of the hooks before the chart is removed
	tests   = "/tests/"         // the directory of helm test
)

//go:generate go run -C ../hack/crds .
//go:generate go run ../hack/boards
//go:generate go run ../hack/manifests
//go:embed all:chart
var files embed.FS

// Example is the values of deploy/manifests. API-SERVER and CONTROL-PLANE stand for addresses of a cluster.
func Example() map[string]any {
	return map[string]any{
		"apiServer": "https://API-SERVER:6443",
		"databases": map[string]any{"address": "CONTROL-PLANE"},
		"namespace": map[string]any{"create": true},
	}
}

// Chart reads the chart.
func Chart() (*chart.Chart, error) {
	var buffered []*archive.BufferedFile
	err := fs.WalkDir(files, "chart", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := files.ReadFile(name)
		buffered = append(buffered, &archive.BufferedFile{Name: strings.TrimPrefix(name, "chart/"), Data: data})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the chart: %w", err)
	}
	return loader.LoadFiles(buffered)
}

// Render gives the chart's manifests by file name, such as "10-config.yaml". Values are those of a values file; wrong
// ones are an error with the path of the value. Files without an object and hooks are left out.
func Render(values map[string]any) (map[string]string, error) {
	c, err := Chart()
	if err != nil {
		return nil, err
	}
	return RenderChart(c, values)
}

// RenderChart does so for a chart that was read, with another version for example.
func RenderChart(c *chart.Chart, values map[string]any) (map[string]string, error) {
	manifests, err := render(c, values)
	delete(manifests, removal)
	return manifests, err
}

// Removal gives the manifests of the hooks that Helm runs before it removes the chart.
func Removal(values map[string]any) (string, error) {
	c, err := Chart()
	if err != nil {
		return "", err
	}
	return RenderRemoval(c, values)
}

// RenderRemoval does so for a chart that was read.
func RenderRemoval(c *chart.Chart, values map[string]any) (string, error) {
	manifests, err := render(c, values)
	return manifests[removal], err
}

// render is for a cluster with further kinds, such as monitoring.coreos.com/v1.
func render(c *chart.Chart, values map[string]any, kinds ...string) (map[string]string, error) {
	return renderWith(c, values, engine.Render, kinds...)
}

// renderWith renders a chart by a function of Helm's engine.
func renderWith(c *chart.Chart, values map[string]any, engine func(ci.Charter, common.Values) (map[string]string, error), kinds ...string) (map[string]string, error) {
	release := common.ReleaseOptions{Name: "ovn-offload", Namespace: Namespace, Revision: 1, IsInstall: true}
	capabilities := *common.DefaultCapabilities
	capabilities.APIVersions = append(slices.Clone(capabilities.APIVersions), kinds...)
	all, err := util.ToRenderValues(c, values, release, &capabilities)
	if err != nil {
		return nil, err
	}
	rendered, err := engine(c, all)
	if err != nil {
		return nil, err
	}
	manifests := map[string]string{}
	for name, text := range rendered {
		if path.Ext(name) == ".yaml" && strings.Contains(text, "kind:") && !strings.Contains(name, tests) {
			manifests[path.Base(name)] = strings.TrimPrefix(strings.TrimSpace(text), "---\n") + "\n"
		}
	}
	return manifests, nil
}
