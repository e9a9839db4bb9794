package sysdump

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

func TestNodes_NamesThoseThatAreLeftOut(t *testing.T) {
	nodes, left := Nodes([]string{"w1", "w2"}, []string{"w2"})
	if !slices.Equal(nodes, []string{"w2"}) || !slices.Equal(left, []string{"node/w1: not in this archive"}) {
		t.Errorf("%q, %q", nodes, left)
	}
	if nodes, left = Nodes([]string{"w1", "w2"}, nil); len(nodes) != 2 || len(left) != 0 {
		t.Errorf("%q, %q", nodes, left)
	}
}

// TestSample_TroubledNodesComeBeforeOthers, those of the controllers before them; and of few nodes all are taken.
func TestSample_TroubledNodesComeBeforeOthers(t *testing.T) {
	var all []string
	for i := range 2000 {
		all = append(all, fmt.Sprintf("w%04d", i))
	}
	master := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "ovnkube-master"}}, Spec: corev1.PodSpec{NodeName: "w1999"}}
	agent := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "ovnkube-node"}}, Spec: corev1.PodSpec{NodeName: "w0001"}}
	pods := []corev1.Pod{master, master, agent}
	want := []string{"w1999", "w0007", "w0003", "w0000", "w0400"}
	if got := Sample(all, pods, []string{"w0007", "gone", "w0003", "w0007"}, 5); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := Sample(all, pods, all, 3); !slices.Equal(got, []string{"w1999", "w0000", "w0001"}) {
		t.Errorf("of many with problems: %v", got)
	}
	if got := Sample(all[:5], pods, nil, 5); got != nil {
		t.Errorf("of few: %v", got)
	}
}

// TestCollectNodes_EndsAtTheSize: nodes that come later are named, and not asked.
func TestCollectNodes_EndsAtTheSize(t *testing.T) {
	for most, want := range map[int64]int{0: 0, 1 << 30: 40} {
		var out bytes.Buffer
		size := &counter{to: &out}
		archive, err := snapshot.NewArchive(size, snapshot.New(time.Unix(0, 0), "ovn-kubernetes"))
		if err != nil {
			t.Fatal(err)
		}
		o := Options{MaxSize: most, Progress: io.Discard}
		for i := range 40 {
			o.Nodes = append(o.Nodes, fmt.Sprint("w", i))
		}
		asked := make(chan string, 40)
		collect := func(node string) []file {
			asked <- node
			return []file{{name: "nodes/" + node + "/routes.txt", text: []byte(node)}}
		}
		if err := o.collectNodes(collect, archive, size); err != nil {
			t.Fatal(err)
		}
		if err := archive.Close(); err != nil {
			t.Fatal(err)
		}
		names := strings.Join(slices.Collect(maps.Keys(filesOf(t, &out))), " ")
		if n := strings.Count(names, "nodes/"); n != want || len(asked) != want || strings.Contains(names, "left-out.txt") == (want == 40) {
			t.Errorf("at most %d bytes: %d nodes, %d asked: %s", most, n, len(asked), names)
		}
	}
}

// filesOf are the files of an archive.
func filesOf(t *testing.T, archive io.Reader) map[string]string {
	t.Helper()
	unzipped, err := gzip.NewReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]string{}
	for files := tar.NewReader(unzipped); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return of
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		of[header.Name] = string(text)
	}
}
