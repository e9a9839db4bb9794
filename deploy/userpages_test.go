package deploy

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/test/pages"
)

// userPages are those of the documentation by path from docs, in the sections of docs/README.md.
func userPages(t *testing.T) (users, design map[string]string) {
	t.Helper()
	all := read(t, "../docs/*.md")
	maps.Copy(all, read(t, "../docs/*/*.md"))
	index, ok := all["../docs/README.md"]
	if !ok || !strings.Contains(index, "\n## Design\n") {
		t.Fatal("docs/README.md has no section Design")
	}
	_, designed, _ := strings.Cut(index, "\n## Design\n")
	users, design = map[string]string{"../README.md": read(t, "../README.md")["../README.md"]}, map[string]string{}
	for path, text := range all {
		name := strings.TrimPrefix(path, "../docs/")
		if strings.Contains(designed, "("+name+")") || strings.HasPrefix(name, "decisions/") {
			design[name] = text
		} else {
			users[name] = text
		}
	}
	return users, design
}

// TestDocsIndex_NamesEachPage: docs/README.md names all pages but those that have an index of their own.
func TestDocsIndex_NamesEachPage(t *testing.T) {
	users, design := userPages(t)
	index := users["README.md"]
	if len(users) < 30 || len(design) < 10 {
		t.Errorf("%d pages for users, %d on design", len(users), len(design))
	}
	for name := range users {
		if dir := filepath.Dir(name); dir != "failures" && !strings.HasPrefix(name, "../") && !strings.Contains(index, "("+name+")") && name != "README.md" {
			if name == "migrate/pods.md" { // a step that the pages of migrations share
				continue
			}
			t.Errorf("docs/README.md does not name %s", name)
		}
	}
}

var (
	// code is what a page shows as a command: indented or fenced lines, and text between backquotes.
	span = regexp.MustCompile("(?s)`([^`]+)`")
	// onNoHost are commands that only the network's containers have, with an argument.
	onNoHost = regexp.MustCompile(`(^|[^\w/.-])((?:ovn-(?:nbctl|sbctl|trace|appctl|detrace)|ovs-(?:vsctl|ofctl|appctl|dpctl)|ovsdb-(?:client|tool)|ovn-offload-agent (?:inventory|offload))\s+\S+)`)
	inPod    = regexp.MustCompile(`\bkubectl\b.*\b(exec|offload ovs)\b.* -- `)
	execIn   = regexp.MustCompile(`kubectl (?:-n|--namespace) ovn-kubernetes exec (\S+) (?:-c (\S+) )?`)
)

// ownSystem are pages about machines that have the commands: a DPU's system comes with Open vSwitch.
var ownSystem = []string{"dpu.md"}

// commands gives the commands of a page, with continued lines joined.
func commands(text string) (all []string) {
	var prose strings.Builder
	fenced := false
	lines := strings.Split(strings.ReplaceAll(text, "\\\n", " "), "\n")
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence:
			fenced = !fenced
		case fenced, strings.HasPrefix(line, "    ") && (i == 0 || !isItem(lines[:i])):
			all = append(all, strings.TrimSpace(line))
		default:
			prose.WriteString(line + "\n")
		}
	}
	for _, m := range span.FindAllStringSubmatch(prose.String(), -1) {
		all = append(all, strings.ReplaceAll(m[1], "\n", " "))
	}
	return all
}

// isItem says whether an indented line continues the item of a list without an empty line between.
func isItem(before []string) bool {
	for _, line := range slices.Backward(before) {
		switch {
		case line == "":
			return false
		case !strings.HasPrefix(line, " "):
			return strings.HasPrefix(line, "- ") || regexp.MustCompile(`^\d+\. `).MatchString(line)
		}
	}
	return false
}

// bare gives the commands of a page that no host has, and that no kubectl exec runs.
func bare(text string) (found []string) {
	for _, command := range commands(text) {
		for _, m := range onNoHost.FindAllStringSubmatchIndex(command, -1) {
			if !inPod.MatchString(command[:m[4]]) {
				found = append(found, command[m[4]:m[5]])
			}
		}
	}
	return found
}

// TestUserPages_NameCommandsThatUsersHave: pages for users run the commands of OVN and Open vSwitch by kubectl exec.
func TestUserPages_NameCommandsThatUsersHave(t *testing.T) {
	users, design := userPages(t)
	for name, text := range users {
		for _, command := range bare(text) {
			if !slices.Contains(ownSystem, name) {
				t.Errorf("%s: no host has %q: run it by kubectl exec, see docs/commands.md", name, command)
			}
		}
	}
	found := 0
	for _, text := range design {
		found += len(bare(text))
	}
	if found == 0 {
		t.Error("pages on design have no such command: the search finds nothing")
	}
	for text, want := range map[string]string{
		"Run `ovn-nbctl show` now.":                                          "[ovn-nbctl show]",
		"text\n\n    ovs-vsctl list Interface\n":                             "[ovs-vsctl list]",
		"Run `ovs-ofctl -O\nOpenFlow14 x`.":                                  "[ovs-ofctl -O]",
		"```\novn-trace n1 x\n```\n":                                         "[ovn-trace n1]",
		"1. On the node: `ovn-offload-agent inventory -o json`":              "[ovn-offload-agent inventory -o]",
		"text\n\n    kubectl exec pod/x -c y -- ovs-vsctl show\n":            "[]",
		"text\n\n    kubectl exec pod/x -c y -- \\\n      ovs-vsctl show\n":  "[]",
		"text\n\n    kubectl get pods\n    ovs-vsctl show\n":                 "[ovs-vsctl show]",
		"administrators who run `ovn-nbctl`, `ovs-vswitchd`, ovn-controller": "[]",
	} {
		if got := fmt.Sprint(bare(text)); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// TestDocs_ProgramsAskAnyMember: with three masters most members of a database do not lead, and do not answer otherwise.
func TestDocs_ProgramsAskAnyMember(t *testing.T) {
	users, design := userPages(t)
	maps.Copy(users, design)
	found := 0
	delete(users, "benchmarks.md") // says what was run in labs of one member
	for name, text := range users {
		good, wrong := askingPrograms(text)
		found += good
		for _, command := range wrong {
			t.Errorf("%s: %q asks the leader of a clustered database only: add --no-leader-only", name, command)
		}
	}
	if found < 10 {
		t.Errorf("only %d commands were found", found)
	}
	for text, want := range map[string]int{"    ovn-nbctl --columns=name list ACL": 1, "    ovn-nbctl --no-leader-only show": 0, "    kubectl exec x -- \\\n      ovn-trace n1 x": 1, "`ovn-nbctl` prints": 0, "    kubectl offload nb -- show": 0} {
		if _, wrong := askingPrograms(text); len(wrong) != want {
			t.Errorf("%q: %q are wrong", text, wrong)
		}
	}
}

var asking = regexp.MustCompile(`\bovn-(?:nbctl|sbctl|trace) (\S+)`)

// askingPrograms counts the commands of a page that ask any member, and gives the others.
func askingPrograms(text string) (good int, wrong []string) {
	for _, command := range commands(text) {
		for _, m := range asking.FindAllStringSubmatch(command, -1) {
			if m[1] == "--no-leader-only" {
				good++
			} else {
				wrong = append(wrong, command)
			}
		}
	}
	return good, wrong
}

// TestUserPages_SayWhichCommandsAreNotRun: the test TestDocs_CommandsRun runs every command in a lab that has no marker. It
// runs no command that changes the cluster, or that is not kubectl's: these have a marker with the reason.
func TestUserPages_SayWhichCommandsAreNotRun(t *testing.T) {
	users, _ := userPages(t)
	run := 0
	for name, text := range users {
		for _, block := range pages.Blocks(text) {
			if block.Runs() {
				run++
			} else if block.IsCommand() && block.Reason == "" && name != "../README.md" {
				t.Errorf("%s:%d: no test can run this: put <!-- not run here: REASON --> before it:\n%s", name, block.Line, block.Text)
			}
		}
	}
	if run < 25 {
		t.Errorf("only %d blocks are run", run)
	}
}

// TestDocs_ExecNamesContainersOfChart: kubectl exec with a workload and a container that the chart has.
func TestDocs_ExecNamesContainersOfChart(t *testing.T) {
	containers := map[string][]string{}
	objects, err := decode(renderAll(t, with(t, "dpuHosts: {enabled: true}\ndpus: {enabled: true}")))
	if err != nil {
		t.Fatal(err)
	}
	each(objects, func(d *appsv1.Deployment) { containers["deploy/"+d.Name] = names(d.Spec.Template.Spec.Containers) })
	each(objects, func(d *appsv1.StatefulSet) { containers["sts/"+d.Name] = names(d.Spec.Template.Spec.Containers) })
	each(objects, func(d *appsv1.DaemonSet) { containers["ds/"+d.Name] = names(d.Spec.Template.Spec.Containers) })
	clusters, err := decode(renderAll(t, with(t, masters)))
	if err != nil {
		t.Fatal(err)
	}
	each(clusters, func(d *appsv1.DaemonSet) { containers["ds/"+d.Name] = names(d.Spec.Template.Spec.Containers) })
	containers["$OVS"], containers["$AGENT"] = containers["ds/ovs-node"], containers["ds/ovnkube-node"]
	users, _ := userPages(t)
	found := 0
	for name, text := range users {
		for _, m := range execIn.FindAllStringSubmatch(text, -1) {
			found++
			if has, known := containers[m[1]]; !known || !slices.Contains(has, m[2]) {
				t.Errorf("%s: %q: the chart has no such container: %s has %q", name, m[0], m[1], has)
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d commands found", found)
	}
}

// TestPortsPage_NamesEachPort: all that the network's processes listen at, by the chart.
func TestPortsPage_NamesEachPort(t *testing.T) {
	listening := regexp.MustCompile(`(?:address=[\d.]*:|ssl:[\w.-]+:|hostPort: |port: )(\d{4,5})\b`)
	page, found := read(t, "../docs/ports.md")["../docs/ports.md"], map[string]bool{}
	for name, text := range renderAll(t, with(t, "dpuHosts: {enabled: true}\ndpus: {enabled: true}")) {
		for _, m := range listening.FindAllStringSubmatch(string(text), -1) {
			found[m[1]] = true
			if !regexp.MustCompile(`\b` + m[1] + `\b`).MatchString(page) {
				t.Errorf("docs/ports.md lacks port %s of %s", m[1], name)
			}
		}
	}
	if len(found) < 6 || found["6081"] {
		t.Errorf("ports in the chart: %v", found)
	}
	if !strings.Contains(page, "UDP 6081") {
		t.Error("docs/ports.md lacks the port of tunnels, which no process listens at")
	}
}

func names(containers []corev1.Container) (all []string) {
	for _, c := range containers {
		all = append(all, c.Name)
	}
	return all
}
