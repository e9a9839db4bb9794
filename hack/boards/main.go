// Command boards writes what is made from deploy/monitoring: the chart's boards and rules, and the list of metrics in
// docs/metrics.md. It runs in deploy, before the chart is compiled into the program that renders it.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ovn-offload/ovn-offload/deploy/monitoring"
)

func main() {
	if err := errors.Join(files("chart"), page("../docs/metrics.md")); err != nil {
		fmt.Fprintln(os.Stderr, "boards:", err)
		os.Exit(1)
	}
}

// files replaces the boards and rules of the chart.
func files(chart string) error {
	wanted, err := monitoring.Files()
	if err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(chart, "files/dashboards")); err != nil {
		return err
	}
	for name, text := range wanted {
		path := filepath.Join(chart, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// page replaces the list of metrics.
func page(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, err = monitoring.WithList(text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, text, 0o644)
}
