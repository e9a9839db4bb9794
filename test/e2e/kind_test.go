//go:build e2e

package e2e

import (
	"flag"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// portable are the tests that run on kind, too: they ask for nothing but the API,
// commands on nodes and the external host, and take the cluster's addresses from it.
func portable() []func(*testing.T) {
	return []func(*testing.T){
		TestPod_ReachesEveryPod, TestPod_UnusedPortDoesNotAnswer, TestNode_ReachesItsPods, TestPod_ReachesOutsideAsItsNode,
		TestPod_ReachesOwnAndOtherNodes, TestDNS_PodResolvesServiceNames, TestNetworkPolicy_AllowsItsPeersOnly,
		TestNetworkPolicy_HoldsForServices,
		TestNetworkPolicy_NewPodIsNeverOpen, TestNetworkPolicy_StopsRunningStreams, TestNetworkPolicy_StopsStreamsOfServer,
		TestService_AnswersAtItsOwnAddress, TestService_AnswersAtNodePorts, TestHostPort_AnswersItsClients,
	}
}

// choosePortable has a run without -run run those only.
func choosePortable() error {
	run := flag.Lookup("test.run")
	if run.Value.String() != "" {
		return nil
	}
	var names []string
	for _, test := range portable() {
		name := runtime.FuncForPC(reflect.ValueOf(test).Pointer()).Name()
		names = append(names, name[strings.LastIndex(name, ".")+1:])
	}
	return run.Value.Set("^(" + strings.Join(names, "|") + ")$")
}
