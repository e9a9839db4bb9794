package cnifiles

import (
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/node/nodetest"
)

// former is the file of an agent before lists.
const former = `{"cniVersion":"1.1.0","name":"ovn-kubernetes","type":"ovn-k8s-cni-overlay"}`

// put makes a directory with files.
func put(t *testing.T, files map[string]string) Dir {
	t.Helper()
	d := Dir{Path: t.TempDir(), Managed: true}
	for name, text := range files {
		nodetest.Must(t, os.WriteFile(filepath.Join(d.Path, name), []byte(text), 0o600))
	}
	return d
}

// files reads a directory. The white space at the end of a file is left out.
func files(t *testing.T, d Dir) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(d.Path)
	nodetest.Must(t, err)
	found := map[string]string{}
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(d.Path, entry.Name()))
		nodetest.Must(t, err)
		found[entry.Name()] = strings.TrimSpace(string(text))
	}
	return found
}

func TestWrite_KeepsPluginsOfOthers(t *testing.T) {
	const (
		own     = `{"cniVersion":"1.1.0","name":"ovn-kubernetes","plugins":[{"type":"ovn-k8s-cni-overlay"}]}`
		chained = `{"name": "ovn-kubernetes", "cniVersion": "1.0.0", "plugins": [{"type":"ovn-k8s-cni-overlay"}, {"type":"tuning","sysctl":{"a":"1"}}]}`
		multus  = `{"type":"multus-shim","clusterNetwork":"/host/etc/cni/net.d/10-ovn-kubernetes.conf"}`
		later   = `{"type":"multus-shim","clusterNetwork":"/host/etc/cni/net.d/10-ovn-kubernetes.conflist"}`
	)
	for name, tt := range map[string]struct{ before, after map[string]string }{
		"new node":                    {nil, map[string]string{listName: own}},
		"agent before lists":          {map[string]string{formerName: former}, map[string]string{listName: own}},
		"chained":                     {map[string]string{listName: chained}, map[string]string{listName: chained}},
		"chained, agent before lists": {map[string]string{listName: chained, formerName: former}, map[string]string{listName: chained}},
		"chained, other settings of ours": {
			map[string]string{listName: `{"disableCheck":true,"plugins":[{"type":"ovn-k8s-cni-overlay","logLevel":"5"},{"type":"tuning"}]}`},
			map[string]string{listName: `{"cniVersion":"1.1.0","disableCheck":true,"name":"ovn-kubernetes","plugins":[{"type":"ovn-k8s-cni-overlay"},{"type":"tuning"}]}`},
		},
		"another file not valid": {map[string]string{"20-flannel.conflist": "", formerName: former}, map[string]string{"20-flannel.conflist": "", listName: own}},
		"not valid":              {map[string]string{listName: `{"plugins":[{"type":"ovn-k8s-cni-overlay"},`}, map[string]string{listName: own}},
		"another plugin first":   {map[string]string{listName: `{"plugins":[{"type":"tuning"},{"type":"ovn-k8s-cni-overlay"}]}`}, map[string]string{listName: own}},
		"Multus names the list":  {map[string]string{"00-multus.conf": later, formerName: former}, map[string]string{"00-multus.conf": later, listName: own}},
		"Multus names the former file": {
			map[string]string{"00-multus.conf": multus, formerName: former},
			map[string]string{"00-multus.conf": multus, formerName: former, listName: own},
		},
	} {
		d := put(t, tt.before)
		for range 2 {
			nodetest.Must(t, d.Write(slog.New(slog.DiscardHandler)))
			if diff := cmp.Diff(tt.after, files(t, d)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		nodetest.Must(t, d.Remove())
		nodetest.Must(t, d.Remove())
		maps.DeleteFunc(tt.after, func(name, _ string) bool { return name == listName || name == formerName })
		if diff := cmp.Diff(tt.after, files(t, d)); diff != "" {
			t.Errorf("%s: after the removal (-want +got):\n%s", name, diff)
		}
	}
}

// TestFollowFormer_RemovesFileOnceUnused: Multus, when it starts again, makes its file of the first one that it finds. A
// file that is being written counts as one that names the former file.
func TestFollowFormer_RemovesFileOnceUnused(t *testing.T) {
	d := put(t, map[string]string{"00-multus.conf": `{"type":"multus","clusterNetwork":"/etc/cni/net.d/10-ovn-kubernetes.conf"}`, formerName: former})
	log := slog.New(slog.DiscardHandler)
	nodetest.Must(t, d.Write(log))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.FollowFormer(t.Context(), log)
	}()
	multus := filepath.Join(d.Path, "00-multus.conf")
	for _, text := range []string{"", `{"type":"multus","clu`, `{"type":"multus","clusterNetwork":"/host/etc/cni/net.d/10-ovn-kubernetes.conf"}`} {
		nodetest.Must(t, os.WriteFile(multus, []byte(text), 0o600))
		select {
		case <-ended:
			t.Fatalf("the former file is removed beside %q", text)
		case <-time.After(20 * time.Millisecond):
		}
	}
	nodetest.Must(t, os.Remove(multus))
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("the former file is followed after Multus has ended")
	}
	if _, ok := files(t, d)[formerName]; ok {
		t.Error("the former file stays after Multus has ended")
	}
}

func TestCheck_NamesFileOfOtherNetwork(t *testing.T) {
	d := put(t, map[string]string{
		"00-readme.txt": "", "05-calico.conf.bak": "", "20-flannel.conflist": "",
		"00-multus.conf":     `{"cniVersion":"1.0.0","name":"multus-cni-network","type":"multus-shim"}`,
		"01-multus.conflist": `{"plugins":[{"type":"multus"}]}`,
		"02-ours.conflist":   `{"plugins":[{"type":"ovn-k8s-cni-overlay"},{"type":"tuning"}]}`,
	})
	nodetest.Must(t, d.Write(slog.New(slog.DiscardHandler)))
	nodetest.Must(t, d.Check())
	if others, err := Others(d.Path); err != nil || !slices.Equal(others, []string{"20-flannel.conflist"}) {
		t.Errorf("other networks: %q, %v", others, err)
	}
	nodetest.Must(t, os.WriteFile(filepath.Join(d.Path, "10-calico.conflist"), nil, 0o600))
	if err := d.Check(); err == nil || !strings.Contains(err.Error(), "10-calico.conflist, which comes before 10-ovn-kubernetes.conflist") {
		t.Errorf("with a configuration of Calico: %v", err)
	}
}

// TestDir_OfAnAdministratorStays: nothing is written or removed, and the error says which file is needed.
func TestDir_OfAnAdministratorStays(t *testing.T) {
	for name, tt := range map[string]struct {
		files map[string]string
		want  string
	}{
		"none":              {map[string]string{}, "whose first plugin has the type ovn-k8s-cni-overlay, or set cni.manageConf to true"},
		"ours later":        {map[string]string{"20-a.conf": `{"type":"bridge"}`, "30-b.conflist": `{"plugins":[{"type":"ovn-k8s-cni-overlay"}]}`}, "20-a.conf, whose first plugin is another network's"},
		"ours":              {map[string]string{"30-b.conflist": `{"plugins":[{"type":"ovn-k8s-cni-overlay"}]}`}, ""},
		"the former's name": {map[string]string{formerName: former}, ""},
	} {
		d := put(t, tt.files)
		d.Managed = false
		nodetest.Must(t, d.Write(slog.New(slog.DiscardHandler)))
		if err := d.Check(); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		nodetest.Must(t, d.Remove())
		if diff := cmp.Diff(tt.files, files(t, d)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
