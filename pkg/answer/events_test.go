package answer

import (
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// TestStatus_LeavesOutWarningsOfOtherObjects: of a pod that has been made anew with its name. The control is a Warning of the same pod, and
// one whose object an older archive has without its UID.
func TestStatus_LeavesOutWarningsOfOtherObjects(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/good.txtar")
	if err != nil {
		t.Fatal(err)
	}
	good := strings.TrimSuffix(string(archive.Files[0].Data), "\n") + "\n"
	about := strings.TrimPrefix(strings.Replace(event("a", "Warning", "PartRefused", lately("11:30:00")), "name: web-0}", "name: web-0, uid: first}", 1), "\n")
	for uid, want := range map[string]Code{"  uid: second\n": Good, "  uid: first\n": Degraded, "": Degraded} {
		text := strings.Replace(good, "metadata:\n  name: web-0\n", "metadata:\n  name: web-0\n"+uid, 1) + about
		s := cluster(t, []byte(text))
		st, err := NewStatus(s)
		if err != nil || st.Code != want {
			t.Errorf("%q: %v, exit code %d, want %d: %+v", uid, err, st.Code, want, st.Problems)
		}
		lists, err := Regarded(s)
		if err != nil || len(lists) != 1 || len(lists[snapshot.Pods]) != 1 || lists[snapshot.Pods][0] != (snapshot.Selected{Namespace: "shop", Fields: "metadata.name=web-0"}) {
			t.Errorf("looked for: %v, %v", lists, err)
		}
	}
}

// TestRegarded_IsBounded: of a kind with more Warnings than are looked for, all stay.
func TestRegarded_IsBounded(t *testing.T) {
	var text []string
	for i := range maxRegarded + 1 {
		name := "p" + strings.Repeat("x", i)
		text = append(text, strings.TrimPrefix(strings.Replace(event(name, "Warning", "PartRefused", lately("11:30:00")), "name: web-0}", "name: "+name+"}", 1), document))
	}
	for n, want := range map[int]int{maxRegarded: maxRegarded, maxRegarded + 1: 0} {
		lists, err := Regarded(cluster(t, []byte(strings.Join(text[:n], document))))
		if err != nil || len(lists[snapshot.Pods]) != want {
			t.Errorf("%d Warnings: %d are looked for, %v", n, len(lists[snapshot.Pods]), err)
		}
	}
}
