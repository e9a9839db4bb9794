package contract

import (
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
