package cluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/ovn-offload/ovn-offload/hack/lab/build"
	"github.com/ovn-offload/ovn-offload/hack/lab/machine"
)

// etc is where a machine sees its configuration directory.
const etc = "/etc/kubernetes/"

// etcdURL is where an API server reaches the etcd of its node.
const etcdURL = "https://127.0.0.1:2379"

const containerdConfig = `version = 3
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = 'docker.io/library/%s'
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true # a container of the host may lack CAP_SYS_RESOURCE
[plugins.'io.containerd.cri.v1.runtime'.cni]
use_internal_loopback = true
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc] # crun: a small part of runc's processor time
runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = '/usr/bin/crun'
`

// nodeFiles writes what kubelet and containerd of a node read.
func (l *Lab) nodeFiles(node, dir string, ca *authority) error {
	user := "system:node:" + node
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), ca.pem, 0o644); err != nil {
		return err
	}
	if err := ca.issue(filepath.Join(dir, "kubelet"), identity{user: user, groups: []string{"system:nodes"}, names: []string{node}, addrs: l.cfg.Addresses(node)}); err != nil {
		return err
	}
	if err := ca.kubeconfig(filepath.Join(dir, "kubelet.conf"), l.apiURL(), identity{user: user, groups: []string{"system:nodes"}}); err != nil {
		return err
	}
	settings := l.kubeletConfig()
	if l.cfg.isVM(node) {
		maps.Copy(settings, idleKubelet())
	}
	encoded, err := json.MarshalIndent(settings, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "kubelet.json"), encoded, 0o644); err != nil {
		return err
	}
	if err := writeContainerdConfig(dir); err != nil || !l.cfg.hasSystemd(node) {
		return err
	}
	return l.mirrorFiles(dir)
}

func writeContainerdConfig(dir string) error {
	return os.WriteFile(filepath.Join(dir, "containerd.toml"), fmt.Appendf(nil, containerdConfig, build.PauseImage), 0o644)
}

// kubeletConfig differs from a production node in what namespaces cannot have:
// disks of their own to evict for, and (on cgroup v1) QoS groups.
func (l *Lab) kubeletConfig() map[string]any {
	return map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": etc + "ca.crt"},
		},
		"authorization":               map[string]any{"mode": "Webhook"},
		"tlsCertFile":                 etc + "kubelet.crt",
		"tlsPrivateKeyFile":           etc + "kubelet.key",
		"containerRuntimeEndpoint":    "unix:///run/containerd/containerd.sock",
		"cgroupDriver":                "cgroupfs",
		"cgroupsPerQOS":               false,
		"enforceNodeAllocatable":      []string{},
		"failCgroupV1":                false,
		"failSwapOn":                  false,
		"oomScoreAdj":                 0,
		"makeIPTablesUtilChains":      false,
		"clusterDNS":                  []string{l.clusterDNS()},
		"clusterDomain":               "cluster.local",
		"maxPods":                     250,
		"imageGCHighThresholdPercent": 100,
		"evictionHard":                map[string]string{"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%"},
		"crashLoopBackOff":            map[string]any{"maxContainerRestartPeriod": "2s"},
		"shutdownGracePeriod":         "0s",
	}
}

// idleKubelet has settings against periodic work of a kubelet in a VM. This work costs ten times as much in a VM, and
// the lab does not use the results.
func idleKubelet() map[string]any {
	return map[string]any{
		"volumeStatsAggPeriod":          "-1s",
		"containerLogMonitorInterval":   "5m",
		"localStorageCapacityIsolation": false,
		"runtimeRequestTimeout":         "10m",
	}
}

func nodeServices(node string, addrs []netip.Addr) []machine.Service {
	return []machine.Service{
		{Name: "containerd", Args: []string{"containerd", "--config", etc + "containerd.toml"}},
		{Name: "kubelet", Args: []string{
			"kubelet", "--config", etc + "kubelet.json", "--kubeconfig", etc + "kubelet.conf",
			"--hostname-override", node, "--node-ip", join(addrs),
		}},
	}
}

// controlFiles writes what the control plane reads, on its nodes only.
func (l *Lab) controlFiles(node, dir string, ca *authority) error {
	loopback := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()}
	addrs := append(loopback, l.cfg.Addresses(node)...)
	if l.cfg.ControlPlanes > 1 {
		addrs = append(addrs, l.cfg.Addresses(balancer)...)
	}
	for _, services := range l.cfg.ServiceCIDRs {
		addrs = append(addrs, services.Addr().Next())
	}
	names := []string{"localhost", node, "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	for base, id := range map[string]identity{
		"etcd":           {user: "etcd", names: names, addrs: addrs},
		"etcd-client":    {user: "kube-apiserver-etcd-client"},
		"apiserver":      {user: "kube-apiserver", names: names, addrs: addrs},
		"kubelet-client": {user: "kube-apiserver-kubelet-client", groups: []string{"system:masters"}},
	} {
		if err := ca.issue(filepath.Join(dir, base), id); err != nil {
			return err
		}
	}
	for _, name := range []string{"kube-controller-manager", "kube-scheduler"} {
		if err := ca.kubeconfig(filepath.Join(dir, name+".conf"), "https://"+l.cfg.endpoint(node, apiPort).String(), identity{user: "system:" + name}); err != nil {
			return err
		}
	}
	return l.serviceAccountFiles(dir)
}

// serviceAccountFiles gives all API servers the same keys: each accepts tokens of the others.
func (l *Lab) serviceAccountFiles(dir string) error {
	if err := serviceAccountKeys(l.path("pki", "sa")); err != nil {
		return err
	}
	for _, file := range []string{"sa.key", "sa.pub"} {
		if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
			continue
		}
		data, err := os.ReadFile(l.path("pki", file))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lab) controlServices(node string) []machine.Service {
	bind := "0.0.0.0"
	if l.cfg.Families != "ipv4" {
		bind = "::"
	}
	return []machine.Service{
		l.etcdService(node),
		{Name: "kube-apiserver", Args: []string{
			"kube-apiserver", "--bind-address=" + bind, "--advertise-address=" + l.cfg.Addresses(node)[0].String(), "--secure-port=6443",
			"--etcd-servers=" + etcdURL, "--etcd-cafile=" + etc + "ca.crt", "--etcd-certfile=" + etc + "etcd-client.crt", "--etcd-keyfile=" + etc + "etcd-client.key",
			"--client-ca-file=" + etc + "ca.crt", "--tls-cert-file=" + etc + "apiserver.crt", "--tls-private-key-file=" + etc + "apiserver.key",
			"--kubelet-client-certificate=" + etc + "kubelet-client.crt", "--kubelet-client-key=" + etc + "kubelet-client.key",
			"--kubelet-certificate-authority=" + etc + "ca.crt", "--kubelet-preferred-address-types=InternalIP",
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--service-account-key-file=" + etc + "sa.pub", "--service-account-signing-key-file=" + etc + "sa.key",
			"--service-cluster-ip-range=" + join(l.cfg.ServiceCIDRs),
			"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
		}},
		{Name: "kube-controller-manager", Args: append([]string{
			"kube-controller-manager", "--kubeconfig=" + etc + "kube-controller-manager.conf", "--bind-address=127.0.0.1",
			"--service-account-private-key-file=" + etc + "sa.key", "--root-ca-file=" + etc + "ca.crt",
			"--use-service-account-credentials", "--allocate-node-cidrs=false",
		}, l.leases()...)},
		{Name: "kube-scheduler", Args: append([]string{
			"kube-scheduler", "--kubeconfig=" + etc + "kube-scheduler.conf", "--bind-address=127.0.0.1",
		}, l.leases()...)},
	}
}

// clusterDNS is the address that the cluster's DNS service will have.
func (l *Lab) clusterDNS() string {
	addr := l.cfg.ServiceCIDRs[0].Addr()
	for range 10 {
		addr = addr.Next()
	}
	return addr.String()
}
