package ovn

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb"
)

// flowRow is a row of logical flows, which may be of many switches or routers.
type flowRow struct{ stage, uuid string }

var logicalFlow = regexp.MustCompile(`uuid=(\S+), table=\d+ *\((\S+) *\)`)

// flowRows are the rows that match an address, or a variable of nodes, as the destination, and how many switches or routers
// each is of; text has their lines.
func (n *northd) flowRows(address string) (rows map[flowRow]int, text string) {
	n.t.Helper()
	rows = map[flowRow]int{}
	match := regexp.MustCompile(`dst == ` + regexp.QuoteMeta(address) + `[ )]`)
	for line := range strings.Lines(n.run("ovn-sbctl", "--timeout=60", "--db="+n.south, "--uuid", "lflow-list")) {
		if fields := logicalFlow.FindStringSubmatch(line); fields != nil && match.MatchString(line) {
			rows[flowRow{stage: fields[2], uuid: fields[1]}]++
			text += line
		}
	}
	return rows, text
}

// frontendStages are those with a row for each frontend: two of all gateway routers, and two of the switches of all
// nodes.
func frontendStages() []string {
	return []string{"lr_in_defrag", "lr_in_dnat", "ls_in_lb", "ls_in_pre_stateful"}
}

// wantFour checks that an address is in four rows, each of all nodes.
func (d *dualStack) wantFour(address string) {
	d.t.Helper()
	rows, text := d.flowRows(address)
	var stages []string
	for row, datapaths := range rows {
		stages = append(stages, row.stage)
		if datapaths != d.nodes {
			d.t.Errorf("%s: a row of %s is of %d switches or routers, want %d:\n%s", address, row.stage, datapaths, d.nodes, text)
		}
	}
	if slices.Sort(stages); !slices.Equal(stages, frontendStages()) {
		d.t.Errorf("%s is in rows of %v, want %v:\n%s", address, stages, frontendStages(), text)
	}
}

// TestService_ClusterIPIsFourLogicalFlows: however many nodes and endpoints there are, an address of a service with one
// port is four rows of logical flows. An address that no service has is in none.
func TestService_ClusterIPIsFourLogicalFlows(t *testing.T) {
	d := startDualStack(t, "ns/near@n1", "ns/far@n2", "ns/web-0@n1", "ns/web-1@n2")
	services := []tracedService{{"one", []string{"far"}, ""}, {"many", []string{"near", "far", "web-0", "web-1"}, ""}}
	for _, d.nodes = range []int{2, 3, 9} {
		d.clear()
		d.write(d.rows(servicesYAML(d, services)))
		for family := range families() {
			for i := range services {
				d.wantFour(clusterIP(i, family).String())
			}
			if rows, text := d.flowRows(clusterIP(len(services), family).String()); len(rows) > 0 {
				t.Errorf("rows of an address that no service has:\n%s", text)
			}
		}
	}
}

// TestNodePort_IsFourLogicalFlows: a node port is one frontend for each family, with a variable of which each node has a
// value of its own, and four rows of logical flows for all nodes. With affinity, the control, it is a frontend for each
// node.
func TestNodePort_IsFourLogicalFlows(t *testing.T) {
	d := startDualStack(t, "ns/near@n1", "ns/far@n2")
	pods, sticky := []string{"near", "far"}, "sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 600}},"
	services := []tracedService{{"port", pods, "type: NodePort,"}, {"sticky", pods, "type: NodePort, " + sticky}, {"cluster", pods, ""}}
	for _, d.nodes = range []int{2, 3} {
		rows := d.rows(servicesYAML(d, services))
		d.clear()
		d.write(rows)
		var ofNodes []string
		for i := range d.nodes {
			own := []string{fmt.Sprint("172.18.0.", i+1), fmt.Sprint("fc00::", i+1)}
			ofNodes = append(ofNodes, own[0]+":30081", "["+own[1]+"]:30081")
			if rows, _ := d.flowRows(own[0]); len(rows) < len(frontendStages()) {
				t.Errorf("%d rows of address %s: affinity has rows for each node", len(rows), own[0])
			}
			values := d.run("ovn-nbctl", "--timeout=30", "--db="+d.north, "--bare", "--columns=variables",
				"find", "Chassis_Template_Var", fmt.Sprint("chassis=chassis-", i+1))
			if want := []string{"NODEIP_IPv4_0=" + own[0], "NODEIP_IPv6_0=" + own[1]}; !slices.Equal(strings.Fields(values), want) {
				t.Errorf("node n%d has the values %q, want %q", i+1, values, want)
			}
		}
		slices.Sort(ofNodes)
		for service, want := range map[string][]string{"port": {"^NODEIP_IPv4_0:30080", "^NODEIP_IPv6_0:30080"}, "sticky": ofNodes, "cluster": nil} {
			if got := nodePorts(rows, service); !slices.Equal(got, want) {
				t.Errorf("%d nodes: service %s has the frontends %v, want %v", d.nodes, service, got, want)
			}
		}
		for _, family := range []contract.Family{contract.IPv4, contract.IPv6} {
			d.wantFour("^" + contract.NodeVariable(family))
		}
	}
}

// nodePorts are the frontends of a service's load balancers but those at its own port.
func nodePorts(rows []ovsdb.Row, service string) (all []string) {
	for _, row := range rows {
		if model, ok := row.Model.(*nb.LoadBalancer); ok && strings.HasPrefix(model.Name, "Service_ns/"+service+"_") {
			all = append(all, slices.Collect(maps.Keys(model.Vips))...)
		}
	}
	all = slices.DeleteFunc(all, func(frontend string) bool { return strings.HasSuffix(frontend, ":80") })
	slices.Sort(all)
	return all
}
