// Command manifests writes what is made from the chart: deploy/manifests and deploy/removal.yaml, for kubectl apply, and
// docs/values.md and docs/api.md, from the schemas of the values and of the CRDs. It runs in deploy.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ovn-offload/ovn-offload/deploy"
)

func main() {
	err := errors.Join(manifests("manifests"), removal("removal.yaml"),
		page("../docs/values.md", deploy.ValuesPage), page("../docs/api.md", deploy.APIPage))
	if err != nil {
		fmt.Fprintln(os.Stderr, "manifests:", err)
		os.Exit(1)
	}
}

// manifests replaces the files of a directory.
func manifests(dir string) error {
	rendered, err := deploy.Render(deploy.Example())
	if err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return err
	}
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	for name, text := range rendered {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func removal(path string) error {
	text, err := deploy.Removal(deploy.Example())
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

func page(path string, text func() (string, error)) error {
	content, err := text()
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(content), 0o644)
}
