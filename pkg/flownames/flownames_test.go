package flownames

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
)

// databases answers as ovn-nbctl and ovn-sbctl do, with rows by table.
type databases map[string][]string

func (d databases) run(_ context.Context, _ string, command []string) ([]byte, error) {
	var out strings.Builder
	text := strings.Join(command, " ")
	if command[1] != "--no-leader-only" {
		return nil, fmt.Errorf("a member that does not lead would not answer %s", text)
	}
	for _, part := range strings.Split(text, " -- ")[1:] {
		_, columns, _ := strings.Cut(part, "--columns=")
		columns, rest, _ := strings.Cut(columns, " list ")
		words := strings.Fields(rest)
		var rows []string
		for _, row := range d[words[0]] {
			id := strings.Split(row, `"`)[3][:8]
			switch wanted := slices.Contains(words[1:], id); {
			case len(words) == 1 || wanted:
				rows = append(rows, row)
			}
			if len(words) > 1 && slices.ContainsFunc(rows[:max(0, len(rows)-1)], func(other string) bool { return strings.Split(other, `"`)[3][:8] == id }) {
				return nil, fmt.Errorf("running: %s: %s contains 2 or more rows whose UUIDs begin with %s", words[0], words[0], id)
			}
		}
		headings := `"` + strings.ReplaceAll(columns, ",", `","`) + `"`
		fmt.Fprintf(&out, `{"headings":[%s],"data":[%s]}`+"\n", headings, strings.Join(rows, ","))
	}
	return []byte(out.String()), nil
}

const tail = "-0000-4000-8000-000000000000"

func row(id, more string) string { return fmt.Sprintf(`[["uuid","%s%s"],%s]`, id, tail, more) }

func ids(pairs ...string) string {
	var list []string
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, fmt.Sprintf("[%q,%q]", pairs[i], pairs[i+1]))
	}
	return `["map",[` + strings.Join(list, ",") + `]]`
}

func cluster() databases {
	owner := func(of string) string { return ids("ovn-offload.io/owner", of) }
	return databases{
		"Logical_Flow": {
			row("aaaaaaaa", ids("stage-name", "ls_in_acl_eval", "stage-hint", "11111111")+`,"ingress",8`),
			row("bbbbbbbb", ids("stage-name", "ls_in_lb", "stage-hint", "0x2222222")+`,"ingress",9`),
			row("cccccccc", ids("stage-name", "ls_in_l2_lkup")+`,"ingress",27`),
			row("dddddddd", ids("stage-name", "ls_out_acl_eval")+`,"egress",4`),
			row("eeeeeeee", ids("stage-name", "ls_in_acl_eval", "stage-hint", "99999999")+`,"ingress",8`),
		},
		"Port_Binding": {row("0000f637", owner("Pod/shop/web")+`,"shop_web",""`)},
		"ACL":          {row("11111111", ids("ovn-offload.io/owner", "NetworkPolicy/shop/allow", "direction", "Ingress", "gress-index", "0")+`,"allow-related","to-lport","1"`)},
		"Load_Balancer": {
			row("02222222", owner("Service/shop/db")+`,"shop/db"`),
		},
	}
}

func named(t *testing.T, db databases, cookies ...uint64) flowapi.Flow {
	t.Helper()
	f := flowapi.Flow{ID: "u", Why: &flowapi.Why{ID: "u"}}
	for _, cookie := range cookies {
		f.Why.Rules = append(f.Why.Rules, flowapi.Rule{Cookie: cookie, Rule: "priority=65532,actions=drop"})
	}
	if err := Add(t.Context(), Databases{Programs(db.run)}, []*flowapi.Flow{&f}); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestName_FromCookieToObject(t *testing.T) {
	f := named(t, cluster(), 0xf637, 0xaaaaaaaa, 0xbbbbbbbb, 0xcccccccc, 0xdddddddd, 0x6f766e00010000, 0)
	var got []flowapi.Name
	for _, r := range f.Why.Rules {
		got = append(got, *r.Name)
	}
	want := []flowapi.Name{
		{Stage: "port_binding", Row: "Port_Binding", What: "shop_web", Objects: []string{"Pod/shop/web"}},
		{Stage: "ls_in_acl_eval", Row: "ACL", What: "ingress[0]: allow-related", Rule: "ingress[0]", Objects: []string{"NetworkPolicy/shop/allow"}},
		{Stage: "ls_in_lb", Row: "Load_Balancer", What: "load balancer", Objects: []string{"Service/shop/db"}},
		{Stage: "ls_in_l2_lkup"},
		{Stage: "ls_out_acl_eval", What: "by its connection: policies judged the first packet"},
		{Stage: "gateway bridge", What: got[5].What},
		{Stage: "OpenFlow table 0", What: "no rule: drop"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got[5].What == "" {
		t.Error("a flow of the gateway bridge has no name")
	}
	if diff := cmp.Diff([]string{"NetworkPolicy/shop/allow", "Service/shop/db"}, f.DecidedBy); diff != "" {
		t.Error(diff)
	}
	if why := Unnamed(f); why != "" {
		t.Error(why)
	}
	general := cluster()
	general["ACL"] = []string{row("11111111", ids("ovn-offload.io/owner", "Network/default")+`,"pass","to-lport","1"`)}
	if f := named(t, general, 0xf637, 0xaaaaaaaa); !slices.Equal(f.DecidedBy, []string{"Pod/shop/web"}) {
		t.Errorf("with a rule for all pods: %v", f.DecidedBy)
	}
	if f := named(t, cluster(), 0x6f766e00010000); len(f.DecidedBy) != 1 || f.DecidedBy[0] != "gateway bridge: "+got[5].What {
		t.Errorf("of the gateway bridge alone: %v", f.DecidedBy)
	}
	if f := named(t, cluster(), 0xf637, 0xcccccccc); !slices.Equal(f.DecidedBy, []string{"Pod/shop/web"}) {
		t.Errorf("without a policy: %v", f.DecidedBy)
	}
}

func TestName_SaysWhereTheChainBreaks(t *testing.T) {
	for name, c := range map[string]struct {
		cookie uint64
		want   string
	}{
		"no such row":          {0x12345678, "the Southbound has no row 12345678"},
		"no such northbound":   {0xeeeeeeee, "the Northbound has no row 99999999"},
		"of another program":   {0x100000001, "is none of OVN's"},
		"no object in the row": {0xcccccccc, "its rules are of no object: ls_in_l2_lkup"},
	} {
		f := named(t, cluster(), c.cookie)
		if why := Unnamed(f); !strings.Contains(why, c.want) || len(f.DecidedBy) > 0 {
			t.Errorf("%s: %q, decided by %v", name, why, f.DecidedBy)
		}
	}
	if why := Unnamed(flowapi.Flow{Why: &flowapi.Why{Problem: "Cache was not found."}}); why != "Cache was not found." {
		t.Error(why)
	}
	if why := Unnamed(flowapi.Flow{Why: &flowapi.Why{Rules: []flowapi.Rule{{Cookie: 1}}}}); !strings.Contains(why, "were not asked") {
		t.Error(why)
	}
}

// TestName_KeepsCollisions: two rows with one beginning are both named, never one of them.
func TestName_KeepsCollisions(t *testing.T) {
	db := maps.Clone(cluster())
	db["ACL"] = append(slices.Clone(db["ACL"]),
		strings.Replace(row("11111111", ids("ovn-offload.io/owner", "NetworkPolicy/shop/other")+`,"drop","to-lport","1"`), tail, "-1111-4000-8000-000000000000", 1))
	f := named(t, db, 0xaaaaaaaa)
	n := f.Why.Rules[0].Name
	if !slices.Equal(n.Objects, []string{"NetworkPolicy/shop/allow", "NetworkPolicy/shop/other"}) || !strings.Contains(n.Problem, "2 rows of the Northbound begin with 11111111") {
		t.Errorf("%+v", n)
	}
}

func TestAdd_GivesErrorsOfTheDatabases(t *testing.T) {
	f := flowapi.Flow{Why: &flowapi.Why{Rules: []flowapi.Rule{{Cookie: 1}}}}
	broken := errors.New("no database")
	if err := Add(t.Context(), Databases{Programs(func(context.Context, string, []string) ([]byte, error) { return nil, broken })}, []*flowapi.Flow{&f}); !errors.Is(err, broken) {
		t.Error(err)
	}
	if err := Add(t.Context(), Databases{Programs(func(context.Context, string, []string) ([]byte, error) { return []byte("{}"), nil })}, []*flowapi.Flow{&f}); err == nil {
		t.Error("an answer of one table is none of all")
	}
}

// TestDecided_CopiesThatAreDroppedDecideNothing: a packet for a tunnel has a copy for the gateway bridge, where an ACL of a node
// drops it. Of a flow that drops its packets the ACL decides.
func TestDecided_CopiesThatAreDroppedDecideNothing(t *testing.T) {
	rule := func(row, what, object string) flowapi.Rule {
		return flowapi.Rule{Name: &flowapi.Name{Row: row, What: what, Objects: []string{object}}}
	}
	rules := []flowapi.Rule{rule("Logical_Switch_Port", "", "Pod/shop/web"), rule("ACL", "egress policy: drop", "Node/w2")}
	for drops, want := range map[bool]string{false: "Pod/shop/web", true: "Node/w2"} {
		if got := strings.Join(Decided(rules, drops), " "); got != want {
			t.Errorf("drops %v: %s, want %s", drops, got, want)
		}
	}
}

// TestDecided_SwitchThatSharesItsFlowsDecidesLast: a logical flow that all switches share has the name of one of them, which may
// be that of another node.
func TestDecided_SwitchThatSharesItsFlowsDecidesLast(t *testing.T) {
	rule := func(row, object string) flowapi.Rule {
		return flowapi.Rule{Name: &flowapi.Name{Row: row, Objects: []string{object}}}
	}
	shared, network, port := rule("Logical_Switch", "Node/other"), rule("ACL", "Network/default"), rule("Port_Binding", "Pod/shop/web")
	for want, rules := range map[string][]flowapi.Rule{
		"Pod/shop/web":    {shared, network, port},
		"Network/default": {shared, network},
		"Node/other":      {shared},
	} {
		if got := strings.Join(Decided(rules, false), " "); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
