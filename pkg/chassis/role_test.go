package chassis

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/ovsdbtest"
)

// southbound is a real Southbound database with OVN's roles, which a real ovn-northd
// has written.
type southbound struct {
	t                 *testing.T
	dir, socket, port string
}

// startSouthbound serves the database at a port for nodes: the server itself, or a relay before a cluster of one member.
func startSouthbound(t *testing.T, certs map[string][]byte, relay bool) *southbound {
	t.Helper()
	ovsdbtest.Need(t, "ovsdb-server", "ovsdb-tool", "ovsdb-client", "ovn-northd", "ovn-sbctl")
	dir, err := os.MkdirTemp("", "sb") // short: the path of a socket has 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &southbound{t: t, dir: dir, socket: "unix:" + dir + "/sb.sock"}
	for name, content := range certs {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, s.port, _ = net.SplitHostPort(ovsdbtest.FreeAddress(t))
	s.run("ovsdb-tool", "create", dir+"/nb.db", "/usr/share/ovn/ovn-nb.ovsschema")
	database, writable, public := dir+"/sb.db", s.socket, []string{"--remote=db:OVN_Southbound,SB_Global,connections",
		"--private-key=" + dir + "/tls.key", "--certificate=" + dir + "/tls.crt", "--ca-cert=" + dir + "/ca.crt"}
	if relay {
		s.run("ovsdb-tool", "create-cluster", database, "/usr/share/ovn/ovn-sb.ovsschema", "unix:"+dir+"/raft")
		s.start("ovsdb-server", database, "--remote=punix:"+dir+"/member.sock", "--unixctl="+dir+"/member.ctl")
		database, writable = "relay:OVN_Southbound:unix:"+dir+"/member.sock", "unix:"+dir+"/member.sock"
	} else {
		s.run("ovsdb-tool", "create", database, "/usr/share/ovn/ovn-sb.ovsschema")
	}
	s.start("ovsdb-server", dir+"/nb.db", "--remote=punix:"+dir+"/nb.sock", "--unixctl="+dir+"/nb.ctl")
	s.start("ovsdb-server", append(public, database, "--remote=punix:"+dir+"/sb.sock", "--unixctl="+dir+"/sb.ctl")...)
	s.start("ovn-northd", "--ovnnb-db=unix:"+dir+"/nb.sock", "--ovnsb-db="+writable, "--unixctl="+dir+"/northd.ctl")
	eventually(t, "ovn-northd's roles", func() bool {
		out, err := exec.Command("ovn-sbctl", "--db="+writable, "--timeout=5", "--bare", "--columns=name", "list", "RBAC_Role").Output()
		return err == nil && strings.TrimSpace(string(out)) == "ovn-controller"
	})
	s.run("ovn-sbctl", "--db="+writable, "--timeout=5", "set-connection", "role=ovn-controller", "pssl:"+s.port+":127.0.0.1")
	return s
}

func (s *southbound) start(name string, args ...string) {
	s.t.Helper()
	cmd := exec.Command(name, append(args, "-vsyslog:off", "-vfile:off")...)
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if s.t.Failed() {
			s.t.Logf("%s:\n%s", name, log.String())
		}
	})
	for _, arg := range args {
		if socket, ok := strings.CutPrefix(arg, "--remote=punix:"); ok {
			eventually(s.t, socket, func() bool { _, err := os.Stat(socket); return err == nil })
		}
	}
}

func (s *southbound) run(name string, args ...string) string {
	s.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
	return string(out)
}

// transact gives the reply to one operation, over TLS with the files of a chassis or
// with none at the local socket.
func (s *southbound) transact(chassis, operation string) string {
	s.t.Helper()
	args := []string{"--timeout=5", "transact"}
	if chassis == "" {
		args = append(args, s.socket)
	} else {
		args = append(args, "-p", chassis+"/tls.key", "-c", chassis+"/tls.crt", "-C", chassis+"/ca.crt", "ssl:127.0.0.1:"+s.port)
	}
	out, err := exec.Command("ovsdb-client", append(args, `["OVN_Southbound",`+operation+`]`)...).CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%v: %s", err, out)
	}
	return string(out)
}

func chassisRow(name string) string {
	return `{"op":"insert","table":"Encap","uuid-name":"e","row":{"type":"geneve","ip":"10.0.0.` + name[len(name)-1:] + `","chassis_name":"` + name + `"}},` +
		`{"op":"insert","table":"Chassis","row":{"name":"` + name + `","hostname":"` + name + `","encaps":["named-uuid","e"]}},` +
		`{"op":"insert","table":"Chassis_Private","row":{"name":"` + name + `"}}`
}

// What the key of a chassis may do at the port for nodes. Each operation that is
// refused there passes at the local socket, which northd and the controller use.
func TestRole_ChassisChangesItsOwnRowsOnly(t *testing.T) {
	for _, relay := range []bool{false, true} {
		t.Run(fmt.Sprintf("relay %t", relay), func(t *testing.T) { testRole(t, relay) })
	}
}

func testRole(t *testing.T, relay bool) {
	r := newRig(t, testNode("n1", "uid-1", "id-1"), testNode("n2", "uid-2", "id-2"))
	one, own := r.agent(agentUser, "n1", "id-1")
	two, other := r.agent(agentUser, "n2", "id-2")
	eventually(t, "certificates", func() bool { return one.Problem() == nil && two.Problem() == nil })
	secret, err := r.kube.CoreV1().Secrets("ovn-kubernetes").Get(t.Context(), "ovn-sb-server", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := startSouthbound(t, secret.Data, relay)
	isRefused := func(reply string) bool { return strings.Contains(reply, "permission error") }
	isDone := func(reply string) bool { return !strings.Contains(reply, "error") && strings.Contains(reply, "[{") }

	var reply string
	eventually(t, "the port for nodes", func() bool { reply = s.transact(own, chassisRow("id-1")); return isDone(reply) })
	if reply := s.transact(other, chassisRow("id-2")); !isDone(reply) {
		t.Fatalf("the other chassis: %s", reply)
	}
	for _, operation := range []string{
		`{"op":"update","table":"Chassis","where":[["name","==","id-1"]],"row":{"nb_cfg":1}}`,
		`{"op":"update","table":"Chassis_Private","where":[["name","==","id-1"]],"row":{"nb_cfg":7}}`,
		`{"op":"update","table":"Encap","where":[["chassis_name","==","id-1"]],"row":{"options":["map",[["csum","true"]]]}}`,
		`{"op":"select","table":"Chassis","where":[["name","==","id-2"]],"columns":["name"]}`,
	} {
		if reply := s.transact(own, operation); !isDone(reply) {
			t.Errorf("own rows: %s: %s", operation, reply)
		}
	}
	for _, tc := range []struct{ name, operation string }{
		{"another chassis", `{"op":"update","table":"Chassis","where":[["name","==","id-2"]],"row":{"external_ids":["map",[["a","b"]]]}}`},
		{"another chassis' encap", `{"op":"update","table":"Encap","where":[["chassis_name","==","id-2"]],"row":{"ip":"10.0.0.66"}}`},
		{"another chassis' private", `{"op":"update","table":"Chassis_Private","where":[["name","==","id-2"]],"row":{"nb_cfg":99}}`},
		{"a column that the role lacks", `{"op":"update","table":"Chassis","where":[["name","==","id-1"]],"row":{"hostname":"x"}}`},
		{"a table that the role lacks", `{"op":"update","table":"SB_Global","where":[],"row":{"options":["map",[["a","b"]]]}}`},
		{"a new encap of another", `{"op":"insert","table":"Encap","uuid-name":"x","row":{"type":"geneve","ip":"10.0.0.77","chassis_name":"id-2"}}`},
		{"a new chassis", chassisRow("id-3")},
		{"the end of another chassis", `{"op":"delete","table":"Chassis_Private","where":[["name","==","id-2"]]}`},
		{"the roles", `{"op":"update","table":"RBAC_Role","where":[],"row":{"permissions":["map",[]]}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if reply := s.transact(own, tc.operation); !isRefused(reply) {
				t.Errorf("with the key of a chassis: %s", reply)
			}
			if reply := s.transact("", tc.operation); !isDone(reply) {
				t.Errorf("at the local socket: %s", reply)
			}
		})
	}
}
