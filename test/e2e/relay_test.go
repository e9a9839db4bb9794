//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ovn-offload/ovn-offload/deploy"
	"github.com/ovn-offload/ovn-offload/pkg/web"
	"github.com/ovn-offload/ovn-offload/test/e2e/world"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

// relayWithin is when each of both replicas has an answer: they and the controller remember rights for a minute.
const relayWithin = 4 * time.Minute

// TestRelay_ShowsATenantHisOwnPods: the chart's relay, through kubectl offload ui. An administrator sees all nodes. Who may view
// one namespace sees its pods and no others; without that right he sees nothing. The verbs of kubectl offload read flows through the
// relay, too: it is not there while other tests run. The API server sends each request to any of two replicas.
func TestRelay_ShowsATenantHisOwnPods(t *testing.T) {
	world.Test(t, world.Tools, world.Disruptive, world.Strict)
	onlyInLab(t, "it needs the image of the lab")
	installRelay(t)
	ns, other := world.Namespace(t), world.Namespace(t)
	client := world.Pod(ns, "web", nodes[1])
	vault := world.Pod(other, "vault", nodes[1])
	world.Run(t, client, vault)
	address := net.JoinHostPort(vault.Status.PodIP, fmt.Sprint(world.EchoPort))
	asks := func() { world.MustInPod(t, client, "probe", "await", address) }

	admin := openPage(t, "")
	var overview struct {
		Grid web.Grid `json:"grid"`
	}
	world.Eventually(t, relayWithin, "an administrator sees all nodes, and a pod", func() (bool, string) {
		nodesCode, podCode := admin.view(t, "overview", nil, &overview), admin.view(t, "pod", podQuery(other, "vault"), nil)
		unseen := slices.DeleteFunc(slices.Clone(nodes), func(node string) bool {
			return slices.ContainsFunc(overview.Grid.Squares, func(s web.Square) bool { return s.Node == node })
		})
		return nodesCode == http.StatusOK && podCode == http.StatusOK && len(unseen) == 0, fmt.Sprintf("status %d without nodes %q, of a pod %d", nodesCode, unseen, podCode)
	})

	world.Eventually(t, relayWithin, "an administrator sees the flow between the two pods", func() (bool, string) {
		asks()
		code, text := admin.get(t, "/api/v1/views/flows?pod="+ns+"/web")
		return code == http.StatusOK && strings.Contains(text, vault.Status.PodIP), fmt.Sprint(code, text)
	})

	noRole, config := accountConfig(t, ns, "no-role"), tenantConfig(t, ns)
	page, viewer := openPage(t, config), openPage(t, viewerConfig(t, ns))
	policiesDecide(t, client, vault)
	if tier.IsFull() {
		namesAreMissing(t, viewer, page, client, vault)
	}

	if code := openPage(t, noRole).view(t, "pod", podQuery(ns, "web"), nil); code != http.StatusNotFound {
		t.Errorf("without a role: status %d, want %d", code, http.StatusNotFound)
	}
	refusedVerbs(t, noRole, ns)
	world.Eventually(t, relayWithin, "both replicas show the tenant his pod", func() (bool, string) {
		for i := range 12 {
			if code := page.view(t, "pod", podQuery(ns, "web"), nil); code != http.StatusOK {
				return false, fmt.Sprintf("request %d has status %d", i, code)
			}
		}
		return true, ""
	})
	if code := page.view(t, "pod", podQuery(other, "vault"), nil); code != http.StatusNotFound {
		t.Errorf("a pod of another namespace: status %d, want %d", code, http.StatusNotFound)
	}
	world.Eventually(t, relayWithin, "the tenant sees the flow of his pod, once the relay asks the agent again",
		func() (bool, string) {
			asks()
			code, text := page.get(t, "/api/v1/views/flows?pod="+ns+"/web")
			if strings.Contains(text, vault.Status.PodIP) || strings.Contains(text, other) {
				t.Fatalf("flows of a tenant's pod: status %d: %s", code, text)
			}
			return code == http.StatusOK && strings.Contains(text, client.Status.PodIP), fmt.Sprintf("status %d: %s", code, text)
		})
	if code, _ := page.get(t, "/api/v1/views/flows?pod="+other+"/vault"); code != http.StatusForbidden {
		t.Errorf("flows of a pod of another namespace: status %d, want %d", code, http.StatusForbidden)
	}
	world.Eventually(t, relayWithin, "the tenant's map has the flow to an end that is withheld", func() (bool, string) {
		asks()
		code, text := page.get(t, "/api/v1/views/map?namespaces="+ns)
		return code == http.StatusOK && strings.Contains(text, `"pod/`+ns+`/web"`) && strings.Contains(text, "another namespace"), fmt.Sprint(code, text)
	})
	if code, _ := page.get(t, "/api/v1/views/map?namespaces="+ns+","+other); code != http.StatusForbidden {
		t.Errorf("a map with another namespace: status %d, want %d", code, http.StatusForbidden)
	}
	for _, view := range []string{"overview", "health", "worst", "traffic", "map?namespaces=" + ns} {
		world.Eventually(t, relayWithin, "the tenant has the view "+view, func() (bool, string) {
			code, text := page.get(t, "/api/v1/views/"+view)
			if strings.Contains(text, other) || strings.Contains(text, nodes[2]) {
				t.Fatalf("%s of a tenant: status %d: %s", view, code, text)
			}
			return code == http.StatusOK, fmt.Sprintf("status %d: %s", code, text)
		})
	}
	if code, _ := page.get(t, "/api/v1/views/node?name="+nodes[1]); code != http.StatusNotFound {
		t.Errorf("a node, for a tenant: status %d", code)
	}
	verbsOfTenant(t, config, client, vault)
	namesInRelay(t, viewer, page, client, vault)
	verbsOfAdmin(t, client, vault)
}

func podQuery(ns, name string) url.Values { return url.Values{"name": {ns + "/" + name}} }

// installRelay adds the relay to the release's objects, with the image of the release.
func installRelay(t *testing.T) {
	t.Helper()
	master, err := cluster.client.AppsV1().Deployments(system).Get(t.Context(), "ovnkube-master", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	container := master.Spec.Template.Spec.Containers[0]
	values := deploy.Example()
	values["relay"] = map[string]any{"enabled": true}
	colon := strings.LastIndex(container.Image, ":")
	values["image"] = map[string]any{"repository": container.Image[:colon], "tag": container.Image[colon+1:], "pullPolicy": string(container.ImagePullPolicy)}
	rendered, err := deploy.Render(values)
	if err != nil {
		t.Fatal(err)
	}
	text := rendered["55-relay.yaml"]
	if out, err := kubectl(t, text, "apply", "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() {
		cmd, config := cluster.Kubectl()
		remove := exec.Command(cmd, "delete", "-f", "-")
		remove.Env, remove.Stdin = append(os.Environ(), "KUBECONFIG="+config), strings.NewReader(text)
		remove.Run()
	})
	world.Eventually(t, world.PodWithin, "both replicas of the relay are ready", func() (bool, string) {
		d, err := cluster.client.AppsV1().Deployments(system).Get(t.Context(), "ovn-offload-relay", metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return d.Status.ReadyReplicas == 2, fmt.Sprintf("%+v", d.Status)
	})
}

// opened is the page of a kubectl offload ui that runs.
type opened struct {
	address string
	client  *http.Client
}

// openPage starts kubectl offload ui with a kubeconfig ("": the administrator's) and flags, and signs in with the address that it prints.
func openPage(t *testing.T, config string, flags ...string) opened {
	t.Helper()
	path, err := plugin()
	if err != nil {
		t.Fatal(err)
	}
	if config == "" {
		_, config = cluster.Kubectl()
	}
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, path, append([]string{"ui"}, flags...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+config)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address, err := url.Parse(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	p := opened{"http://" + address.Host, &http.Client{Jar: jar, Timeout: time.Minute}}
	if code, text := p.get(t, "/api/v1/views/health"); code != http.StatusUnauthorized {
		t.Errorf("before the token is known: status %d: %s", code, text)
	}
	answer, err := p.client.Get(address.String())
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(text), "ovn-offload") {
		t.Fatalf("signing in: status %d: %s, %v", answer.StatusCode, text, err)
	}
	p.address = strings.TrimSuffix(answer.Request.URL.String(), "/") // where the page is
	return p
}

func (p opened) get(t *testing.T, path string) (int, string) {
	t.Helper()
	answer, err := p.client.Get(p.address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

func (p opened) view(t *testing.T, name string, q url.Values, into any) int {
	t.Helper()
	code, text := p.get(t, "/api/v1/views/"+name+"?"+q.Encode())
	if code == http.StatusOK && into != nil {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	if code >= http.StatusInternalServerError {
		t.Logf("%s: status %d: %s", name, code, text)
	}
	return code
}

// tenantConfig is a kubeconfig of a new account that may view its namespace. It has no right taken or given later: replicas of the
// relay remember a refusal for a minute.
func tenantConfig(t *testing.T, ns string) string {
	t.Helper()
	allow(t, ns)
	authorized(t, ns, "tenant", authorizationv1.ResourceAttributes{Namespace: ns, Group: "ovn-offload.io", Resource: "podflows", Verb: "get"})
	return accountConfig(t, ns, "tenant")
}

// accountConfig is a kubeconfig of a new account, which has no rights.
func accountConfig(t *testing.T, ns, name string) string {
	t.Helper()
	accounts := cluster.client.CoreV1().ServiceAccounts(ns)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := accounts.Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, admin := cluster.Kubectl()
	config, err := clientcmd.LoadFromFile(admin)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.ClientCertificate, user.ClientCertificateData, user.ClientKey, user.ClientKeyData = "", nil, "", nil
		user.Token = token.Status.Token
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// allow gives the tenant the role view in his namespace.
func allow(t *testing.T, ns string) {
	t.Helper()
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "tenant"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "tenant", Namespace: ns}},
	}
	if _, err := cluster.client.RbacV1().RoleBindings(ns).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
