package conncheck

import "github.com/ovn-offload/ovn-offload/pkg/conncheck/probe"

type group struct {
	name string
	rows []row
}

// groups is the table. docs/kubectl-offload/test.md says what each group is.
func groups() []group {
	return []group{
		{"pod-pod", podRows()},
		{"size", sizeRows()},
		{"service", serviceRows()},
		{"affinity", []row{
			{from: "client", to: "svc/affinity", quick: "tcp", names: "same other", times: 8, pods: 1},
			{from: "same", to: "svc/affinity", quick: "tcp", names: "same other", times: 8, pods: 1},
			{from: "other", to: "svc/affinity", full: "tcp", names: "same other", times: 8, pods: 1},
			{from: "client", to: "svc/spread", quick: "tcp", full: "udp", names: "same other", times: 32, pods: 2},
		}},
		{"dns", []row{
			{from: "client", to: "name/other", quick: "tcp", full: "udp", names: "other"},
			{from: "client", to: "name/headless", quick: "tcp", full: "udp sctp", names: "other"},
			{from: "other", to: "name/headless", full: "tcp udp", names: "other"},
			{from: "client", to: "name/no-such-name", quick: "tcp", want: probe.NoName},
			{from: "caged", to: "name/other", full: "tcp", want: probe.NoName},
		}},
		{"nodeport", []row{
			{from: "client", to: "nodeport/other@node-a", quick: "tcp", full: "udp sctp", names: "other"},
			{from: "client", to: "nodeport/other@node-b", quick: "tcp", full: "udp sctp", names: "other"},
			{from: "client", to: "nodeport/same@node-b", full: "tcp udp", names: "same"},
			{from: "host-a", to: "nodeport/other@node-a", full: "tcp udp", names: "other"},
			{from: "host-a", to: "nodeport/other@node-b", full: "tcp udp", names: "other"},
			{from: "client", to: "nodeport/denied@node-a", quick: "tcp", full: "udp", want: probe.Timeout},
		}},
		{"local", []row{
			{from: "client", to: "svc/near", quick: "tcp", full: "udp", names: "same", times: 8, pods: 1},
			{from: "other", to: "svc/near", full: "tcp", names: "other", times: 8, pods: 1},
			{from: "host-a", to: "svc/near", full: "tcp", names: "same"},
			{from: "other", to: "svc/far", full: "tcp", names: "other"},
			{from: "client", to: "svc/far", quick: "tcp", full: "udp", want: probe.Timeout},
			{from: "client", to: "nodeport/gate@node-b", quick: "tcp", full: "udp", names: "other"},
			{from: "host-a", to: "nodeport/gate@node-b", full: "tcp", names: "other"},
		}},
		{"host", hostRows()},
		{"node", []row{
			{from: "client", to: "node/node-a", quick: "icmp"},
			{from: "client", to: "node/node-b", quick: "icmp"},
			{from: "other", to: "node/node-a", full: "icmp"},
			{from: "caged", to: "node/node-b", quick: "icmp", want: probe.Timeout},
		}},
		{"api", []row{
			{from: "client", to: "api", quick: "tcp"},
			{from: "other", to: "api", full: "tcp"},
			{from: "host-a", to: "api", full: "tcp"},
			{from: "caged", to: "api", quick: "tcp", want: probe.Timeout},
		}},
		{"policy", policyRows()},
	}
}

func podRows() []row {
	return []row{
		{from: "client", to: "pod/same", quick: "tcp icmp", full: "udp sctp", names: "same"},
		{from: "client", to: "pod/other", quick: "tcp udp icmp", full: "sctp", names: "other"},
		{from: "same", to: "pod/client", full: "tcp udp sctp icmp", names: "client"},
		{from: "same", to: "pod/other", full: "tcp udp icmp", names: "other"},
		{from: "other", to: "pod/client", full: "tcp udp sctp icmp", names: "client"},
		{from: "other", to: "pod/same", full: "tcp udp icmp", names: "same"},
		{from: "client", to: "pod/client", full: "tcp udp", names: "client"},
		{from: "client", to: "pod/denied", quick: "tcp", full: "udp sctp icmp", want: probe.Timeout},
	}
}

func sizeRows() []row {
	return []row{
		{from: "client", to: "pod/other", quick: "udp", full: "icmp", size: MTU, names: "other"},
		{from: "client", to: "pod/other", quick: "udp", full: "icmp", size: OverMTU, want: probe.TooBig},
		{from: "client", to: "pod/other", quick: "udp", full: "icmp", size: Fragments, names: "other"},
		{from: "client", to: "pod/other", quick: "tcp", size: Large, names: "other"},
		{from: "client", to: "pod/other", quick: "tcp", size: Lasting, names: "other"},
		{from: "client", to: "pod/same", quick: "tcp", size: Lasting, names: "same"},
		{from: "client", to: "svc/other", full: "tcp", size: Lasting, names: "other"},
		{from: "other", to: "pod/same", full: "tcp", size: Lasting, names: "same"},
		{from: "client", to: "pod/same", full: "udp icmp", size: MTU, names: "same"},
		{from: "client", to: "pod/same", full: "udp icmp", size: OverMTU, want: probe.TooBig},
		{from: "client", to: "pod/same", full: "udp icmp", size: Fragments, names: "same"},
		{from: "client", to: "pod/same", full: "tcp", size: Large, names: "same"},
		{from: "client", to: "svc/other", full: "udp", size: MTU, names: "other"},
		{from: "client", to: "svc/other", full: "tcp", size: Large, names: "other"},
		{from: "host-a", to: "pod/other", full: "tcp", size: Large, names: "other"},
		{from: "client", to: "pod/host-b", full: "tcp", size: Large, names: "host-b"},
	}
}

func serviceRows() []row {
	return []row{
		{from: "client", to: "svc/same", quick: "tcp", full: "udp sctp", names: "same"},
		{from: "client", to: "svc/other", quick: "tcp udp", full: "sctp", names: "other"},
		{from: "client", to: "svc/host", quick: "tcp", full: "udp", names: "host-b"},
		{from: "client", to: "svc/self", quick: "tcp", full: "udp", names: "client"},
		{from: "client", to: "svc/none", quick: "tcp", want: probe.Refused},
		{from: "client", to: "svc/denied", quick: "tcp", full: "udp sctp", want: probe.Timeout},
		{from: "other", to: "svc/same", full: "tcp udp sctp", names: "same"},
		{from: "other", to: "svc/other", full: "tcp udp", names: "other"},
		{from: "other", to: "svc/host", full: "tcp udp", names: "host-b"},
		{from: "host-a", to: "svc/other", quick: "tcp", full: "udp", names: "other"},
		{from: "host-a", to: "svc/same", full: "tcp udp", names: "same"},
		{from: "host-a", to: "svc/host", full: "tcp udp", names: "host-b"},
	}
}

func hostRows() []row {
	return []row{
		{from: "host-a", to: "pod/same", quick: "tcp icmp", full: "udp sctp", names: "same"},
		{from: "host-a", to: "pod/other", quick: "tcp", full: "udp sctp icmp", names: "other"},
		{from: "client", to: "pod/host-a", quick: "tcp", full: "udp", names: "host-a"},
		{from: "client", to: "pod/host-b", quick: "tcp", full: "udp", names: "host-b"},
		{from: "host-a", to: "pod/host-b", full: "tcp udp", names: "host-b"},
		{from: "host-a", to: "pod/denied", quick: "tcp", full: "udp", want: probe.Timeout},
		{from: "caged", to: "pod/host-b", full: "tcp", want: probe.Timeout},
	}
}

func policyRows() []row {
	return []row{
		{from: "client", to: "pod/allowed", quick: "tcp", names: "allowed"},
		{from: "client", to: "pod/allowed", quick: "udp", full: "icmp sctp", want: probe.Timeout},
		{from: "client", to: "svc/allowed", full: "tcp", names: "allowed"},
		{from: "client", to: "svc/allowed", full: "udp", want: probe.Timeout},
		{from: "outsider", to: "pod/allowed", quick: "tcp", full: "udp", want: probe.Timeout},
		{from: "outsider", to: "svc/allowed", full: "tcp", want: probe.Timeout},
		{from: "client", to: "pod/blocked", quick: "tcp", full: "udp icmp", names: "blocked"},
		{from: "outsider", to: "pod/blocked", quick: "tcp", full: "udp icmp", want: probe.Timeout},
		{from: "picky", to: "pod/other", quick: "tcp", full: "udp icmp", names: "other"},
		{from: "picky", to: "pod/same", quick: "tcp", full: "udp icmp", want: probe.Timeout},
		{from: "caged", to: "pod/other", quick: "tcp", full: "udp icmp sctp", want: probe.Timeout},
		{from: "caged", to: "pod/same", full: "tcp udp", want: probe.Timeout},
		{from: "client", to: "pod/caged", full: "tcp udp", names: "caged"},
	}
}
