package deploy

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"sigs.k8s.io/yaml"
)

// constraints is as much of OpenShift's SecurityContextConstraints as the chart writes.
type constraints struct {
	metav1.TypeMeta
	Metadata                                                               metav1.ObjectMeta
	AllowHostDirVolumePlugin, AllowHostIPC, AllowHostNetwork, AllowHostPID bool
	AllowHostPorts, AllowPrivilegeEscalation, AllowPrivilegedContainer     bool
	ReadOnlyRootFilesystem                                                 bool
	AllowedCapabilities, DefaultAddCapabilities, RequiredDropCapabilities  []string
	SeccompProfiles, Volumes, Groups, Users                                []string
	RunAsUser, SELinuxContext, FSGroup, SupplementalGroups                 map[string]string
}

// TestDistributions_ValuesRenderValidManifests: each set of values passes the chart's schema, and each object has only fields
// of Kubernetes' types. None of these distributions was tried.
func TestDistributions_ValuesRenderValidManifests(t *testing.T) {
	for path, text := range read(t, "distributions/*.yaml") {
		t.Run(path, func(t *testing.T) {
			var values map[string]any
			if err := yaml.UnmarshalStrict([]byte(text), &values); err != nil {
				t.Fatal(err)
			}
			files := renderAll(t, values)
			scc := files["27-openshift.yaml"]
			delete(files, "27-openshift.yaml")
			objects, err := decode(files)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range problems(objects) {
				t.Error(p)
			}
			checkLabelOfControlPlane(t, workloads(objects))
			checkDirectories(t, values, workloads(objects))
			if strings.Contains(text, "openshift: true") {
				checkConstraints(t, scc, workloads(objects))
			} else if scc != nil {
				t.Error("an object of OpenShift")
			}
		})
	}
	if _, err := os.Stat("distributions/k3s.yaml"); err != nil {
		t.Error(err)
	}
}

// checkLabelOfControlPlane: k3s and RKE2 give the label the value "true", kubeadm gives it none.
func checkLabelOfControlPlane(t *testing.T, all []workload) {
	t.Helper()
	const label = "node-role.kubernetes.io/control-plane"
	for _, w := range all {
		if w.onNode {
			continue
		}
		for _, value := range []string{"", "true"} {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{label: value}}}
			if ok, err := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: w.spec}).Match(node); !ok || err != nil {
				t.Errorf("%s does not run on a node with %s=%q: %v", w.name, label, value, err)
			}
		}
	}
}

// checkDirectories: each directory of the values is that of a volume.
func checkDirectories(t *testing.T, values map[string]any, all []workload) {
	t.Helper()
	mounted := map[string]bool{}
	for _, w := range all {
		for _, v := range w.spec.Volumes {
			if v.HostPath != nil {
				mounted[v.HostPath.Path] = true
			}
		}
	}
	paths, _ := values["paths"].(map[string]any)
	for name, path := range paths {
		if path != "" && !mounted[path.(string)] { // an empty one is of nothing that the distribution has
			t.Errorf("paths.%s: no volume of %s, there are %q", name, path, slices.Sorted(maps.Keys(mounted)))
		}
	}
}

// checkConstraints: OpenShift's object names the accounts of all pods and allows the kinds of their volumes.
func checkConstraints(t *testing.T, text []byte, all []workload) {
	t.Helper()
	var scc constraints
	if err := yaml.UnmarshalStrict(text, &scc); err != nil {
		t.Fatal(err)
	}
	for _, w := range all {
		if user := "system:serviceaccount:" + Namespace + ":" + w.spec.ServiceAccountName; !slices.Contains(scc.Users, user) {
			t.Errorf("%s: the constraints do not name %s", w.name, user)
		}
	}
}

// TestDistributions_NameTheirDNS: the DNS of some distributions has a name and perhaps a label of its own; pods of primary
// networks reach it by its name.
func TestDistributions_NameTheirDNS(t *testing.T) {
	for path, want := range map[string]string{
		"distributions/openshift.yaml": "--shared-services=openshift-dns/dns-default\n", "distributions/rke2.yaml": "--shared-services=kube-system/rke2-coredns-rke2-coredns\n",
		"distributions/k3s.yaml": "",
	} {
		var values map[string]any
		if err := yaml.UnmarshalStrict([]byte(read(t, path)[path]), &values); err != nil {
			t.Fatal(err)
		}
		master := string(renderAll(t, values)["50-ovnkube-master.yaml"])
		if has := strings.Contains(master, "--shared-services"); master == "" || has != (want != "") || !strings.Contains(master, want) {
			t.Errorf("%s: want %q in:\n%s", path, want, master)
		}
	}
}
