package deploy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

const masters = `
databases:
  members: 3
  masters: [{node: m1, address: 192.0.2.1}, {node: m2, address: 192.0.2.2}, {node: m3, address: "fd00::3"}]
`

// TestDatabases_ThreeMembersOnTheirNodes, and one server without them.
func TestDatabases_ThreeMembersOnTheirNodes(t *testing.T) {
	objects, err := decode(renderAll(t, with(t, masters)))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems(objects) {
		t.Error(p)
	}
	got := map[string]string{}
	each(objects, func(c *corev1.ConfigMap) {
		for _, key := range []string{"ovn_nb", "ovn_sb", "ovn_sb_members", "db_node", "db_members"} {
			if c.Name == "ovn-config" {
				got[key] = c.Data[key]
			}
		}
	})
	each(objects, func(d *appsv1.DaemonSet) {
		if d.Name != "ovnkube-db" {
			return
		}
		var nodes, commands []string
		for _, term := range d.Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			nodes = append(nodes, term.MatchFields[0].Values...)
		}
		for _, c := range d.Spec.Template.Spec.Containers {
			var mounts []string
			for _, mount := range c.VolumeMounts {
				mounts = append(mounts, mount.Name)
			}
			slices.Sort(mounts)
			commands = append(commands, fmt.Sprint(c.Command, mounts))
		}
		got["nodes"], got["containers"] = fmt.Sprint(nodes), strings.Join(commands, "\n")
		got["unavailable"] = d.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable.String()
	})
	each(objects, func(d *appsv1.Deployment) {
		got[d.Name] = fmt.Sprint(*d.Spec.Replicas)
		for _, c := range d.Spec.Template.Spec.Containers {
			for _, arg := range c.Args {
				if arg == "--clustered" || strings.HasPrefix(arg, "--sb=") {
					got[d.Name] += " " + arg
				}
			}
		}
	})
	each(objects, func(r *rbacv1.Role) {
		if r.Name == "ovnkube-db" {
			got["role"] = fmt.Sprint(r.Rules[1].ResourceNames, r.Rules[1].Verbs)
		}
	})
	want := map[string]string{
		"ovn_nb":         "ssl:192.0.2.1:6641,ssl:192.0.2.2:6641,ssl:[fd00::3]:6641",
		"ovn_sb":         "ssl:192.0.2.1:6642,ssl:192.0.2.2:6642,ssl:[fd00::3]:6642",
		"ovn_sb_members": "ssl:192.0.2.1:6645,ssl:192.0.2.2:6645,ssl:[fd00::3]:6645",
		"db_node":        "m1", "db_members": "m1=192.0.2.1,m2=192.0.2.2,m3=[fd00::3]",
		"nodes": "[m1 m2 m3]", "unavailable": "1",
		"containers": "[ovn-daemon member nb] [db raft-certs run-ovn token]\n" +
			"[ovn-daemon member sb] [db raft-certs run-ovn token]\n[ovn-daemon relay] [run-ovn sb-certs]",
		"ovnkube-identity": "3 --sb=$(OVN_SB)", "ovnkube-master": "3 --sb=$(OVN_SB_MEMBERS) --clustered",
		"role": "[ovn-raft] [get update]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDatabases_OneServerHasNoRights(t *testing.T) {
	objects, err := decode(renderAll(t, Example()))
	if err != nil {
		t.Fatal(err)
	}
	each(objects, func(d *appsv1.DaemonSet) {
		if d.Name == "ovnkube-db" {
			t.Error("a DaemonSet for one server")
		}
	})
	each(objects, func(r *rbacv1.Role) {
		if r.Name == "ovnkube-db" {
			t.Error("the databases have rights")
		}
	})
	each(objects, func(c *corev1.ConfigMap) {
		if c.Name == "ovn-config" && (c.Data["db_members"] != "" || c.Data["ovn_sb_members"] != "unix:/run/ovn/ovnsb_db.sock") {
			t.Errorf("members %q, %q", c.Data["db_members"], c.Data["ovn_sb_members"])
		}
	})
}

func TestDatabases_WrongMembersAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"databases: {members: 2}": "/databases/members",
		"databases: {members: 3}": "set databases.masters to the 3 control-plane nodes",
		"databases: {members: 3, masters: [{node: m1, address: 192.0.2.1}]}":    "there are 1",
		"databases: {members: 3, masters: [{node: m1}]}":                        "/databases/masters/0",
		"databases: {members: 3, masters: [{node: m1, address: 192.0.2.1/24}]}": "/databases/masters/0/address",
	} {
		if _, err := Render(with(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
