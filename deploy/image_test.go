package deploy

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rendered are the files that `make generate` writes from the chart.
var rendered = []string{"deploy/manifests", "deploy/removal.yaml", "docs/values.md"}

// mentions gives the files below a directory that name the image.
func mentions(t *testing.T, root, image string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if entry.IsDir() && (name == ".git" || name == "_output") {
			return fs.SkipDir
		}
		if !entry.Type().IsRegular() || slices.ContainsFunc(rendered, func(of string) bool { return name == of || filepath.Dir(name) == of }) {
			return nil
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), image) {
			found = append(found, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Everything else has the name from the chart's values, or shows how to name another.
func TestImage_IsNamedByChartOnly(t *testing.T) {
	c, err := Chart()
	if err != nil {
		t.Fatal(err)
	}
	image, _ := c.Values["image"].(map[string]any)
	repository, _ := image["repository"].(string)
	if repository == "" {
		t.Fatal("the chart names no image")
	}
	if found := mentions(t, "..", repository); !slices.Equal(found, []string{"deploy/chart/values.yaml"}) {
		t.Errorf("%s is named in %q", repository, found)
	}
}
