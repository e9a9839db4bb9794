package deploy

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// testsOfTree are the names of all tests, with the directory of each.
func testsOfTree(t *testing.T) map[string]string {
	t.Helper()
	all, named := map[string]string{}, regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, pattern := range []string{"*_test.go", "../test/*/*_test.go", "../pkg/*/*_test.go", "../pkg/*/*/*_test.go"} {
		for path, source := range read(t, pattern) {
			for _, m := range named.FindAllStringSubmatch(source, -1) {
				all[m[1]] = filepath.Dir(path)
			}
		}
	}
	return all
}

// tenancyColumns are the columns of tests in docs/tenancy.md, with the directories that such tests are in.
var tenancyColumns = []struct {
	name string
	in   *regexp.Regexp
}{
	{"admission", regexp.MustCompile(`^(\.|\.\./test/apiserver)$`)},
	{"controller", regexp.MustCompile(`^\.\./(pkg/.*|test/apiserver)$`)},
	{"packets", regexp.MustCompile(`^\.\./(pkg/ovn|test/e2e)$`)},
}

// tenancyProblem says what is wrong with the cell of a row.
func tenancyProblem(column int, cell string, tests map[string]string) string {
	names := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(cell, -1)
	if len(names) == 0 && (column == 1 || !regexp.MustCompile(`^none: \w.{10,}`).MatchString(cell)) {
		return "names no test, and does not say why there is none"
	}
	for _, m := range names {
		switch dir, exists := tests[m[1]]; {
		case !exists:
			return m[1] + " does not exist"
		case !tenancyColumns[column].in.MatchString(dir):
			return m[1] + " is in " + dir + ", where no test shows this"
		}
	}
	return ""
}

// TestTenancyPage_EachRowHasItsTests: each row of the table names a test that shows a refusal at admission, one that shows it in
// the controller without admission, and one with packets; or it says why admission cannot know, or why no packet shows the
// row. The controls are cells that are wrong.
func TestTenancyPage_EachRowHasItsTests(t *testing.T) {
	tests, rows := testsOfTree(t), 0
	page, err := os.ReadFile("../docs/tenancy.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| Object | Written by |")
	table, _, _ = strings.Cut(table, "\n\n")
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) != 7 || strings.Contains(line, "|---") || rows == 0 && strings.Contains(line, "Admission") {
			continue
		}
		rows++
		for i, column := range tenancyColumns {
			if problem := tenancyProblem(i, strings.TrimSpace(cells[4+i]), tests); problem != "" {
				t.Errorf("%s: %s: %s", strings.TrimSpace(cells[0]), column.name, problem)
			}
		}
	}
	if want := strings.Count(table, "\n") - 1; rows < 18 || rows != want {
		t.Errorf("%d rows were read of %d", rows, want)
	}
	for cell, column := range map[string]int{"": 0, "none:": 0, "none: admission knows no subnets": 1, "`TestNoSuchOne`": 2, "`TestTenancyPage_EachRowHasItsTests`": 2} {
		if tenancyProblem(column, cell, tests) == "" {
			t.Errorf("cell %q is right", cell)
		}
	}
}

// TestRoles_TenantsWriteNothingOfAdministrators: no role that Kubernetes adds to admin, edit or view writes objects that decide
// about networks of others. The control is the role of the controller, which writes the status of claims.
func TestRoles_TenantsWriteNothingOfAdministrators(t *testing.T) {
	objects := chartObjects(t, "relay: {enabled: true}")
	protected := []string{"*", "ipamclaims/status", "physicalnetworks", "namespacesubnets", "clusteruserdefinednetworks", "namespaces"}
	isControl := false
	for _, object := range objects {
		role, ok := object.(*rbacv1.ClusterRole)
		if !ok {
			continue
		}
		isTenants := slices.ContainsFunc(slices.Collect(maps.Keys(role.Labels)), func(key string) bool { return strings.HasPrefix(key, "rbac.authorization.k8s.io/aggregate-to-") })
		for _, rule := range role.Rules {
			writes := slices.ContainsFunc(rule.Verbs, func(verb string) bool { return !slices.Contains([]string{"get", "list", "watch"}, verb) })
			for _, resource := range rule.Resources {
				if !writes || !slices.Contains(protected, resource) {
					continue
				}
				if isControl = isControl || resource == "ipamclaims/status"; isTenants {
					t.Errorf("%s may write %s", role.Name, resource)
				}
			}
		}
	}
	if !isControl {
		t.Error("no role writes the status of claims: roles are not read")
	}
}
