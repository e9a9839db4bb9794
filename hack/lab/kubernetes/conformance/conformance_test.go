// Package conformance is Kubernetes' own end to end tests of the network, as one test binary: the suite of
// k8s.io/kubernetes/test/e2e with no other test sources than those of the network. `lab conformance` builds and runs it.
package conformance

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"testing"

	"k8s.io/kubernetes/test/e2e"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	"k8s.io/kubernetes/test/e2e/framework/testfiles"
	manifests "k8s.io/kubernetes/test/e2e/testing-manifests"
	"k8s.io/kubernetes/test/utils/image"

	_ "k8s.io/kubernetes/test/e2e/framework/debug/init"
	_ "k8s.io/kubernetes/test/e2e/framework/metrics/init"
	_ "k8s.io/kubernetes/test/e2e/framework/node/init"
	_ "k8s.io/kubernetes/test/e2e/network"
)

func TestMain(m *testing.M) {
	images := flag.Bool("images", false, "print the names of the images that the tests of the network use, and end")
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	if *images {
		if err := json.NewEncoder(os.Stdout).Encode(imageNames()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	testfiles.AddFileSource(manifests.GetE2ETestingManifestsFS())
	framework.AfterReadingAllFlags(&framework.TestContext)
	os.Exit(m.Run())
}

func TestE2E(t *testing.T) { e2e.RunE2ETests(t) }

// imageNames maps what an image is to the name that the tests of this version use.
func imageNames() map[string]string {
	names := map[string]string{}
	for kind, id := range map[string]image.ImageID{
		"agnhost": image.Agnhost, "busybox": image.BusyBox, "dns": image.GlibcDnsTesting, "nginx": image.Nginx,
		"pause": image.Pause, "regression-issue-74839": image.RegressionIssue74839,
	} {
		names[kind] = image.GetE2EImage(id)
	}
	return names
}
