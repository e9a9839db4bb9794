package deploy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
	"github.com/ovn-offload/ovn-offload/pkg/nodeoffload"
)

// manifests are those of deploy/manifests and deploy/removal.yaml.
func manifests(t *testing.T) map[string][]byte {
	t.Helper()
	return renderAll(t, Example())
}

func renderAll(t *testing.T, values map[string]any) map[string][]byte {
	t.Helper()
	c, err := Chart()
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := render(c, values)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for name, text := range rendered {
		files[name] = []byte(text)
	}
	return files
}

// TestPages_AreThoseOfChart: `make generate` writes them again.
func TestPages_AreThoseOfChart(t *testing.T) {
	for path, page := range map[string]func() (string, error){"../docs/values.md": ValuesPage, "../docs/api.md": APIPage} {
		want, err := page()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, read(t, path)[path]); diff != "" {
			t.Errorf("%s (-chart +file):\n%s", path, diff)
		}
	}
}

// TestManifests_AreThoseOfChart: `make generate` renders them again.
func TestManifests_AreThoseOfChart(t *testing.T) {
	paths, err := filepath.Glob("manifests/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]byte{removal: []byte(read(t, "removal.yaml")["removal.yaml"])}
	for _, path := range paths {
		if found[filepath.Base(path)], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(manifests(t), found); diff != "" {
		t.Errorf("deploy/manifests and deploy/removal.yaml (-chart +files):\n%s", diff)
	}
}

// decode reads every document strictly: unknown and doubled fields are errors.
func decode(files map[string][]byte) ([]runtime.Object, error) {
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	var objects []runtime.Object
	for name, content := range files {
		reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
		for {
			doc, err := reader.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if bytes.Contains(doc, []byte("\nkind: CustomResourceDefinition\n")) {
				continue // pkg/kube/v1alpha1 reads those, as strictly
			}
			object, _, err := decoder.Decode(doc, nil, nil)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			objects = append(objects, object)
		}
	}
	return objects, nil
}

func each[T runtime.Object](objects []runtime.Object, do func(T)) {
	for _, o := range objects {
		if typed, ok := o.(T); ok {
			do(typed)
		}
	}
}

type workload struct {
	name   string
	onNode bool // every node has it
	spec   corev1.PodSpec
}

func workloads(objects []runtime.Object) (list []workload) {
	each(objects, func(d *appsv1.Deployment) { list = append(list, workload{d.Name, false, d.Spec.Template.Spec}) })
	each(objects, func(d *appsv1.DaemonSet) {
		list = append(list, workload{d.Name, d.Name != "ovnkube-db", d.Spec.Template.Spec}) // that of clusters names its nodes
	})
	each(objects, func(j *batchv1.Job) { list = append(list, workload{j.Name, false, j.Spec.Template.Spec}) })
	return list
}

// problems is everything that is wrong with a set of manifests.
func problems(objects []runtime.Object) []string {
	var found []string
	for _, check := range []func([]runtime.Object) []string{checkAccounts, checkRights, checkSettings, checkVolumes, checkPods, checkPolicies} {
		found = append(found, check(objects)...)
	}
	return found
}

func checkAccounts(objects []runtime.Object) (found []string) {
	accounts, roles := map[string]bool{}, map[string]bool{}
	each(objects, func(o *corev1.ServiceAccount) { accounts[o.Name] = true })
	each(objects, func(o *rbacv1.Role) { roles["Role/"+o.Name] = true })
	each(objects, func(o *rbacv1.ClusterRole) { roles["ClusterRole/"+o.Name] = true })
	binding := func(name string, ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
		if !roles[ref.Kind+"/"+ref.Name] {
			found = append(found, fmt.Sprintf("binding %s: no %s %s here", name, ref.Kind, ref.Name))
		}
		for _, s := range subjects {
			if s.Kind == "Group" && s.Name == "system:serviceaccounts:ovn-dpu" { // one account a DPU
				continue
			}
			if s.Kind != "ServiceAccount" || !accounts[s.Name] || s.Namespace != "ovn-kubernetes" {
				found = append(found, fmt.Sprintf("binding %s: subject %s %s", name, s.Kind, s.Name))
			}
		}
	}
	each(objects, func(o *rbacv1.RoleBinding) { binding(o.Name, o.RoleRef, o.Subjects) })
	each(objects, func(o *rbacv1.ClusterRoleBinding) { binding(o.Name, o.RoleRef, o.Subjects) })
	for _, w := range workloads(objects) {
		if !accounts[w.spec.ServiceAccountName] {
			found = append(found, fmt.Sprintf("%s: no ServiceAccount %q", w.name, w.spec.ServiceAccountName))
		}
	}
	return found
}

// The rights that there are, written once more: a wider role has to be a decision.
var rights = map[string][]string{
	"ovnkube-identity": {
		"create tokenreviews", "create subjectaccessreviews",
		"create secrets", "get secrets*", "update secrets*", "delete secrets*",
		"create configmaps", "get configmaps*", "list configmaps*", "watch configmaps*", "update configmaps*",
		"list nodes", "watch nodes", "get serviceaccounts", "list certificatesigningrequests", "watch certificatesigningrequests",
		"patch certificatesigningrequests/approval", "patch certificatesigningrequests/status", "approve signers*", "sign signers*",
	},
	"ovnkube-master": {
		"create tokenreviews", "create subjectaccessreviews",
		"get namespaces", "list namespaces", "watch namespaces", "get nodes", "list nodes", "watch nodes", "get pods", "list pods", "watch pods",
		"get services", "list services", "watch services", "get endpointslices", "list endpointslices", "watch endpointslices",
		"create endpointslices", "update endpointslices", "delete endpointslices", // copies with the addresses of primary networks
		"list servicecidrs", "watch servicecidrs", "patch nodes/status", "patch pods/status", "list networkpolicies", "watch networkpolicies",
		"list adminnetworkpolicies", "watch adminnetworkpolicies", "list baselineadminnetworkpolicies", "watch baselineadminnetworkpolicies",
		"list clusternetworkpolicies", "watch clusternetworkpolicies", "patch adminnetworkpolicies/status",
		"patch baselineadminnetworkpolicies/status", "patch clusternetworkpolicies/status",
		"list nodeoffloads", "watch nodeoffloads", "list offloadpolicies", "watch offloadpolicies", "update offloadpolicies/status", "list namespacesubnets", "watch namespacesubnets", "patch namespacesubnets", "patch namespacesubnets/status", "list physicalnetworks", "watch physicalnetworks", "list portmirrors", "watch portmirrors",
		"list adminpolicybasedexternalroutes", "watch adminpolicybasedexternalroutes", "list clusternetworkconnects", "watch clusternetworkconnects", "list egressfirewalls", "watch egressfirewalls", // not served
		"list egressips", "watch egressips", "list egressqoses", "watch egressqoses", "list egressservices", "watch egressservices",
		"list networkqoses", "watch networkqoses", "list routeadvertisements", "watch routeadvertisements", "list uplinks", "watch uplinks",
		"list vteps", "watch vteps",
		"patch nodes", "create pods/eviction", // for OffloadPolicies with drain Evict
		"get network-attachment-definitions", "list network-attachment-definitions", "watch network-attachment-definitions", "patch network-attachment-definitions",
		"get multi-networkpolicies", "list multi-networkpolicies", "watch multi-networkpolicies",
		"get ipamclaims", "list ipamclaims", "watch ipamclaims", "patch ipamclaims/status",
		"create network-attachment-definitions", "update network-attachment-definitions", "delete network-attachment-definitions",
		"list userdefinednetworks", "watch userdefinednetworks", "update userdefinednetworks", "update userdefinednetworks/status", "update userdefinednetworks/finalizers",
		"list clusteruserdefinednetworks", "watch clusteruserdefinednetworks", "update clusteruserdefinednetworks", "update clusteruserdefinednetworks/status",
		"update clusteruserdefinednetworks/finalizers",
		"list networks", "watch networks", "update networks", "update networks/status", "update networks/finalizers",
		"list networkchainings", "watch networkchainings", "update networkchainings/status",
		"list providernetworks", "watch providernetworks", "update providernetworks", "update providernetworks/status", "update providernetworks/finalizers",
		"create events", "patch events", "create leases", "get leases*", "update leases*", "get configmaps*",
	},
	"ovnkube-db": {"create configmaps", "get configmaps*", "update configmaps*"}, // of clusters
	"ovnkube-node": {
		"create tokenreviews", "create subjectaccessreviews",
		"get nodes", "list nodes", "watch nodes", "get pods", "list pods", "watch pods", "get services", "list services", "watch services",
		"list endpointslices", "watch endpointslices", "list servicecidrs", "watch servicecidrs", "patch nodes/status", "create events", "patch events",
		"get nodeoffloads", "create nodeoffloads", "update nodeoffloads",
		"get offloadpolicies", "list offloadpolicies", "watch offloadpolicies", "list providernetworks", "watch providernetworks",
		"get physicalnetworks", "list physicalnetworks", "watch physicalnetworks",
		"create certificatesigningrequests", "get certificatesigningrequests", "watch certificatesigningrequests",
		"list configmaps*", "watch configmaps*",
	},
	"ovn-offload-removal": {"list daemonsets", "watch daemonsets", "delete daemonsets", "list pods"},
	"ovn-offload-packets": {"create captures", "create injections"}, // for users; nothing is served by these names
	"ovn-dpu": { // of a DPU, in the cluster of its host
		"create tokenreviews", "create subjectaccessreviews",
		"get nodes", "list nodes", "watch nodes", "get pods", "list pods", "watch pods", "patch nodes/status", "patch pods/status",
		"get services", "list services", "watch services", "list endpointslices", "watch endpointslices", "list servicecidrs", "watch servicecidrs",
		"create events", "patch events", "get leases", "create leases", "update leases", "get nodeoffloads", "update nodeoffloads",
		"create certificatesigningrequests", "get certificatesigningrequests", "watch certificatesigningrequests",
		"list configmaps*", "watch configmaps*",
	},
	"ovn-dpu-token": {"create serviceaccounts/token"}, // of its own account: ovn-dpu-own-token
	"ovnkube-node-dpu-host": {
		"create tokenreviews", "create subjectaccessreviews",
		"get nodes", "list nodes", "watch nodes", "get pods", "list pods", "watch pods", "patch nodes/status", "patch pods/status",
		"get services", "list services", "watch services", "list endpointslices", "watch endpointslices", "list servicecidrs", "watch servicecidrs",
		"create events", "patch events", "get leases", "list leases", "watch leases",
		"get nodeoffloads", "create nodeoffloads", "update nodeoffloads", "get offloadpolicies", "list offloadpolicies", "watch offloadpolicies",
	},
}

func checkRights(objects []runtime.Object) (found []string) {
	check := func(role string, rules []rbacv1.PolicyRule) {
		for _, rule := range rules {
			star := ""
			if len(rule.ResourceNames) > 0 {
				star = "*"
			}
			for _, verb := range rule.Verbs {
				for _, resource := range rule.Resources {
					if right := verb + " " + resource + star; !slices.Contains(rights[role], right) {
						found = append(found, fmt.Sprintf("role %s: right to %s", role, right))
					}
				}
			}
		}
	}
	each(objects, func(o *rbacv1.Role) { check(o.Name, o.Rules) })
	each(objects, func(o *rbacv1.ClusterRole) { check(o.Name, o.Rules) })
	return found
}

var variable = regexp.MustCompile(`\$\((\w+)\)`)

func checkSettings(objects []runtime.Object) (found []string) {
	settings := map[string]bool{}
	each(objects, func(o *corev1.ConfigMap) {
		for key := range o.Data {
			settings[o.Name+"/"+key] = true
		}
	})
	for _, w := range workloads(objects) {
		for _, c := range w.spec.Containers {
			env := map[string]bool{}
			for _, e := range c.Env {
				env[e.Name] = true
				if e.ValueFrom == nil || e.ValueFrom.ConfigMapKeyRef == nil {
					continue
				}
				if ref := e.ValueFrom.ConfigMapKeyRef; !settings[ref.Name+"/"+ref.Key] {
					found = append(found, fmt.Sprintf("%s: no setting %s/%s", c.Name, ref.Name, ref.Key))
				}
			}
			for _, m := range variable.FindAllStringSubmatch(strings.Join(append(c.Command, c.Args...), " "), -1) {
				if !env[m[1]] {
					found = append(found, fmt.Sprintf("%s: $(%s) is not set", c.Name, m[1]))
				}
			}
		}
	}
	return found
}

func checkVolumes(objects []runtime.Object) (found []string) {
	for _, w := range workloads(objects) {
		volumes := map[string]bool{}
		for _, v := range w.spec.Volumes {
			volumes[v.Name] = true
			if v.Secret != nil && strings.HasSuffix(v.Secret.SecretName, "-ca") {
				found = append(found, w.name+": mounts the key of an authority")
			}
			if v.Secret != nil && w.onNode {
				found = append(found, w.name+": nodes hold "+v.Secret.SecretName)
			}
		}
		for _, c := range w.spec.Containers {
			for _, m := range c.VolumeMounts {
				if !volumes[m.Name] {
					found = append(found, fmt.Sprintf("%s: no volume %s", c.Name, m.Name))
				}
			}
		}
	}
	return found
}

var privileged = []string{"ovs-daemons", "ovn-offload-agent", "cleanup"}

func checkPods(objects []runtime.Object) (found []string) {
	for _, w := range workloads(objects) {
		if !w.spec.HostNetwork || w.spec.PriorityClassName == "" || len(w.spec.Tolerations) == 0 {
			found = append(found, w.name+": cannot start before the network is there")
		}
		for _, c := range w.spec.Containers {
			if !strings.HasSuffix(c.Image, "/ovn-offload:v0.1.0") || c.ImagePullPolicy != corev1.PullIfNotPresent {
				found = append(found, c.Name+": image "+c.Image)
			}
			if len(c.Resources.Limits) > 0 && c.Name != "relay" || len(c.Resources.Requests) == 0 { // the network works without the relay
				found = append(found, c.Name+": requests and no limits")
			}
			if s := c.SecurityContext; slices.Contains(privileged, c.Name) {
				continue
			} else if s == nil || s.Privileged != nil && *s.Privileged || s.Capabilities == nil || !slices.Contains(s.Capabilities.Drop, "ALL") ||
				len(s.Capabilities.Add) > 0 || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
				found = append(found, c.Name+": not confined")
			}
		}
	}
	return found
}

func checkPolicies(objects []runtime.Object) (found []string) {
	bound := map[string]bool{}
	each(objects, func(o *admissionv1.ValidatingAdmissionPolicyBinding) {
		bound[o.Spec.PolicyName] = slices.Contains(o.Spec.ValidationActions, admissionv1.Deny)
	})
	for _, name := range []string{"ovnkube-node-own-node", "ovnkube-node-own-pods", "ovnkube-node-own-lease", "ovnkube-node-own-offload", "ovn-pod-annotations", "ovn-node-metadata"} {
		if !bound[name] {
			found = append(found, "policy "+name+" does not deny")
		}
	}
	each(objects, func(o *admissionv1.ValidatingAdmissionPolicy) {
		if o.Spec.FailurePolicy == nil || *o.Spec.FailurePolicy != admissionv1.Fail {
			found = append(found, "policy "+o.Name+" fails open")
		}
		for _, v := range o.Spec.Variables {
			if v.Name == "labels" {
				for label := range nodeoffload.Labels(v1alpha1.NodeOffloadStatus{}) {
					if !strings.Contains(v.Expression, "'"+label+"'") {
						found = append(found, "policy "+o.Name+" keeps agents from writing label "+label)
					}
				}
			}
			if v.Name != "agents" {
				continue
			}
			for _, key := range []string{contract.NodeChassisIDKey, contract.NodeEncapIPsKey, contract.NodePrimaryAddressKey, contract.HostCIDRsKey, contract.GatewayConfigKey} {
				if !strings.Contains(v.Expression, "'"+key+"'") {
					found = append(found, "policy "+o.Name+" keeps agents from writing "+key)
				}
			}
			for _, key := range []string{contract.NodeSubnetsKey, contract.NodeIDKey} {
				if strings.Contains(v.Expression, key) {
					found = append(found, "policy "+o.Name+" lets agents write "+key)
				}
			}
		}
	})
	return found
}

// spoiled is a change of one file that has to be found.
type spoiled struct{ file, old, new, want string }

func (s spoiled) check(t *testing.T, files map[string][]byte, problems func([]runtime.Object) []string) {
	t.Helper()
	spoilt := bytes.ReplaceAll(files[s.file], []byte(s.old), []byte(s.new))
	if bytes.Equal(spoilt, files[s.file]) {
		t.Errorf("%s has no %q", s.file, s.old)
		return
	}
	files[s.file] = spoilt
	objects, err := decode(files)
	if err != nil {
		t.Errorf("%s with %q: %v", s.file, s.new, err)
		return
	}
	if found := strings.Join(problems(objects), "\n"); !strings.Contains(found, s.want) {
		t.Errorf("%s with %q: found %q, want %q", s.file, s.new, found, s.want)
	}
}

func TestManifests_PassAllChecks(t *testing.T) {
	objects, err := decode(manifests(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems(objects) {
		t.Error(p)
	}
	if n := len(workloads(objects)); n != 8 {
		t.Errorf("%d workloads, want 8", n)
	}
}

// Every check finds what it is there for.
func TestManifestChecks_FindEachSpoiledManifest(t *testing.T) {
	for _, tc := range []spoiled{
		{"20-rbac.yaml", "verbs: [get, update]", `verbs: ["*"]`, "role ovnkube-identity: right to * secrets*"},
		{"20-rbac.yaml", "resources: [nodes/status]", "resources: [nodes]", "role ovnkube-node: right to patch nodes"},
		{"20-rbac.yaml", "kind: ClusterRole, name: ovnkube-node}", "kind: ClusterRole, name: cluster-admin}", "no ClusterRole cluster-admin"},
		{"60-ovs-node.yaml", "serviceAccountName: ovs-node", "serviceAccountName: other", `no ServiceAccount "other"`},
		{"10-config.yaml", "  mtu:", "  mtu_bytes:", "no setting ovn-config/mtu"},
		{"70-ovnkube-node.yaml", "$(MTU)", "$(MTTU)", "$(MTTU) is not set"},
		{"70-ovnkube-node.yaml", "hostPath: {path: /var/lib/ovn-offload/chassis, type: DirectoryOrCreate}", "secret: {secretName: ovn-sb-client}", "nodes hold ovn-sb-client"},
		{"40-ovnkube-db.yaml", "secretName: ovn-nb-server", "secretName: ovn-nb-ca", "mounts the key of an authority"},
		{"40-ovnkube-db.yaml", "name: db, mountPath", "name: dbs, mountPath", "no volume dbs"},
		{"50-ovnkube-master.yaml", "hostNetwork: true", "hostNetwork: false", "cannot start before"},
		{"50-ovnkube-master.yaml", "drop: [ALL]", "drop: [NET_RAW]", "not confined"},
		{"30-ovnkube-identity.yaml", `"requests":`, `"limits":`, "requests and no limits"},
		{"30-ovnkube-identity.yaml", "image: ", "image: other #", "image other"},
		{"21-admission.yaml", "[Deny]", "[Warn]", "does not deny"},
		{"22-admission-everyone.yaml", "[Deny]", "[Warn]", "ovn-pod-annotations does not deny"},
		{"22-admission-everyone.yaml", "failurePolicy: Fail", "failurePolicy: Ignore", "policy ovn-node-metadata fails open"},
		{"21-admission.yaml", "failurePolicy: Fail", "failurePolicy: Ignore", "fails open"},
		{"21-admission.yaml", "'k8s.ovn.org/host-cidrs'", "'k8s.ovn.org/node-subnets'", "lets agents write k8s.ovn.org/node-subnets"},
		{"21-admission.yaml", "'ovn-offload.io/vfs', ", "", "keeps agents from writing label ovn-offload.io/vfs"},
	} {
		tc.check(t, manifests(t), problems)
	}
	files := manifests(t)
	files["60-ovs-node.yaml"] = bytes.ReplaceAll(files["60-ovs-node.yaml"], []byte("hostPID:"), []byte("hostPid:"))
	if _, err := decode(files); err == nil {
		t.Error("a misspelt field was taken")
	}
}
