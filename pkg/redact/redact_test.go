package redact

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/ovn-offload/ovn-offload/docs"
	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/selected"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
)

// objects are a small cluster whose names and addresses have a canary, but for pod/web and namespace/shop, whose names are words of
// the documentation, and for those of the network's own pods.
const objects = `
nodes:
- metadata:
    name: canarynode-1
    labels: {kubernetes.io/hostname: canarynode-1, topology.kubernetes.io/zone: canaryzone, kubernetes.io/os: linux}
    annotations: {k8s.ovn.org/node-subnets: '{"default":["198.18.7.0/24"]}'}
  status:
    addresses: [{type: InternalIP, address: 198.19.0.7}, {type: Hostname, address: canarynode-1.canary.example}]
    conditions: [{type: Ready, status: "True"}]
namespaces:
- metadata: {name: canaryns, labels: {kubernetes.io/metadata.name: canaryns}}
- metadata: {name: shop}
pods:
- metadata:
    name: canarypod-0
    namespace: canaryns
    labels: {app: canaryapp}
    ownerReferences: [{kind: StatefulSet, name: canarypod}]
    annotations: {k8s.ovn.org/pod-networks: '{"default":{"ip_addresses":["198.18.7.9/24"],"mac_address":"0a:58:c6:12:07:09","gateway_ips":["198.18.7.1"]},"canaryns/canarynet":{"ip_addresses":["2001:db8:7::9/64"],"mac_address":"0a:58:01:02:03:04"}}'}
  spec: {nodeName: canarynode-1, containers: [{name: canarycontainer, image: canary.example/api:v1}]}
  status: {phase: Running, podIPs: [{ip: 198.18.7.9}]}
- metadata:
    name: web
    namespace: shop
    labels: {app: canaryweb}
    annotations: {k8s.ovn.org/pod-networks: '{"default":{"ip_addresses":["198.18.7.8/24"],"mac_address":"0a:58:c6:12:07:08","gateway_ips":["198.18.7.1"]}}'}
  spec: {nodeName: canarynode-1}
  status: {phase: Running}
- metadata: {name: ovnkube-node-x, namespace: ovn-kubernetes, labels: {app: ovnkube-node}}
  spec: {nodeName: canarynode-1, hostNetwork: true}
  status: {phase: Running}
services:
- metadata: {name: canarysvc, namespace: canaryns}
  spec: {clusterIPs: [198.20.0.44], selector: {app: canaryapp}, externalName: www.canary.example}
networkpolicies:
- metadata: {name: canarypolicy, namespace: canaryns}
  spec: {podSelector: {matchExpressions: [{key: app, operator: In, values: [canaryapp]}]}, ingress: [{from: [{ipBlock: {cidr: 198.18.7.0/28}}]}]}
nodeoffloads:
- metadata: {name: canarynode-1}
  status:
    offload: "on"
    devices: [{name: "0000:3b:00.0", mode: switchdev, link: up, numa: 0, maxVFs: 8, vfs: {total: 8, used: 1, reserved: 0, free: 7}}]
    deviceCount: 1
    vfs: {total: 8, used: 1, reserved: 0, free: 7}
    usedVFs: [{device: "0000:3b:00.3", pf: "0000:3b:00.0", pod: canaryns/canarypod-0, representor: pf0vf1, phase: attached}]
    hardwarePercent: 60
    traffic: [{pod: canaryns/canarypod-0, port: pf0vf1, flows: {hardware: 60, tc: 40, ovs: 0}, packets: {hardware: 60, tc: 40, ovs: 0}, outside: [{reason: action, detail: hash(l4)}]}]
events:
- metadata: {name: canarypod-0.18a, namespace: canaryns}
  type: Warning
  reason: NetworkFailed
  note: 'binding canaryns_canarypod-0 (198.18.7.9): the node canarynode-1 has no gateway 198.18.7.1'
  regarding: {kind: Pod, namespace: canaryns, name: canarypod-0}
  eventTime: "2026-03-01T11:59:00.000000Z"
leases:
- metadata: {name: ovn-kubernetes-master, namespace: ovn-kubernetes}
  spec: {holderIdentity: canarynode-1-12-34, leaseDurationSeconds: 15, renewTime: "2026-03-01T11:59:55.000000Z"}
`

var words = sync.OnceValue(func() map[string]bool { return Words(docs.Texts()...) })

func cluster(t *testing.T) *snapshot.Snapshot {
	t.Helper()
	var lists map[snapshot.Resource][]map[string]any
	if err := yaml.Unmarshal([]byte(objects), &lists); err != nil {
		t.Fatal(err)
	}
	s := snapshot.New(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), "ovn-kubernetes")
	for r, list := range lists {
		for _, object := range list {
			s.Add(r, object)
		}
	}
	s.Unread = &snapshot.Unread{Flows: []string{"node/canarynode-1: no answer of 198.19.0.7:9416"}}
	return s
}

// flows are those of canarypod-0 to the pod shop/web.
func flows() []flowapi.Flow {
	end := func(namespace, pod string) flowapi.End {
		return flowapi.End{Port: "veth", Namespace: namespace, Pod: pod}
	}
	rule := flowapi.Rule{Cookie: 0x12345678, Name: &flowapi.Name{Stage: "ls_out_acl_eval", Row: "ACL", What: "ingress policy: allow-related", Objects: []string{"NetworkPolicy/canaryns/canarypolicy"}}}
	port := flowapi.Rule{Cookie: 0x2, Name: &flowapi.Name{Stage: "port_binding", Row: "Port_Binding", What: "stor-canarynode-1", Objects: []string{"Node/canarynode-1"}}}
	return []flowapi.Flow{{
		ID: "8153cb36-ae1c-4686-a9b3-d49f037972d3", Node: "canarynode-1", From: end("canaryns", "canarypod-0"), To: []flowapi.End{end("shop", "web")},
		Packet: flowapi.Packet{Protocol: "tcp", Source: "198.18.7.9", Target: "198.18.7.8", TargetPort: "5432", Direction: flowapi.Original},
		Placed: flowapi.Placed{Place: offload.TC, Reason: offload.ReasonAction, Detail: "hash(l4)"}, Traffic: flowapi.Traffic{Packets: 7},
		Actions: "set(eth(src=0a:58:c6:12:07:09)),set_field:0a:58:c6:12:07:09->eth_src,e:0a:58:c6:12:07:09,set_field:0xc6120708->reg0,set_field:0xa58c61207090000000000000000/0xffff->xxreg0,set_field:0xc61207080000000000000000->xxreg1,set(ipv4(dst=198.18.7.8/255.255.255.255)),ct(nat(dst=198.18.0.0/255.255.128.0))",
		Why:     &flowapi.Why{Rules: []flowapi.Rule{rule, port}}, DecidedBy: []string{"NetworkPolicy/canaryns/canarypolicy"},
	}}
}

// redacted writes an archive with the same key in each run, since a pseudonym of another one may begin as an address of the
// cluster does. It reads its files and the archive itself.
func redacted(t *testing.T) (*Redactor, map[string]string, *snapshot.Snapshot) {
	t.Helper()
	s := cluster(t)
	r := withKey([]byte("a key"), s, words())
	var out bytes.Buffer
	a, err := snapshot.NewArchiveThrough(&out, s, r.File)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(
		a.AddFlows("canarynode-1", snapshot.NodeFlows{Summary: &flowapi.Summary{Node: "canarynode-1"}, Flows: flows()}),
		a.Add("nodes/canarynode-1/routes.txt", []byte("198.18.7.0/24 via 198.18.7.1 dev ovn-k8s-mp0 mtu 1400\nfe80::858:c6ff:fe12:709/64 dev eth0\n")), a.Close(),
	)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	zip, err := gzip.NewReader(bytes.NewReader(out.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(zip); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(text)
	}
	read, err := snapshot.Open(&out)
	if err != nil {
		t.Fatal(err)
	}
	return r, files, read
}

// TestFile_HasNoNameAndNoAddress of the cluster, in the files and their names, also within other texts and as numbers.
func TestFile_HasNoNameAndNoAddress(t *testing.T) {
	r, files, _ := redacted(t)
	for name, text := range files {
		for _, secret := range []string{"canary", "198.18.", "198.19.", "198.20.", "0a:58:c6", "c6120708", "58c61207", "2001:db8", "858:c6ff", `"web"`, `"shop"`, "shop/web"} {
			if strings.Contains(name+" "+text, secret) {
				t.Errorf("%s has %s:\n%s", name, secret, text)
			}
		}
	}
	node := r.names["canarynode-1"]
	for name, has := range map[string]string{
		"flows/" + node + ".json":       `"what":"stor-` + node + `"`,
		"nodes/" + node + "/routes.txt": r.network(netip.MustParseAddr("198.18.7.0"), 24).String() + "/24 via " + r.address(netip.MustParseAddr("198.18.7.1")).String() + " dev ovn-k8s-mp0 mtu 1400",
		"objects/pods.json":             `"app":"ovnkube-node"`,
		"objects/leases.json":           `"holderIdentity":"` + node + `-12-34"`,
	} {
		if !strings.Contains(files[name], has) {
			t.Errorf("%s lacks %s: %s", name, has, files[name])
		}
	}
}

// TestText_ReplacesSerialNumbers: those that devlink and its JSON have, the same ones for the same board. What else says
// which NIC it is stays.
func TestText_ReplacesSerialNumbers(t *testing.T) {
	r := withKey([]byte("a key"), cluster(t), words())
	const dump = "pci/0000:03:00.0:\n  driver mlx5_core\n  serial_number MT2042X07531\n  board.serial_number 40-a6-b7-ff-ff-12\n  versions:\n      fixed:\n        fw.psid MT_0000000359\n"
	got := r.Text(dump + `{"pci/0000:03:00.1":{"serial_number":"MT2042X07531"}}` + "\n  serial_number\n  versions")
	for _, secret := range []string{"MT2042X07531", "40-a6-b7"} {
		if strings.Contains(got, secret) {
			t.Errorf("%s is in:\n%s", secret, got)
		}
	}
	if to := r.pseudonym("serial", "MT2042X07531"); strings.Count(got, to) != 2 {
		t.Errorf("%s is not there twice:\n%s", to, got)
	}
	for _, kept := range []string{"pci/0000:03:00.0:", "driver mlx5_core", "fw.psid MT_0000000359", "serial_number\n  versions"} {
		if !strings.Contains(got, kept) {
			t.Errorf("%q is not in:\n%s", kept, got)
		}
	}
}

// TestNew_HasItsOwnKey: two archives have different pseudonyms.
func TestNew_HasItsOwnKey(t *testing.T) {
	var names []string
	for range 2 {
		r, err := New(cluster(t), words())
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, r.names["canarynode-1"])
	}
	if names[0] == names[1] || names[0] == "" {
		t.Errorf("pseudonyms of the node: %q", names)
	}
}

// TestFile_VerbsReadTheArchive: objects, flows and addresses still belong together.
func TestFile_VerbsReadTheArchive(t *testing.T) {
	r, _, s := redacted(t)
	name := func(text string) string { return r.Text(text) }
	pod, node, policy := name("canaryns/canarypod-0"), name("canarynode-1"), name("canaryns/canarypolicy")
	e, err := answer.ExplainPod(s, pod)
	if err != nil || e.Node != node || len(e.VFs) != 1 || len(e.Reasons) != 1 || len(e.Networks) != 2 || e.Networks[0].Addresses[0] != name("198.18.7.9/24") || len(e.Problems) != 2 {
		t.Fatalf("%v, %+v", err, e)
	}
	topology, err := answer.NewPodTopology(s, pod)
	if err != nil || len(topology.Node.NICs) != 1 || topology.Node.NICs[0].Pods[0].Representor != "pf0vf1" {
		t.Errorf("%v, %+v", err, topology)
	}
	all, err := answer.NewStreams(s, s.Flows(""), nil, answer.Filter{}, 0)
	if err != nil || len(all.Streams) != 1 || all.Streams[0].From != "pod/"+pod || all.Streams[0].To != "pod/"+name("shop/web") || all.Named != 1 || all.Streams[0].Place != offload.TC {
		t.Errorf("%v, %+v", err, all)
	}
	d, err := answer.ExplainPolicy(s, selected.Kinds()[0], policy, s.Flows(""), nil)
	if err != nil || len(d.SelectedPods) != 1 || len(d.Streams) != 1 {
		t.Errorf("%v, %+v", err, d)
	}
	l, err := answer.NewLive(s, streams.Ends{From: "pod/" + pod, To: "pod/" + name("shop/web"), Protocol: "tcp", Port: "5432"}, "", s.Flows(""), nil)
	if err != nil || l.Verdict != "allowed" {
		t.Errorf("%v, %+v", err, l)
	}
	at, err := answer.HostOf(s, r.address(netip.MustParseAddr("198.18.7.77")))
	if err != nil || at != node {
		t.Errorf("%v: the subnet of a node has no address of it: %q", err, at)
	}
	if st, err := answer.NewStatus(s); err != nil || st.Nodes.All != 1 || !strings.HasPrefix(st.Leader, node) {
		t.Errorf("%v, %+v", err, st)
	}
}

// TestAddress_KeepsCommonPrefixes, and those addresses that mean the same everywhere. No two have one pseudonym.
func TestAddress_KeepsCommonPrefixes(t *testing.T) {
	r, _, _ := redacted(t)
	seen := map[string]string{}
	for _, text := range []string{"10.0.0.1", "10.0.0.2", "10.0.1.1", "10.128.0.1", "172.18.0.1", "192.168.0.1", "8.8.8.8", "2001:db8::1", "2001:db8::2", "2a00::1", "fd00::1"} {
		to := r.Text(text)
		if was, ok := seen[to]; ok || to == text {
			t.Errorf("%s is %s, as %s", text, to, was)
		}
		seen[to] = text
	}
	for _, pair := range [][3]string{{"10.0.0.1", "10.0.0.2", "30"}, {"10.0.0.1", "10.0.1.1", "23"}, {"10.0.0.1", "10.128.0.1", "8"}, {"2001:db8::1", "2001:db8::2", "126"}} {
		a, b := netip.MustParseAddr(r.Text(pair[0])), netip.MustParseAddr(r.Text(pair[1]))
		bits := maskBits(pair[2])
		p, _ := a.Prefix(bits)
		longer, _ := a.Prefix(bits + 1)
		if !p.Contains(b) || longer.Contains(b) {
			t.Errorf("%v are %s and %s", pair, a, b)
		}
	}
	for _, same := range []string{
		"0.0.0.0/0", "127.0.0.1", "255.255.255.255", "224.0.0.1", "169.254.0.1", "::", "::1", "ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00/01:00:00:00:00:00", "12:00:00", "0000:3b:00.3",
		"2026-03-01T11:59:00Z", "25.03.1", "0xffffffff", "no web and no shop here", "eth0", "8153cb36-ae1c-4686-a9b3-d49f037972d3",
	} {
		if got := r.Text(same); got != same {
			t.Errorf("%q is %q", same, got)
		}
	}
}
