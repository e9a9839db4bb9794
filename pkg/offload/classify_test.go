package offload

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/offload/dpflow"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

var update = flag.Bool("update", false, "write the testdata again")

func TestClassify_FlowsOfEachDump(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 8 {
		t.Fatalf("testdata: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := show(classifyArchive(t, archive))
			want := &archive.Files[len(archive.Files)-1]
			if *update {
				want.Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(want.Data), got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// The order of a dump says nothing, so it must not change anything.
func TestClassify_OrderOfDumpChangesNothing(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/unknown.txtar")
	if err != nil {
		t.Fatal(err)
	}
	ports, settings, flows := parts(t, archive)
	want := show(Classify(slices.Values(flows), ports, settings))
	slices.Reverse(flows)
	if diff := cmp.Diff(want, show(Classify(slices.Values(flows), ports, settings))); diff != "" {
		t.Errorf("-forward +backward\n%s", diff)
	}
}

func TestPorts_OfInterfaceRows(t *testing.T) {
	ports := Ports([]*vswitch.Interface{
		{Name: "rep0", ExternalIDs: map[string]string{ovsdb.OwnerKey: "Pod/shop/web"}},
		{Name: "ovn-k8s-mp0", Type: "internal", ExternalIDs: map[string]string{"iface-id": "k8s-worker"}},
		{Name: "ovn-1-0", Type: "geneve"},
		{Name: "foreign", ExternalIDs: map[string]string{"iface-id": "shop_db"}},
	}, map[string]Device{"rep0": {Representor: true, Function: true}})
	want := []Port{
		{Name: "rep0", Pod: contract.PodOwner("shop", "web"), Device: Device{Representor: true, Function: true}},
		{Name: "ovn-k8s-mp0", Type: "internal"},
		{Name: "ovn-1-0", Type: "geneve"},
		{Name: "foreign"},
	}
	if diff := cmp.Diff(want, ports); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	lacks := []string{}
	for _, p := range ports {
		lacks = append(lacks, p.lacks())
	}
	if diff := cmp.Diff([]string{noHWTC, isInternal, "", noDevice}, lacks); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestReport_JSONHasSettingsAndReasons(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/skip-sw.txtar")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(classifyArchive(t, archive))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"settings":{"hwOffload":true,"policy":"skip_sw"}`, `"reason":"earlier-stage"`, `"hardware":{"flows":`} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if bytes.Contains(text, []byte("UFID")) {
		t.Error("the ends are in the JSON text")
	}
}

func classifyArchive(t *testing.T, a *txtar.Archive) Report {
	t.Helper()
	ports, settings, flows := parts(t, a)
	return Classify(slices.Values(flows), ports, settings)
}

func parts(t *testing.T, a *txtar.Archive) ([]Port, Settings, []dpflow.Flow) {
	t.Helper()
	observed := Observed{OtherConfig: map[string]string{}}
	var ports []Port
	var flows []dpflow.Flow
	for _, file := range a.Files {
		for line := range strings.Lines(string(file.Data)) {
			line = strings.TrimSpace(line)
			switch file.Name {
			case "settings":
				if line == "running:" { // nothing of it
					observed.Running = map[string]string{}
				} else if line == "no recirculation" {
					observed.NoRecirculation = true
				} else if key, value, ok := strings.Cut(line, "="); ok {
					observed.OtherConfig[key] = value
				}
			case "ports":
				ports = append(ports, parsePort(line))
			case "flows":
				if dpflow.Heading(line) {
					continue
				}
				f, err := dpflow.Parse(line)
				if err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				flows = append(flows, f)
			}
		}
	}
	return ports, observed.Settings(), flows
}

// parsePort reads "name namespace/pod type trait,trait", "-" being nothing.
func parsePort(line string) Port {
	fields := strings.SplitN(line, " ", 4)
	p := Port{Name: fields[0]}
	if namespace, name, ok := strings.Cut(fields[1], "/"); ok {
		p.Pod = contract.PodOwner(namespace, name)
	}
	p.Type = strings.Trim(fields[2], "-")
	if len(fields) < 4 {
		return p
	}
	for trait := range strings.SplitSeq(fields[3], ",") {
		switch trait {
		case "representor":
			p.Representor = true
		case "hwtc":
			p.HWTC = true
		case "function":
			p.Function = true
		default:
			p.Limit = strings.TrimPrefix(trait, "limit=")
		}
	}
	return p
}

func show(r Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "node%s\n", showShare(&r.Total))
	showCauses(&b, r.Outside)
	for _, p := range r.Ports {
		if p.From.Sum().Flows+p.To.Sum().Flows == 0 {
			continue
		}
		fmt.Fprintf(&b, "%s from%s to%s\n", p.Name, showShare(&p.From), showShare(&p.To))
		showCauses(&b, p.Outside)
	}
	return b.String()
}

func showShare(s *Share) string {
	var b strings.Builder
	for _, p := range Places() {
		if c := s.At(p); c.Flows > 0 {
			fmt.Fprintf(&b, " %s:%d/%dp", p, c.Flows, c.Packets)
		}
	}
	if b.Len() == 0 {
		return " -"
	}
	return b.String()
}

func showCauses(b *strings.Builder, list []Cause) {
	for _, c := range list {
		fmt.Fprintf(b, "  %s %q: %d flows, %d packets\n", c.Reason, c.Detail, c.Flows, c.Packets)
	}
}
