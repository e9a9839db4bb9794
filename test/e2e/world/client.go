//go:build e2e

package world

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Client asks servers: a pod, a node's own network, or the external host.
type Client struct {
	Name string
	// Node is "" for the external host.
	Node string
	// InPodNetwork is false for nodes, for the external host, and for pods in a node's network.
	InPodNetwork bool

	addrs func(*testing.T) []netip.Addr
	run   func(command ...string) (string, error)
}

// FromPod is a pod as a client.
func FromPod(pod *corev1.Pod) Client {
	return Client{
		Name: pod.Name, Node: pod.Spec.NodeName, InPodNetwork: !pod.Spec.HostNetwork,
		addrs: func(*testing.T) []netip.Addr { return Addresses(pod) },
		run:   func(command ...string) (string, error) { return InPod(pod.Namespace, pod.Name, command...) },
	}
}

// FromNode is a node, or the external host, as a client.
func FromNode(machine string) Client {
	var own []netip.Addr
	var once sync.Once
	c := Client{
		Name: "on-" + machine, Node: machine,
		addrs: func(t *testing.T) []netip.Addr {
			once.Do(func() { own = NodeAddresses(t, machine) })
			return own
		},
		run: func(command ...string) (string, error) { return OnNode(machine, command...) },
	}
	if machine == Outside {
		c.Name, c.Node = Outside, ""
	}
	return c
}

// Addresses are those that a server sees without SNAT.
func (c Client) Addresses(t *testing.T) []netip.Addr {
	t.Helper()
	return c.addrs(t)
}

// Run runs a command where the client is.
func (c Client) Run(command ...string) (string, error) { return c.run(command...) }

// Tries is a command that has an error when there is no answer.
func (c Client) Tries(command ...string) Attempt {
	return func() (string, error) { return c.run(command...) }
}

// Answer is a server's reply: the client's address that the server sees, and the server's name.
type Answer struct{ Seen, Server string }

// ReadAnswer reads what a client printed; err is that of the client.
func ReadAnswer(out string, err error) (Answer, error) {
	words := strings.Fields(out)
	if err != nil || len(words) != 2 {
		return Answer{}, errors.Join(err, fmt.Errorf("answer %q", out))
	}
	return Answer{Seen: strings.TrimPrefix(words[0], "::ffff:"), Server: words[1]}, nil
}

// Ask asks a named server once, for a second; network is tcp, udp or sctp.
func (c Client) Ask(network, address string) (Answer, error) {
	return ReadAnswer(c.run("probe", "dial", network, address))
}

// AskPatiently is Ask for an answer that has to come, with time for repeated packets.
func (c Client) AskPatiently(network, address string) (Answer, error) {
	return ReadAnswer(c.run(Patiently([]string{"probe", "dial", network, address})...))
}

// Answered waits until an address answers.
func (c Client) Answered(t *testing.T, network, address string) Answer {
	t.Helper()
	var got Answer
	Eventually(t, ServiceWithin, network+" "+address+" answers "+c.Name, func() (bool, string) {
		var err error
		got, err = c.Ask(network, address)
		return err == nil, fmt.Sprint(err)
	})
	return got
}

// Refused waits until an address refuses at once, and not by silence.
func (c Client) Refused(t *testing.T, network, address string) {
	t.Helper()
	Eventually(t, ServiceWithin, network+" "+address+" refuses "+c.Name, func() (bool, string) {
		got, err := c.Ask(network, address)
		return err != nil && strings.Contains(err.Error(), "refused"), fmt.Sprint(got, err)
	})
}

// Reached lists those of some targets (tcp|udp|sctp:ADDRESS:PORT) that answer, tried at once.
func (c Client) Reached(targets ...string) ([]string, error) {
	out, err := c.run(append([]string{"probe", "reach"}, targets...)...)
	return strings.Fields(out), err
}

// AnsweredBy waits until the pod of a name answers at an address, at EchoPort.
func (c Client) AnsweredBy(t *testing.T, to, name string) {
	t.Helper()
	Eventually(t, Soon, name+" answers at "+to, func() (bool, string) {
		out, err := c.run("probe", "dial", "tcp", echoAt(to))
		return err == nil && strings.HasSuffix(strings.TrimSpace(out), " "+name), out
	})
}

// AnsweredOnceBy wants the pod of a name to answer at an address, at EchoPort, when the client asks once, patiently.
func (c Client) AnsweredOnceBy(t *testing.T, to, name string) {
	t.Helper()
	out, err := c.run(Patiently([]string{"probe", "dial", "tcp", echoAt(to)})...)
	if err != nil {
		t.Fatalf("%s asks %s: %v: %s", c.Name, to, err, out)
	}
	if got := strings.TrimSpace(out); !strings.HasSuffix(got, " "+name) {
		t.Errorf("%s asks %s: %q, want an answer of %s", c.Name, to, got, name)
	}
}

// Unanswered wants no answer at an address, at EchoPort: for none of three connections that begin one after another,
// because a busy machine loses some packets.
func (c Client) Unanswered(t *testing.T, to string) {
	t.Helper()
	const thrice = `for i in 1 2 3; do probe dial tcp "$1" 2>/dev/null & sleep 0.3; done; wait`
	if out, err := c.run("sh", "-c", thrice, "sh", echoAt(to)); err != nil || out != "" {
		t.Errorf("%s asks %s, where no pod is to answer: %s %v", c.Name, to, out, err)
	}
}

// ReachesOn wants answers of an address to pings by an interface, and at EchoPort.
func (c Client) ReachesOn(t *testing.T, via string, to netip.Addr) {
	t.Helper()
	for _, command := range [][]string{
		{"ping", "-c1", "-w10", "-I", via, to.String()}, Patiently([]string{"probe", "dial", "tcp", echoAt(to.String())}),
	} {
		if out, err := c.run(command...); err != nil {
			t.Fatalf("%v of %s: %v: %s", command, c.Name, err, out)
		}
	}
}

// SilentOn wants no answer of an address to pings by an interface, at a moment at which a witness answers: options of
// ping, and its address.
func SilentOn(t *testing.T, c Client, via string, to netip.Addr, witness ...string) {
	t.Helper()
	c.PingsFail(t, []string{"-I", via, to.String()}, append([]string{"-I"}, witness...))
}

func echoAt(to string) string { return netip.AddrPortFrom(netip.MustParseAddr(to), EchoPort).String() }

// PingsFail wants pings to an address to have no answer while those to another address have one. Both are the last
// arguments of ping, with options before them.
func (c Client) PingsFail(t *testing.T, forbidden, witness []string) {
	t.Helper()
	FailsBeside(t, c.Name+" has an answer of "+forbidden[len(forbidden)-1],
		c.Tries(Pings(forbidden)...), c.Tries(Pings(witness)...))
}
