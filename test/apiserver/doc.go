// Package apiserver tests what needs a real API server and no node: rights, admission, quotas, and what the controller
// writes into objects. No test looks at a packet.
//
// Place in the data flow: the test binary starts itself again in namespaces of its own. There it runs etcd,
// kube-apiserver and kube-controller-manager from the lab's cache, with the arguments of the lab, and creates the
// objects of the chart without its workloads. The controller and the signer of chassis certificates run in the test's
// process, with tokens of their accounts, over a real ovsdb-server. Nodes are objects with the annotations that agents
// would write. Pods are objects that name such a node; none of them runs.
//
// All processes end with the test binary, also when it is killed: they share its PID namespace. Files are in a tmpfs of
// its mount namespace, but for the logs in _output/apiserver.
//
// The tests have the build tag apiserver, because they need root and the lab's cache:
//
//	go test -tags apiserver -count=1 ./test/apiserver
package apiserver
