package conncheck

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/conncheck/probe"
)

// Case is one question with the answer that a good network gives.
type Case struct {
	// ID never changes, so that results of two versions compare.
	ID    string
	Group string
	// From is a pod of the test. To is KIND/NAME: pod, svc, name (of DNS), node, nodeport with @NODE, or api.
	From, To string
	Family   int
	Protocol string
	Size     Size
	// Want is the outcome, and Names are the pods that may answer. Distinct is how many of them do in Times questions; 0:
	// any number.
	Want            probe.Outcome
	Names           []string
	Times, Distinct int
	// Lasts is how long a lasting connection does; 0: lastsFor.
	Lasts time.Duration
}

// Size is that of packets.
type Size string

// The sizes: a small packet, one of the MTU, one that is a byte longer and may not be fragmented, fragments, a
// mebibyte of TCP, and many small packets of one connection.
const (
	Small     Size = ""
	MTU       Size = "mtu"
	OverMTU   Size = "over-mtu"
	Fragments Size = "fragments"
	Large     Size = "large"
	Lasting   Size = "lasting"
)

// lastsFor is long enough for a connection's flows to be in hardware most of the time; lastingBytes has 800 packets then.
const (
	lastsFor     = 8 * time.Second
	lastingBytes = 400 << 10
)

// answerWithin is the time for an answer that has to come: long enough for the first two packets to be lost, as a service
// with session affinity may (docs/services.md). silentWithin is the time for one that must not come.
const (
	answerWithin = 8 * time.Second
	silentWithin = 3 * time.Second
)

// row is a line of the table: cases for both families, and for each protocol of quick, and of full besides.
type row struct {
	from, to    string
	quick, full string
	size        Size
	want        probe.Outcome
	names       string
	times, pods int
}

// Cases are those of the quick test, or of the full one, which has the quick ones too.
func Cases(full bool) []Case {
	var cases []Case
	for _, group := range groups() {
		for _, r := range group.rows {
			protocols := strings.Fields(r.quick)
			if full {
				protocols = append(protocols, strings.Fields(r.full)...)
			}
			for _, protocol := range protocols {
				cases = append(cases, r.of(group.name, protocol, 4), r.of(group.name, protocol, 6))
			}
		}
	}
	return cases
}

func (r row) of(group, protocol string, family int) Case {
	c := Case{
		Group: group, From: r.from, To: r.to, Family: family, Protocol: protocol, Size: r.size, Want: r.want,
		Names: strings.Fields(r.names), Times: max(r.times, 1), Distinct: r.pods,
	}
	if c.Want == "" {
		c.Want = probe.Reached
	}
	c.ID = fmt.Sprintf("%s/%s-to-%s/%s%d", group, c.From, strings.ReplaceAll(c.To, "/", "-"), protocol, family)
	if c.Size != Small {
		c.ID += "/" + string(c.Size)
	}
	return c
}

// question is what the pod is asked. Port and host come from the cluster.
func (c Case) question(host string, port int) probe.Question {
	q := probe.Question{
		Protocol: c.Protocol, Host: host, Family: c.Family, Port: port, Times: c.Times, Timeout: answerWithin, Silent: c.To == "api" || c.Group == external,
	}
	if c.Want == probe.Timeout {
		q.Timeout = silentWithin
	}
	switch c.Size {
	case Small:
	case MTU, OverMTU:
		q.OfMTU, q.DontFragment = true, true
		if c.Size == OverMTU {
			q.Size = 1
		}
	case Fragments:
		q.Size = 3000
	case Large:
		q.Size = 1 << 20
	case Lasting:
		q.Size, q.Over = lastingBytes, cmp.Or(c.Lasts, lastsFor)
		q.Timeout = answerWithin + q.Over
	}
	return q
}

// Select keeps the cases whose id an expression matches; with ! before it, the others.
func Select(cases []Case, expression string) ([]Case, error) {
	expression, not := strings.CutPrefix(expression, "!")
	matches, err := regexp.Compile(expression)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(cases, func(c Case) bool { return matches.MatchString(c.ID) == not }), nil
}
