package pages

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const page = `# Page

Text, with a list:

1. An item
    that continues.

       kubectl get nodes
       kubectl get pods \
         -A

   <!-- not run here: no node to restart -->

       systemctl restart kubelet

Text.

    kubectl delete pod x

    NAME  READY

    kubectl -n NAMESPACE delete pod POD

` + "```" + `
OVS=$(kubectl get pods -o name)
` + "```" + `

    apiVersion: v1
    kind: Pod
`

func TestBlocks_FindsCommandsAndMarkers(t *testing.T) {
	want := []Block{
		{8, "kubectl get nodes\nkubectl get pods \\\n  -A", ""},
		{14, "systemctl restart kubelet", "no node to restart"},
		{18, "kubectl delete pod x", ""},
		{20, "NAME  READY", ""},
		{22, "kubectl -n NAMESPACE delete pod POD", ""},
		{25, "OVS=$(kubectl get pods -o name)", ""},
		{28, "apiVersion: v1\nkind: Pod", ""},
	}
	all := Blocks(page)
	if diff := cmp.Diff(want, all); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	for i, want := range []struct{ command, runs, object bool }{
		{true, true, false}, {true, false, false}, {true, false, false}, {false, false, false}, {true, true, false}, {true, true, false}, {false, false, true},
	} {
		if got := (struct{ command, runs, object bool }{all[i].IsCommand(), all[i].Runs(), all[i].IsObject()}); got != want {
			t.Errorf("%q: %+v, want %+v", all[i].Text, got, want)
		}
	}
}

func TestPrinted_FindsOutputsWithEmptyLines(t *testing.T) {
	want := map[string]string{"table a": "ONE  TWO\n1    2\n\nTHREE\n  3\n", "last": "4\n"}
	got := Printed("Text:\n\n<!-- printed: table a -->\n\n    ONE  TWO\n    1    2\n\n    THREE\n      3\n\nText.\n\n    no caption\n\n<!-- printed: last -->\n\n    4\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
