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

// TestStatus_CountsObjectsWithoutEffect: objects of a kind that is not served are one problem, and it is looked for whether they are
// still there.
func TestStatus_CountsObjectsWithoutEffect(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/good.txtar")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.TrimSuffix(string(archive.Files[0].Data), "\n") + "\n"
	for _, namespace := range []string{"shop", "blog"} {
		about := strings.NewReplacer("kind: Pod, namespace: shop, name: web-0", "kind: EgressFirewall, namespace: "+namespace+", name: default",
			"name: "+namespace+"-event, namespace: shop", "name: "+namespace+"-event, namespace: "+namespace)
		text += strings.TrimPrefix(about.Replace(event(namespace+"-event", "Warning", "NotServed", "note: no effect\n"+lately("11:30:00"))), "\n") + "\n"
	}
	s := cluster(t, []byte(text))
	st, err := NewStatus(s)
	if err != nil || st.Code != Degraded || len(st.Problems) != 1 || len(st.Problems[0].Objects) != 2 || st.Problems[0].See != "NotServed" {
		t.Fatalf("%v, exit code %d: %+v", err, st.Code, st.Problems)
	}
	lists, err := Regarded(s)
	if looked := lists["egressfirewalls"]; err != nil || len(looked) != 2 {
		t.Errorf("looked for %v, %v", lists, err)
	}
	s.Known["egressfirewalls"] = true
	if st, err := NewStatus(s); err != nil || st.Code != Good {
		t.Errorf("the objects are gone: %v, exit code %d: %+v", err, st.Code, st.Problems)
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
