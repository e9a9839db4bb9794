//go:build e2e

package e2e

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/testbed"
)

var (
	kind     = flag.String("cluster", "lab", "cluster to test: lab, or kind for that of deploy/kind/up and deploy/kind/tools")
	labName  = flag.String("lab", "e2e", "name of the lab; brought up when it is not there")
	smartNIC = flag.Bool("smartnic", false, "add a node that is a virtual machine with a SmartNIC, for TestSmartNIC_KubeletGivesVFsToPods")
	keep     = flag.Bool("keep", false, "leave the lab running")
	families = flag.String("families", "dual", "address families of the lab: ipv4, dual, ipv6")
	upFlags  = flag.String("up", "", "further flags of lab up, with spaces between: --control-planes=3 --pod-cidr=10.244.0.0/21")
)

const (
	system  = "ovn-kubernetes"
	outside = world.Outside
	// flowsWithin is when each answer knows a flow, or knows it no longer: an agent rests up to a minute between
	// two readings of the datapath, where a flow ends ten seconds after its last packet.
	flowsWithin = time.Minute + 10*time.Second + world.Soon
)

var nodes = world.Nodes

// cluster is what all tests share.
var cluster struct {
	testbed.Cluster
	client kubernetes.Interface
	config *rest.Config
	root   string // of the repository
}

func theLab() testbed.Lab { return testbed.Lab{Root: cluster.root, Name: *labName} }

// onlyInLab skips a test that asks more of the machine than the verbs of testbed.Cluster.
func onlyInLab(t *testing.T, why string) {
	t.Helper()
	if *kind != "lab" {
		t.Skip("only in the lab: " + why)
	}
}

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runAll(m *testing.M) (int, error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return 1, err
	}
	cluster.root = root
	switch *kind {
	case "kind":
		if err := choosePortable(); err != nil {
			return 1, err
		}
		dir, err := os.MkdirTemp("", "e2e")
		if err != nil {
			return 1, err
		}
		defer os.RemoveAll(dir)
		if cluster.Cluster, err = testbed.NewKind("ovn", dir); err != nil {
			return 1, err
		}
	case "lab":
		cluster.Cluster = theLab()
		if err := skipFaults(); err != nil {
			return 1, err
		}
		if !*keep {
			defer labCommand(os.Stdout, "down")
		}
		if err := labUp(os.Stdout); err != nil {
			return 1, fmt.Errorf("bringing up the lab: %w", err)
		}
	default:
		return 1, fmt.Errorf("-cluster=%s: want lab or kind", *kind)
	}
	_, kubeconfig := cluster.Kubectl()
	cluster.config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return 1, err
	}
	cluster.config.QPS = -1
	cluster.client, err = kubernetes.NewForConfig(cluster.config)
	if err != nil {
		return 1, err
	}
	world.Join(joined())
	defer world.Leave()
	return m.Run(), nil
}

// sixes says of each of the lab's families whether it is IPv6, in the order in which
// pods have addresses.
func sixes() []bool {
	return map[string][]bool{"ipv4": {false}, "dual": {false, true}, "ipv6": {true}}[*families]
}

// labCommand runs a verb of the lab's own command.
func labCommand(out io.Writer, verb string, args ...string) error {
	return theLab().Command(out, verb, args...)
}

// joined is the cluster for package world.
func joined() world.Cluster {
	c := world.Cluster{Cluster: cluster.Cluster, Client: cluster.client, Config: cluster.config}
	if *kind == "lab" {
		c.InContainer = theLab().RunInContainer
	}
	return c
}

// labUp brings the lab up, or repairs it.
func labUp(out io.Writer, args ...string) error {
	if *upgradeFrom != "" {
		args = append(args, "--product="+*upgradeFrom)
	} else if !withMultus() {
		args = append(args, "--set=networks.native=true")
	}
	return labCommand(out, "up", slices.Concat([]string{"--families=" + *families}, strings.Fields(*upFlags), args)...)
}

// withMultus says that Multus asks for the pods' interfaces on further networks.
func withMultus() bool { return strings.Contains(*upFlags, "--multus") }

// restart kills a component with SIGKILL; what supervises it starts it again.
func restart(t *testing.T, component string) {
	t.Helper()
	if err := cluster.Restart(component); err != nil {
		t.Fatalf("restarting %s: %v", component, err)
	}
}
