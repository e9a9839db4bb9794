package main

import (
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestWorkflow_PublishesThisRelease: the workflow cannot run here. Its YAML can be read, and its commands use the files
// that a release has.
func TestWorkflow_PublishesThisRelease(t *testing.T) {
	text, err := os.ReadFile("../../.github/workflows/release.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var workflow struct {
		Jobs map[string]struct {
			Steps []struct{ Run string }
		}
	}
	if err := yaml.Unmarshal(text, &workflow); err != nil {
		t.Fatal(err)
	}
	var commands strings.Builder
	for _, step := range workflow.Jobs["release"].Steps {
		commands.WriteString(step.Run + "\n")
	}
	for _, want := range []string{
		`make release VERSION="$VERSION"`, "image.txt", "ovn-offload-$VERSION.oci.tar", "ovn-offload-$VERSION-linux-$arch.spdx.json",
		"ovn-offload-${VERSION#v}.tgz", "RELEASE_NOTES.md", "SHA256SUMS",
	} {
		if !strings.Contains(commands.String(), want) {
			t.Errorf("no command has %s", want)
		}
	}
}
