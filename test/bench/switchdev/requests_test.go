//go:build bench

package switchdev

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/ovn-offload/ovn-offload/pkg/netdev"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/devlink"
	"github.com/ovn-offload/ovn-offload/pkg/netdev/netdevtest"
	"github.com/ovn-offload/ovn-offload/pkg/node"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// own is the namespace of the test.
const own = "/proc/self/ns/net"

// cost is what a part of the agent asks the kernel.
type cost struct {
	// Requests are those of netlink. Locks are the locks of devlink's instances that they take: one, or those of all
	// instances where a request names none. Features are the ioctls of ethtool for the features of links.
	Requests, Locks, Features int
}

// manyVFs is a node with two NICs of many VFs. Each VF has a devlink instance, as with mlx5.
type manyVFs struct {
	*podNode
	vfs      int // of both NICs
	devlink  uint16
	features int
	parts    []part
}

// TestRequests_DoNotGrowWithVFs counts what an inventory, a look of the gateway's set-up, an ADD and a DEL cost with 4
// VFs and with many. All of them end while drivers hold the locks of all VFs' instances. The control is devlink(8),
// which lists the ports of all instances: it does not end.
func TestRequests_DoNotGrowWithVFs(t *testing.T) {
	tier.In(t, "bench")
	write(t, moduleParameters+"vf_devlink", "1")
	t.Cleanup(func() { write(t, moduleParameters+"vf_devlink", "0") })
	var few, many map[string]cost
	t.Run("2 VFs of each NIC", func(t *testing.T) { few = newManyVFs(t, 2).costs() })
	of := tier.Pick(32, 127)
	t.Run(fmt.Sprint(of, " VFs of each NIC"), func(t *testing.T) {
		n := newManyVFs(t, of)
		many = n.costs()
		n.whileHeld()
	})
	if few == nil || many == nil {
		return
	}
	for what := range few {
		t.Logf("%s: %+v with 4 VFs, %+v with %d", what, few[what], many[what], 2*of)
	}
	inventory := few["inventory"]
	inventory.Features += 2 * (of - 2) // a representor for each VF
	few["inventory"] = inventory
	if !reflect.DeepEqual(few, many) {
		t.Errorf("with 4 VFs %+v, with %d %+v", few, 2*of, many)
	}
}

func newManyVFs(t *testing.T, of int) *manyVFs {
	t.Helper()
	vfs := strconv.Itoa(of)
	t.Cleanup(func() { nicSet(t, nics(t)[1], "switchdev", "4") })
	nicSet(t, nics(t)[1], "switchdev", vfs)
	family, err := netlink.GenlFamilyGet(nl.GENL_DEVLINK_NAME)
	ok(t, err)
	n := &manyVFs{podNode: newPodNodeOf(t, vfs), vfs: 2 * of, devlink: family.ID}
	n.makeParts()
	return n
}

// featuresCounted counts the questions of the inventory.
type featuresCounted struct {
	*devlink.Devices
	n *manyVFs
}

func (f featuresCounted) Features(link string) (netdev.Features, error) {
	f.n.features++
	return f.Devices.Features(link)
}

// record gives what f costs.
func (n *manyVFs) record(f func()) cost {
	n.Helper()
	n.features = 0
	var c cost
	for _, r := range netdevtest.Requests(n, own, f) {
		c.Requests++
		if r.Protocol != unix.NETLINK_GENERIC || r.Header.Type != n.devlink {
			continue
		}
		attributes, err := nl.ParseRouteAttrAsMap(r.Data[nl.SizeofGenlmsg:])
		ok(n, err)
		if _, named := attributes[nl.DEVLINK_ATTR_BUS_NAME]; named {
			c.Locks++
		} else {
			c.Locks += len(nics(n)) + n.vfs
		}
	}
	c.Features = n.features
	return c
}

func (n *manyVFs) costs() map[string]cost {
	n.Helper()
	for _, part := range n.parts { // the first time has costs of its own
		part.before()
		part.do()
	}
	all := map[string]cost{}
	for _, part := range n.parts {
		part.before()
		all[part.what] = n.record(part.do)
		n.Logf("%s: %+v", part.what, all[part.what])
	}
	return all
}

type part struct {
	what       string
	before, do func()
}

// makeParts makes those of the agent. ADD and DEL are of one pod, in turns.
func (n *manyVFs) makeParts() {
	n.Helper()
	_, devices := openNode(n.T)
	host, err := netdev.Open("")
	ok(n, err)
	n.Cleanup(func() { _ = host.Close() })
	inventory := &vf.Node{Sysfs: netdev.OpenSysfs("/sys"), Kernel: featuresCounted{devices, n}, Links: host}
	vfs := pf(n.T, n.inventory(), n.pci).VFs
	p := n.pod(1, vfs[0].Name)
	representor, renamed := vfs[1].Representor.Name, 0
	nothing := func() {}
	n.parts = []part{
		{"inventory", nothing, func() { n.noError(inventory.Read()) }},
		{"gateway", nothing, func() {
			var st node.State
			h := node.Host{Deps: node.Deps{Netns: node.Local{NS: host}}}
			if err := h.ObserveHost(&st); err != nil || len(st.Links) < 2*n.vfs {
				n.Errorf("%d links, %v", len(st.Links), err)
			}
		}},
		{"ADD", nothing, func() { n.serves(p, "ADD") }},
		{"DEL", nothing, func() { n.serves(p, "DEL") }},
		{"MAC by a new name of the representor", func() {
			renamed++
			name := fmt.Sprint("renamed", renamed)
			run(n, "ip", "link", "set", representor, "name", name)
			representor = name
		}, func() {
			if _, err := devices.FunctionMAC(representor); err != nil {
				n.Error(err)
			}
		}},
	}
}

func (n *manyVFs) noError(inv vf.Inventory, err error) {
	n.Helper()
	if err != nil || len(inv.Problems) > 0 || len(inv.PFs) != 2 || len(inv.PFs[1].VFs) != n.vfs/2 {
		n.Errorf("%d NICs, %q, %v", len(inv.PFs), inv.Problems, err)
	}
}

// serves has the CNI server answer a command on this thread.
func (n *manyVFs) serves(p *vfPod, command string) {
	n.Helper()
	body, err := json.Marshal(p.request(command))
	if err != nil {
		n.Error(err)
		return
	}
	answer := httptest.NewRecorder()
	n.server.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body)))
	if answer.Code != http.StatusOK {
		n.Errorf("%s: %s", command, answer.Body)
	}
}

// whileHeld does each part while drivers hold the locks of all VFs' instances.
func (n *manyVFs) whileHeld() {
	n.Helper()
	for _, pci := range nics(n) {
		hold := "/sys/kernel/debug/swsim/" + pci + "/hold_vfs"
		write(n, hold, "1")
		defer write(n, hold, "0")
	}
	listed := make(chan error, 1)
	go func() { listed <- exec.Command("devlink", "port").Run() }()
	began := time.Now()
	for _, part := range n.parts {
		part.before()
		done := make(chan struct{})
		go func() { defer close(done); part.do() }()
		select {
		case <-done:
		case <-time.After(time.Minute):
			n.Errorf("%s waits for drivers of VFs", part.what)
			return
		}
	}
	n.Logf("each part in %s, while the locks of the VFs are held", time.Since(began).Round(time.Millisecond))
	select {
	case err := <-listed:
		n.Errorf("the list of all ports has ended: %v", err)
	default:
	}
}
