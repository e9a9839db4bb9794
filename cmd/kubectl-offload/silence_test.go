package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// TestSilence_KeepsWhatClientGoLogs from users, as it logs the end of a command in a pod that does not answer.
func TestSilence_KeepsWhatClientGoLogs(t *testing.T) {
	out, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stderr
	os.Stderr = out
	t.Cleanup(func() { os.Stderr = before; klog.ClearLogger() })
	logged := func() string {
		utilruntime.HandleErrorWithLogger(klog.FromContext(t.Context()), errors.New("closed"), "Copying stdout failed")
		klog.Warning("Copying stdout failed")
		text, err := os.ReadFile(out.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	loud := logged()
	if strings.Count(loud, "Copying stdout failed") != 2 {
		t.Errorf("logged %q", loud)
	}
	silence()
	if more := strings.TrimPrefix(logged(), loud); more != "" {
		t.Errorf("logged %q", more)
	}
}
