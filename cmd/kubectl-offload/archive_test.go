package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// archiveOf writes an archive with the traffic of node w1.
func archiveOf(t *testing.T, unread *snapshot.Unread) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dump.tgz")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	s := snapshot.New(time.Now(), "ovn-kubernetes")
	s.Unread = unread
	a, err := snapshot.NewArchive(file, s)
	if err != nil {
		t.Fatal(err)
	}
	share := offload.Share{OVS: offload.Count{Packets: 9}}
	err = a.AddFlows("w1", snapshot.NodeFlows{
		Summary: &flowapi.Summary{Node: "w1", Total: share, Pods: []flowapi.PodSummary{{Namespace: "shop", Name: "web", Traffic: share}}},
		Flows:   []flowapi.Flow{{ID: "a", Node: "w1", From: flowapi.End{Namespace: "shop", Pod: "web"}, Traffic: flowapi.Traffic{Packets: 9}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestArchive_SaysWhichNodesDidNotAnswer with exit code 3, as a cluster does; of nodes that did, the code is 0.
func TestArchive_SaysWhichNodesDidNotAnswer(t *testing.T) {
	line := []string{"node/w2: no answer"}
	whole, partly := archiveOf(t, nil), archiveOf(t, &snapshot.Unread{Flows: line, Summaries: line})
	for _, c := range []struct {
		verb, from string
		code       answer.Code
	}{
		{"flows", whole, answer.Good}, {"flows", partly, answer.Uncertain}, {"flows --node w1", partly, answer.Good}, {"flows --node w2", partly, answer.Uncertain},
		{"top", whole, answer.Good}, {"top", partly, answer.Uncertain}, {"top --by node --node w1", partly, answer.Good},
		{"explain netpol/deny -n shop", whole, answer.Good}, {"explain netpol/deny -n shop", partly, answer.Uncertain},
	} {
		var out bytes.Buffer
		cmd := command()
		cmd.SetOut(&out)
		cmd.SetArgs(append(strings.Fields(c.verb), "--from", c.from))
		code, _ := exitCode(cmd.Execute())
		if code != int(c.code) || strings.Contains(out.String(), "not known: node/w2: no answer") != (c.code == answer.Uncertain) {
			t.Errorf("%s: exit code %d, want %d:\n%s", c.verb, code, c.code, out.String())
		}
	}
}
