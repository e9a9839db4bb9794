package contract

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func requesting(value string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "red", Name: "p", Annotations: map[string]string{NetworksKey: value}}}
}

func TestAttachments_BothForms(t *testing.T) {
	for value, want := range map[string]string{
		"":               "",
		" ":              "",
		"a":              "red/a net1",
		"a, blue/b@eth7": "red/a net1; blue/b eth7",
		"a,a,a@x":        "red/a net1; red/a/1 net2; red/a/2 x",
		`[{"name":"a"}]`: "red/a net1",
		`[{"name":"a"},{"name":"b","namespace":"blue","interface":"i0"},{"name":"a"}]`:                                                     "red/a net1; blue/b i0; red/a/1 net3",
		`[{"name":"a","ips":["10.1.0.5","fd00::5/64"],"mac":"02:00:00:00:00:01","default-route":["10.1.0.1"],"ipam-claim-reference":"c"}]`: "red/a net1 10.1.0.5/32 fd00::5/64 02:00:00:00:00:01 via 10.1.0.1 claim c",
		`[{"name":"a","default-route":["10.1.0.1"]},{"name":"b","default-route":["fd00::1"]}]`:                                             "red/a net1 via 10.1.0.1; red/b net2 via fd00::1",
	} {
		got, err := Attachments(requesting(value))
		if err != nil {
			t.Errorf("%s: %v", value, err)
		}
		if diff := cmp.Diff(want, describe(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", value, diff)
		}
	}
}

func describe(list []Attachment) string {
	var texts []string
	for _, a := range list {
		text := a.Key() + " " + a.Interface
		for _, prefix := range a.Addresses {
			text += " " + prefix.String()
		}
		if a.MAC != nil {
			text += " " + a.MAC.String()
		}
		for _, gateway := range a.Gateways {
			text += " via " + gateway.String()
		}
		if a.Claim != "" {
			text += " claim " + a.Claim
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

func TestAttachments_Refused(t *testing.T) {
	for value, want := range map[string]string{
		`[{"name":"a"`:                       "annotation k8s.v1.cni.cncf.io/networks: unexpected end",
		`[{}]`:                               `"red/" is not the name`,
		"/a":                                 "empty namespace",
		"a@":                                 "",
		"A":                                  `"red/A" is not the name`,
		"a@interface-too-long":               "cannot be the name of an interface",
		"a@eth0":                             "interface eth0 is taken already",
		"a@x,b@x":                            "network 2: interface x is taken already",
		"a/b-c,a-b/c":                        "network 2: the pod's ports on a/b-c and a-b/c would have one name",
		"nad,nad,nad.1":                      "network 3: the pod's ports on red/nad/1 and red/nad.1 would have one name",
		`[{"name":"a","ips":["10.1"]}]`:      `ips: "10.1" is not an IP address`,
		`[{"name":"a","ips":["224.0.0.1"]}]`: "cannot be the address of an interface",
		`[{"name":"a","ips":["::ffff:10.0.0.1"]}]`:                                              "cannot be the address of an interface",
		`[{"name":"a","mac":"01:00:5e:00:00:01"}]`:                                              "is not a unicast address",
		`[{"name":"a","mac":"x"}]`:                                                              "mac: address x: invalid MAC address",
		`[{"name":"a","default-route":["10.1.0.1"]},{"name":"b","default-route":["10.2.0.1"]}]`: `network 2: default-route 10.2.0.1 is the second of its family`,
		`[{"name":"a","default-route":["10.1.0.1","10.1.0.2"]}]`:                                `network 1: default-route 10.1.0.2 is the second of its family`,
		`[{"name":"a","default-route":["x"]}]`:                                                  `default-route: "x" is not an IP address`,
		`[{"name":"a","ipam-claim-reference":"a/b"}]`:                                           "is not the name of an IPAMClaim",
	} {
		got, err := Attachments(requesting(value))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, error %v, want %q", value, got, err, want)
		}
	}
}

func TestNADOf_Keys(t *testing.T) {
	for key, want := range map[string]string{"ns/nad": "ns/nad", "ns/nad/1": "ns/nad", "default": "default"} {
		if got := NADOf(key); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
}

func FuzzAttachments(f *testing.F) {
	f.Add("a,blue/b@x")
	f.Add(`[{"name":"a","ips":["10.1.0.5"]}]`)
	f.Fuzz(func(t *testing.T, value string) {
		list, err := Attachments(requesting(value))
		keys, names := map[string]bool{}, map[string]bool{}
		for _, a := range list {
			keys[a.Key()], names[a.Interface] = true, true
		}
		if err == nil && (len(keys) != len(list) || len(names) != len(list)) {
			t.Errorf("%q: keys or interfaces repeat: %s", value, cmp.Diff(nil, list, cmpopts.EquateComparable()))
		}
	})
}

// TestAttachments_AreLimited: a pod at a limit has all that it asks for, and one beyond it nothing. A pod that runs keeps what
// it has from its start, and gets nothing more.
func TestAttachments_AreLimited(t *testing.T) {
	networks := func(n int) string { return strings.TrimSuffix(strings.Repeat("a,", n), ",") }
	ips := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`"10.1.0.%d"`, i+1))
		}
		return `[{"name":"a","ips":[` + strings.Join(list, ",") + `]}]`
	}
	routes := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`{"dst":"10.%d.%d.0/24","gw":"10.1.0.1","dev":"net1"}`, i/256, i%256))
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	had := func(n int) string {
		has := NewValues(`{"default":{}}`)
		for i := range n {
			has.Set(Attachment{NAD: "red/a", Index: i}.Key(), "{}")
		}
		return has.String()
	}
	for name, tc := range map[string]struct {
		networks, routes, has    string
		runs                     bool
		attachments, ips, routed int
		err                      string
	}{
		"at the limit":             {networks: networks(MaxAttachments), attachments: MaxAttachments},
		"beyond it":                {networks: networks(MaxAttachments + 1), err: "asks for 65 networks, and at most 64"},
		"runs with more":           {networks: networks(70), runs: true, has: had(70), attachments: 70},
		"asks for more later":      {networks: networks(200), runs: true, has: had(70), attachments: 71}, // the default network is one
		"asks for more than few":   {networks: networks(200), runs: true, has: had(1), attachments: MaxAttachments},
		"addresses":                {networks: ips(MaxAskedAddresses), attachments: 1, ips: MaxAskedAddresses},
		"too many addresses":       {networks: ips(MaxAskedAddresses + 1), err: "33 addresses are more than the 32"},
		"runs with more addresses": {networks: ips(40), runs: true, attachments: 1, ips: 40},
		"routes":                   {networks: "a", routes: routes(MaxAskedRoutes), attachments: 1, routed: MaxAskedRoutes},
		"too many routes":          {networks: "a", routes: routes(MaxAskedRoutes + 1), err: "257 routes are more than the 256"},
		"runs with more routes":    {networks: "a", routes: routes(300), runs: true, attachments: 1, routed: MaxAskedRoutes},
	} {
		pod := requesting(tc.networks)
		pod.Annotations[OVNRoutesKey], pod.Annotations[PodNetworksKey] = tc.routes, tc.has
		if tc.runs {
			pod.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.4"}}
		}
		got, err := Attachments(pod)
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || len(got) != tc.attachments || len(got[0].Addresses) != tc.ips || len(got[0].AskedRoutes) != tc.routed {
			t.Errorf("%s: %d attachments, %v", name, len(got), err)
		}
	}
}

// TestParsePolicyFor_LongListIsKept: a policy that is left out would open, so all networks stay, and the error is short.
func TestParsePolicyFor_LongListIsKept(t *testing.T) {
	list := func(n int, form string) string {
		var elements []string
		for i := range n {
			elements = append(elements, fmt.Sprintf(form, i))
		}
		return strings.Join(elements, ",")
	}
	for name, one := range map[string]struct {
		value string
		nads  int
		want  string
	}{
		"at the limit":     {list(MaxPolicyNADs, "n%d") + ", n1, red/n2,", MaxPolicyNADs, "<nil>"},
		"beyond the limit": {list(20000, "n%d"), 20000, "20000 networks are listed, and a policy may have 64"},
		"wrong":            {"a,B!", 1, `"B!" is not the name of a NetworkAttachmentDefinition`},
		"all wrong":        {list(20000, "N%d"), 0, `"N0" is not the name of a NetworkAttachmentDefinition, and neither are 19999 other elements`},
		"one long":         {strings.Repeat("N", 200000), 0, "is not the name of a NetworkAttachmentDefinition"},
	} {
		nads, err := ParsePolicyFor(one.value, "red")
		if text := fmt.Sprint(err); len(nads) != one.nads || !strings.Contains(text, one.want) || len(text) > 500 {
			t.Errorf("%s: %d networks, %.500s, want %d and %s", name, len(nads), text, one.nads, one.want)
		}
	}
}

// TestAttachments_ErrorIsShort, however long the annotation is: errors are remembered and logged.
func TestAttachments_ErrorIsShort(t *testing.T) {
	long := strings.Repeat("9", 200000)
	for _, value := range []string{
		long + "!", "a@" + long, "/" + long + "!", `[{"name":"a","ips":["` + long + `"]}]`, `[{"name":"a","default-route":["` + long + `"]}]`,
		`[{"name":"a","ipam-claim-reference":"` + long + `"}]`,
	} {
		if _, err := Attachments(requesting(value)); err == nil || len(err.Error()) > 600 {
			t.Errorf("%.40s: %.600v", value, err)
		}
	}
}
