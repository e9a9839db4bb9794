package cni

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	cnitypes "github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/ovn-offload/ovn-offload/pkg/cni/plug"
	"github.com/ovn-offload/ovn-offload/pkg/cni/podlink"
	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
)

// newTwoNetworks is a node whose pod default/web is on the default network and on the network blue.
func newTwoNetworks(t *testing.T) *node {
	n := newNode(t)
	both, err := contract.SetNetwork(webNetwork, "blue", json.RawMessage(
		`{"ip_addresses":["10.9.0.7/24"],"mac_address":"0a:58:0a:09:00:07","gateway_ips":["10.9.0.1"]}`))
	must(t, err)
	n.setPod(web, webUID, both)
	return n
}

func twoInterfaces(command string) *Request {
	r := addWeb(sandboxA, "/ns/a")
	r.Command, r.Interfaces = command, []Interface{{Name: "eth0"}, {Name: "ovn-udn1", Network: "blue"}}
	return r
}

var blueLink = hostLink(sandboxA, "ovn-udn1", "blue")

func TestAdd_TwoNetworksAreOneResult(t *testing.T) {
	n := newTwoNetworks(t)
	var got types100.Result
	must(t, json.Unmarshal(n.mustDo(twoInterfaces("ADD")), &got))
	var names, ips []string
	for _, i := range got.Interfaces {
		names = append(names, i.Name+" "+i.Sandbox)
	}
	for _, ip := range got.IPs {
		ips = append(ips, got.Interfaces[*ip.Interface].Name+" "+ip.Address.String()+" "+ip.Gateway.String())
	}
	if diff := cmp.Diff([]string{linkA + " ", "eth0 /ns/a", blueLink + " ", "ovn-udn1 /ns/a"}, names); diff != "" {
		t.Errorf("interfaces (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"eth0 10.244.1.5/24 10.244.1.1", "ovn-udn1 10.9.0.7/24 10.9.0.1"}, ips); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	blue, ok := find(n.db, web.On("blue"))
	want := plug.Plugged{
		Pod: web.On("blue"), UID: webUID, Sandbox: sandboxA, IfName: "ovn-udn1", Attachment: "eth0", Network: "ovn-kubernetes", Link: blueLink, Netns: "/ns/a",
	}
	if diff := cmp.Diff(want, blue); !ok || diff != "" {
		t.Errorf("port (-want +got):\n%s", diff)
	}
	n.db.edit(web.On("blue"), func(i *vswitch.Interface) {
		if id := i.ExternalIDs[ifaceIDKey]; id != "blue_default_web" {
			t.Errorf("iface-id %s", id)
		}
	})
	if n.plugged().Link != linkA {
		t.Errorf("port of the default network: %+v", n.plugged())
	}
	n.mustDo(twoInterfaces("ADD")) // again
	n.wantLinks(linkA, blueLink)
}

func TestAdd_SecondNetworkFailsAndNothingStays(t *testing.T) {
	for broken := 1; ; broken++ {
		n := newTwoNetworks(t)
		calls, failed := 0, ""
		fail := func(op, name string) error {
			if calls++; calls == broken {
				failed = op + " " + name
				return errors.New("injected")
			}
			return nil
		}
		n.net.FailWith(fail)
		n.db.fail = func(op string) error { return fail(op, "") }
		_, err := n.do(twoInterfaces("ADD"))
		if failed == "" {
			must(t, err)
			return
		}
		if err == nil {
			t.Errorf("ADD succeeded although call %d (%s) had failed", broken, failed)
		}
		n.wantNothing()
	}
}

func TestDel_RemovesAllInterfacesOfAttachment(t *testing.T) {
	n := newTwoNetworks(t)
	n.mustDo(twoInterfaces("ADD"))
	n.mustDo(delWeb(sandboxA, "/ns/a"))
	n.wantNothing()
}

func TestDel_KeepsOtherAttachmentsOfSandbox(t *testing.T) {
	n := newTwoNetworks(t)
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	net1 := addWeb(sandboxA, "/ns/a")
	net1.IfName, net1.Interfaces = "net1", []Interface{{Name: "net1", Network: "blue"}}
	n.mustDo(net1)
	n.wantLinks(linkA, hostLink(sandboxA, "net1", "blue"))
	net1.Command = "DEL"
	net1.Interfaces = nil // as the runtime asks for it
	n.mustDo(net1)
	n.wantLinks(linkA)
	if _, ok := find(n.db, web); !ok {
		t.Error("the port of the other attachment is gone")
	}
}

func TestCheck_LooksAtEachNetwork(t *testing.T) {
	n := newTwoNetworks(t)
	n.mustDo(twoInterfaces("ADD"))
	n.mustDo(twoInterfaces("CHECK"))
	must(t, n.host.DeleteLink(blueLink))
	if _, err := n.do(twoInterfaces("CHECK")); codeOf(err) != CodeCheck {
		t.Errorf("without the second link: %v", err)
	}
}

func TestGC_KeepsOrRemovesWholeAttachment(t *testing.T) {
	n := newTwoNetworks(t)
	n.mustDo(twoInterfaces("ADD"))
	gc := &Request{Command: "GC", Conf: Conf{Name: "ovn-kubernetes"}}
	gc.Conf.ValidAttachments = []cnitypes.GCAttachment{{ContainerID: sandboxA, IfName: "eth0"}}
	n.mustDo(gc)
	n.wantLinks(linkA, blueLink)
	gc.Conf.ValidAttachments = nil
	n.mustDo(gc)
	n.wantNothing()
}

// TestSweep_RestoresLostPortOfSecondNetwork: the link's alias tells the network and the attachment.
func TestSweep_RestoresLostPortOfSecondNetwork(t *testing.T) {
	n := newTwoNetworks(t)
	n.mustDo(twoInterfaces("ADD"))
	was, _ := find(n.db, web.On("blue"))
	must(t, n.ovs.Unplug(t.Context(), was))
	must(t, n.srv.Sweep(t.Context()))
	was.Netns = "" // the alias has no place for it
	if now, ok := find(n.db, web.On("blue")); !ok || now != was {
		t.Errorf("port %+v, want %+v", now, was)
	}
	n.wantLinks(linkA, blueLink)
	n.putPod(web, nil)
	must(t, n.srv.Sweep(t.Context()))
	n.wantNothing()
}

// TestUpgrade_TakesOverPortOfFormerVersion: neither its row nor its link names an attachment.
func TestUpgrade_TakesOverPortOfFormerVersion(t *testing.T) {
	n := newNode(t)
	n.mustDo(addWeb(sandboxA, "/ns/a"))
	for _, text := range []string{aliasPrefix + sandboxA + " " + webUID + " eth0 ovn-kubernetes", aliasPrefix + sandboxA} {
		must(t, n.host.DeleteLink(linkA))
		must(t, n.host.AddVeth(netdev.Veth{
			Name: linkA, Alias: text, MTU: 1400, Peer: netdev.Peer{Path: "/ns/a", Name: "eth0", MAC: []byte{0x0a, 0x58, 0x0a, 0xf4, 1, 5}},
		}))
		must(t, n.host.SetLink(linkA, netdev.Settings{State: netdev.Up}))
		pod, err := n.net.Open("/ns/a")
		must(t, err)
		network, err := contract.ParsePodNetwork(webNetwork, contract.DefaultNetwork)
		must(t, err)
		must(t, (podlink.Link{Name: "eth0", Network: network}).Configure(pod))
		must(t, n.srv.Sweep(t.Context()))
		check := addWeb(sandboxA, "/ns/a")
		check.Command = "CHECK"
		n.mustDo(check)
		n.mustDo(addWeb(sandboxA, "/ns/a"))
	}
	n.mustDo(delWeb(sandboxA, "/ns/a"))
	n.wantNothing()
}
