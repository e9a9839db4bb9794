package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ovn-offload/ovn-offload/hack/lab/machine"
)

const (
	controlLabel  = "node-role.kubernetes.io/control-plane"
	etcdData      = "/var/lib/etcd"
	etcdPeers     = 2380
	newCluster    = "--initial-cluster-state=new"
	joinCluster   = "--initial-cluster-state=existing"
	replaceWithin = time.Minute
)

// etcdService is etcd alone, or a member of a cluster whose members are on all control-plane nodes. An API server uses
// the member beside it, as with kubeadm: a member of a machine without power would hold its requests up.
func (l *Lab) etcdService(node string) machine.Service {
	args := []string{
		"etcd", "--data-dir=" + etcdData, "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=" + etcdURL, "--advertise-client-urls=" + etcdURL,
		"--cert-file=" + etc + "etcd.crt", "--key-file=" + etc + "etcd.key", "--client-cert-auth", "--trusted-ca-file=" + etc + "ca.crt",
	}
	if l.cfg.ControlPlanes == 1 {
		return machine.Service{Name: "etcd", Args: append(args, "--listen-peer-urls=http://127.0.0.1:2380")}
	}
	var members []string
	for _, name := range l.cfg.ControlNodes() {
		members = append(members, name+"="+l.peerURL(name))
	}
	return machine.Service{Name: "etcd", Args: append(args,
		"--name="+node, "--initial-cluster="+strings.Join(members, ","), newCluster,
		"--listen-peer-urls="+l.peerURL(node), "--initial-advertise-peer-urls="+l.peerURL(node),
		"--peer-cert-file="+etc+"etcd.crt", "--peer-key-file="+etc+"etcd.key", "--peer-client-cert-auth", "--peer-trusted-ca-file="+etc+"ca.crt",
	)}
}

func (l *Lab) peerURL(node string) string {
	return "https://" + l.cfg.endpoint(node, etcdPeers).String()
}

// joinExisting has a member join the cluster that there is.
func joinExisting(services []machine.Service) {
	for _, service := range services {
		if i := slices.Index(service.Args, newCluster); i >= 0 {
			service.Args[i] = joinCluster
		}
	}
}

// lostMember says that the node's member of etcd has lost its data. Such a member cannot go on under its name.
func (l *Lab) lostMember(node string) bool {
	if !l.formed || l.cfg.ControlPlanes == 1 || !slices.Contains(l.cfg.ControlNodes(), node) {
		return false
	}
	return !isDir(filepath.Join(l.spec(node).Upper(), etcdData, "member"))
}

// replaceMember has the other members forget the one of a node and expect a new one there.
func (l *Lab) replaceMember(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeout(ctx, replaceWithin)
	defer cancel()
	return poll(ctx, runEvery, func() error {
		var errs []error
		for _, peer := range l.cfg.ControlNodes() {
			if peer == node {
				continue
			}
			err := l.replaceMemberBy(ctx, peer, node)
			if err == nil {
				return nil
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
}

func (l *Lab) replaceMemberBy(ctx context.Context, peer, node string) error {
	var list struct {
		Members []struct {
			ID       string
			PeerURLs []string
		}
	}
	if err := l.etcdCall(ctx, peer, "list", struct{}{}, &list); err != nil {
		return err
	}
	url := l.peerURL(node)
	for _, member := range list.Members {
		if !slices.Contains(member.PeerURLs, url) {
			continue
		}
		if err := l.etcdCall(ctx, peer, "remove", map[string]string{"ID": member.ID}, nil); err != nil {
			return err
		}
	}
	return l.etcdCall(ctx, peer, "add", map[string][]string{"peerURLs": {url}}, nil)
}

// etcdCall asks the member on a node for a change of the membership.
func (l *Lab) etcdCall(ctx context.Context, node, verb string, request, response any) error {
	m, err := l.find(node)
	if err != nil {
		return err
	}
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	cmd := m.Command(ctx, "curl", "--silent", "--show-error", "--fail-with-body", "--max-time", "10", "--cacert", etc+"ca.crt",
		"--cert", etc+"etcd-client.crt", "--key", etc+"etcd-client.key", "--data", string(body), etcdURL+"/v3/cluster/member/"+verb)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s of members by etcd on %s: %w: %s%s", verb, node, err, complaints.Bytes(), out)
	}
	if response == nil {
		return nil
	}
	return json.Unmarshal(out, response)
}

// leases are what components of several control-plane nodes elect their leader with. The holder gives up before the
// others take over. An API server does not answer for about 2 s when etcd elects its leader, which the holder survives.
func (l *Lab) leases() []string {
	if l.cfg.ControlPlanes == 1 {
		return []string{"--leader-elect=false"}
	}
	return []string{"--leader-elect=true", "--leader-elect-lease-duration=8s", "--leader-elect-renew-deadline=6s", "--leader-elect-retry-period=1s"}
}

// balancerConfig is of haproxy, in front of the API servers. A server is taken out when it took no connection for three
// seconds, or is not ready; its connections are closed, so that clients come anew. A busy server has 5 s to answer.
const balancerConfig = `defaults
    mode tcp
    timeout connect 2s
    timeout check 5s
    timeout client 4h
    timeout server 4h
frontend kube-apiserver
    bind %s
    default_backend control-planes
backend control-planes
    balance leastconn
    option httpchk GET /readyz
    http-check expect status 200
    default-server check check-ssl verify required ca-file %sca.crt inter 1s fall 3 rise 1 on-marked-down shutdown-sessions
`

func (l *Lab) balancerFiles(dir string, ca *authority) error {
	if l.cfg.ControlPlanes == 1 {
		return nil
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), ca.pem, 0o644); err != nil {
		return err
	}
	config := fmt.Appendf(nil, balancerConfig, l.cfg.apiAddress(), etc)
	for _, node := range l.cfg.ControlNodes() {
		config = fmt.Appendf(config, "    server %s %s\n", node, l.cfg.endpoint(node, apiPort))
	}
	return os.WriteFile(filepath.Join(dir, "haproxy.cfg"), config, 0o644)
}

func (l *Lab) balancerServices() []machine.Service {
	if l.cfg.ControlPlanes == 1 {
		return nil
	}
	return []machine.Service{{Name: "haproxy", Args: []string{"haproxy", "-db", "-f", etc + "haproxy.cfg"}}}
}
