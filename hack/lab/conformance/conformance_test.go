package conformance

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSkipList_IsValid(t *testing.T) {
	if _, err := parseSkips(skipList); err != nil {
		t.Fatal(err)
	}
}

func TestParseSkips_RefusesBadLines(t *testing.T) {
	for name, text := range map[string]string{
		"no reason":          "- test: SCTP",
		"no test":            "- reason: because",
		"unknown key":        "- {test: SCTP, reason: because, familes: [ipv4]}",
		"no regular express": "- {test: '[', reason: because}",
		"no such datapath":   "- {test: SCTP, reason: because, datapath: kernel}",
	} {
		if got, err := parseSkips([]byte(text)); err == nil {
			t.Errorf("%s: got %+v, want an error", name, got)
		}
	}
}

func TestSkips_OfALab(t *testing.T) {
	list, err := parseSkips([]byte(`
- {test: all, reason: r}
- {test: single, reason: r, families: [ipv4, ipv6]}
- {test: fragments, reason: r, datapath: userspace}
`))
	if err != nil {
		t.Fatal(err)
	}
	for lab, want := range map[[2]string][]string{
		{"ipv4", ""}: {"all", "single"}, {"dual", ""}: {"all"}, {"dual", userspace}: {"all", "fragments"},
	} {
		var got []string
		for _, line := range list.of(lab[0], lab[1]) {
			got = append(got, line.Test)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", lab, diff)
		}
	}
}

// What ginkgo writes, cut to what is read.
const report = `[{"SpecReports": [
 {"LeafNodeType": "SynchronizedBeforeSuite", "State": "passed"},
 {"LeafNodeType": "It", "ContainerHierarchyTexts": ["[sig-node] Pods"], "ContainerHierarchyLabels": [["sig-node"]], "LeafNodeText": "run", "State": "skipped"},
 {"LeafNodeType": "It", "ContainerHierarchyTexts": ["[sig-network] DNS"], "ContainerHierarchyLabels": [["sig-network"]], "LeafNodeText": "resolves", "State": "passed", "RunTime": 2000000000},
 {"LeafNodeType": "It", "ContainerHierarchyTexts": ["[sig-network] Services"], "ContainerHierarchyLabels": [["sig-network"]], "LeafNodeText": "works", "State": "timedout",
  "Failure": {"Message": "no answer\nafter 2 m", "Location": {"FileName": "/x/service.go", "LineNumber": 7}}},
 {"LeafNodeType": "It", "ContainerHierarchyTexts": ["[sig-network] Services"], "ContainerHierarchyLabels": [["sig-network"]], "LeafNodeText": "SCTP", "State": "skipped"},
 {"LeafNodeType": "It", "ContainerHierarchyTexts": ["[sig-network] Services"], "ContainerHierarchyLabels": [["sig-network"]], "LeafNodeText": "on gce", "State": "skipped",
  "Failure": {"Message": "only on gce"}}
]}]`

func TestTable_OfAReport(t *testing.T) {
	list, err := parseSkips([]byte(`[{test: SCTP, reason: no sockets}, {test: other, reason: nothing has this name}]`))
	if err != nil {
		t.Fatal(err)
	}
	specs, err := parseReport([]byte(report))
	if err != nil {
		t.Fatal(err)
	}
	tab := newTable(specs, list)
	var out strings.Builder
	if err := tab.write(&out, time.Minute); err != nil {
		t.Fatal(err)
	}
	want := `passed                1
failed                1
skipped by skip.yaml  1
skipped by themselves 1
time                  1m0s
SKIP 1 SCTP: no sockets
SKIP 1 by themselves: only on gce
SLOW 2s [sig-network] DNS resolves
FAIL 0s [sig-network] Services works service.go:7: no answer
`
	if diff := cmp.Diff(strings.Fields(want), strings.Fields(out.String())); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"other"}, tab.unusedLines()); diff != "" {
		t.Error(diff)
	}
}
