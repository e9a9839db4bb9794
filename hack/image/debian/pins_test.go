package debian

import (
	"archive/tar"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const status = `Package: openvswitch-switch
Status: install ok installed
Architecture: amd64
Version: 3.5.0-1+b1
Description: switch
 Version: 9 is text

Package: ovn-host
Status: install ok installed
Version: 25.03.0-1

Package: removed
Status: deinstall ok config-files
Version: 1
`

func layerWith(t *testing.T, name, content string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "layer.tar")
	f, err := os.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := tar.NewWriter(f)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPins_StopBaseWithOtherVersion(t *testing.T) {
	layer := layerWith(t, "./var/lib/dpkg/status", status)
	for name, c := range map[string]struct {
		pins map[string]string
		want []string // parts of the error; none: no error
	}{
		"equal, and a rebuild":  {pins: map[string]string{"openvswitch-switch": "3.5.0-1", "ovn-host": "25.03.0-1"}},
		"another revision":      {map[string]string{"ovn-host": "25.03.0-1+deb13u1"}, []string{"ovn-host has version 25.03.0-1,", "pins.txt has 25.03.0-1+deb13u1"}},
		"two other versions":    {map[string]string{"ovn-host": "26.03.0-1", "openvswitch-switch": "3.6.0-1"}, []string{"ovn-host", "openvswitch-switch"}},
		"a package that is not": {map[string]string{"ovn-central": "25.03.0-1"}, []string{"ovn-central 25.03.0-1 is not installed"}},
		"a removed package":     {map[string]string{"removed": "1"}, []string{"removed 1 is not installed"}},
	} {
		err := checkPins(layer, c.pins)
		if len(c.want) == 0 && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, part := range c.want {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: error %v, want %q in it", name, err, part)
			}
		}
	}
	if err := checkPins(layerWith(t, "./etc/passwd", ""), map[string]string{"ovn-host": "25.03.0-1"}); err == nil {
		t.Error("a base without a dpkg status passes")
	}
}

func TestPins_AreOfOneSuite(t *testing.T) {
	text := "# comment\n\ntrixie ovn-host 1\nsid ovn-host 2\n"
	got, err := pinsOf(text, "sid")
	if diff := cmp.Diff(map[string]string{"ovn-host": "2"}, got); err != nil || diff != "" {
		t.Errorf("pins of sid: %v, %s", err, diff)
	}
	if _, err := pinsOf(text, "bookworm"); err == nil {
		t.Error("a suite without pins is no error")
	}
	if _, err := pinsOf("trixie ovn-host\n", "trixie"); err == nil {
		t.Error("a line without a version is no error")
	}
}

// What the image installs of OVS and OVN has a pin in each suite.
func TestPins_CoverDaemonsOfImage(t *testing.T) {
	for _, suite := range Suites() {
		pins, err := pinsOf(pinsText, suite)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"openvswitch-switch", "ovn-central", "ovn-host"} {
			if pins[name] == "" {
				t.Errorf("package %s has no pin in Debian %s", name, suite)
			}
		}
	}
}

func TestInstalled_GivesPackagesOfStatus(t *testing.T) {
	got, err := Installed(layerWith(t, "./var/lib/dpkg/status", status))
	want := []Package{{Name: "openvswitch-switch", Version: "3.5.0-1+b1", Arch: "amd64"}, {Name: "ovn-host", Version: "25.03.0-1"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, packages (-want +got):\n%s", err, diff)
	}
}
