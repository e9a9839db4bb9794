package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"

	"github.com/ovn-offload/ovn-offload/hack/lab/machine"
)

// machines starts those that do not run, connects them, and gives them their services.
func (l *Lab) machines(ctx context.Context) error {
	ca, err := openAuthority(l.path("pki"))
	if err != nil {
		return err
	}
	hub, err := l.start(fabric, ca)
	if err != nil {
		return err
	}
	all := []*machine.Machine{}
	for _, name := range append(l.cfg.NodeNames(), Outside) {
		if l.cfg.isVM(name) {
			continue
		}
		m, err := l.start(name, ca)
		if err != nil {
			return err
		}
		all = append(all, m)
	}
	if err := l.plug(hub, all); err != nil {
		return err
	}
	for _, name := range l.cfg.VMNames() {
		if err := l.startVM(name, hub, ca); err != nil {
			return err
		}
	}
	if err := l.writeAccess(ca); err != nil {
		return err
	}
	for _, m := range append([]*machine.Machine{hub}, all[:l.cfg.Nodes]...) {
		if err := l.serve(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// writeAccess writes what the host's shell and later commands need to know of the machines.
func (l *Lab) writeAccess(ca *authority) error {
	if err := l.writeState(); err != nil {
		return err
	}
	server := fmt.Sprintf("https://127.0.0.1:%d", l.port)
	return ca.kubeconfig(l.Kubeconfig(), server, identity{user: "admin", groups: []string{"system:masters"}})
}

// services are what the init of a machine keeps running.
func (l *Lab) services(name string) []machine.Service {
	if name == fabric {
		return append(l.balancerServices(), l.registryServices()...)
	}
	services := nodeServices(name, l.cfg.Addresses(name))
	kubelet := &services[len(services)-1]
	switch {
	case l.cfg.isVM(name): // what may run elsewhere does
		kubelet.Args = append(kubelet.Args, "--node-labels="+vmLabel+"=", "--register-with-taints="+vmLabel+"=:PreferNoSchedule", "--housekeeping-interval=5m")
	case slices.Contains(l.cfg.ControlNodes(), name):
		if l.cfg.ControlPlanes > 1 { // as kubeadm does
			kubelet.Args = append(kubelet.Args, "--register-with-taints="+controlLabel+"=:NoSchedule")
		}
		services = append(l.controlServices(name), services...)
	}
	return services
}

// serve starts the services of a machine that do not run yet.
func (l *Lab) serve(ctx context.Context, m *machine.Machine) error {
	services := l.services(m.Name)
	if len(services) == 0 {
		return nil
	}
	if l.lostMember(m.Name) {
		if err := l.replaceMember(ctx, m.Name); err != nil {
			return fmt.Errorf("replacing the member of etcd on %s: %w", m.Name, err)
		}
		joinExisting(services)
	}
	if err := l.spec(m.Name).SetServices(services); err != nil {
		return err
	}
	return m.Reload()
}

// start finds the machine or makes it, without services. The machine that leads to the API server is given the host's
// end of that way: a listener on the loopback interface.
func (l *Lab) start(name string, ca *authority) (*machine.Machine, error) {
	m, err := machine.Find(l.cfg.Name, name)
	if m != nil || err != nil {
		return m, err
	}
	spec := l.spec(name)
	for _, bind := range spec.Binds {
		if err := os.MkdirAll(bind.From, 0o755); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(spec.Config(), 0o755); err != nil {
		return nil, err
	}
	if err := l.files(name, spec.Config(), ca); err != nil {
		return nil, fmt.Errorf("writing the files of %s: %w", name, err)
	}
	// Services of before would start without a network.
	if err := spec.SetServices(nil); err != nil {
		return nil, err
	}
	if name != l.entrance() {
		return machine.Start(l.cfg.Command, spec)
	}
	listener, err := l.listen()
	if err != nil {
		return nil, err
	}
	defer func() { _ = listener.Close() }()
	spec.Forwards = []string{l.cfg.apiAddress().String()}
	return machine.Start(l.cfg.Command, spec, listener)
}

// entrance is the machine whose init takes the host's shell to the API server.
func (l *Lab) entrance() string {
	if l.cfg.ControlPlanes > 1 {
		return fabric
	}
	return l.cfg.NodeNames()[0]
}

// files writes what the services of a machine read.
func (l *Lab) files(name, dir string, ca *authority) error {
	if name == fabric {
		return errors.Join(l.balancerFiles(dir, ca), l.registryFiles(dir))
	}
	if !slices.Contains(l.cfg.NodeNames(), name) {
		return nil
	}
	if err := l.nodeFiles(name, dir, ca); err != nil {
		return err
	}
	if slices.Contains(l.cfg.ControlNodes(), name) {
		return l.controlFiles(name, dir, ca)
	}
	return nil
}

// listen takes the port of before when it is still free.
func (l *Lab) listen() (*os.File, error) {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", l.port))
	if err != nil && l.port != 0 {
		listener, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		return nil, fmt.Errorf("listening for the host's shell: %w", err)
	}
	defer func() { _ = listener.Close() }()
	l.port = listener.Addr().(*net.TCPAddr).Port
	if err := l.writeState(); err != nil {
		return nil, err
	}
	return listener.(*net.TCPListener).File()
}

// nodes gives the machines that are nodes; each must run.
func (l *Lab) nodes() ([]*machine.Machine, error) {
	var nodes []*machine.Machine
	for _, name := range l.cfg.NodeNames() {
		m, err := l.find(name)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, m)
	}
	return nodes, nil
}

func (l *Lab) find(name string) (*machine.Machine, error) {
	m, err := machine.Find(l.cfg.Name, name)
	if err == nil && m == nil {
		err = fmt.Errorf("%s does not run in lab %q", name, l.cfg.Name)
	}
	return m, err
}
