package contract

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func number(n FunctionNumber) *FunctionNumber { return &n }

func TestParseDPUConnection_ValidAndInvalid(t *testing.T) {
	for value, want := range map[string]*DPUConnection{
		``:                 nil,
		`{"net1":{}}`:      nil,
		`{"default":null}`: nil,
		`{"default":{"pfId":"0","vfId":"3","sandboxId":"35b8","vfNetdevName":"enp1s0f0v3"}}`: {
			VF: number(3), Sandbox: "35b8", Netdev: "enp1s0f0v3",
		},
		`{"pfId":"1","vfId":"0","sandboxId":"35b8"}`: {PF: 1, VF: number(0), Sandbox: "35b8"},
		`{"default":{"pfId":"1","sfId":"88","sandboxId":"35b8","pfMac":"5c:00:00:00:00:01","podIfName":"eth0"}}`: {
			PF: 1, SF: number(88), Sandbox: "35b8", PFMAC: MAC{0x5c, 0, 0, 0, 0, 1}, Interface: "eth0",
		},
	} {
		got, err := ParseDPUConnection(value, DefaultNetwork)
		if err != nil {
			t.Errorf("%s: %v", value, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", value, diff)
		}
	}
	for value, complaint := range map[string]string{
		`x`: "invalid character",
		`{"default":{"pfId":"0","vfId":"x","sandboxId":"s"}}`:             `"x" is not`,
		`{"default":{"pfId":0,"vfId":"1","sandboxId":"s"}}`:               "pfId",
		`{"default":{"pfId":"0","vfId":"-1","sandboxId":"s"}}`:            `"-1" is not`,
		`{"default":{"pfId":"0","vfId":"1"}}`:                             "sandboxId is missing",
		`{"default":{"pfId":"0","sandboxId":"s"}}`:                        "exactly one",
		`{"default":{"pfId":"0","vfId":"1","sfId":"1","sandboxId":"s"}}`:  "exactly one",
		`{"default":{"pfId":"0","vfId":"1","sandboxId":"s","pfMac":"1"}}`: "address",
	} {
		if _, err := ParseDPUConnection(value, DefaultNetwork); err == nil || !strings.Contains(err.Error(), complaint) {
			t.Errorf("%s: %v, want %q", value, err, complaint)
		}
	}
}

// What we write is what OVN-Kubernetes reads: numbers as text, capital letters
// in the status.
func TestDPUAnnotations_HaveFormatOfOVNKubernetes(t *testing.T) {
	for want, value := range map[string]any{
		`{"pfId":"0","vfId":"3","sandboxId":"35b8","vfNetdevName":"enp1s0f0v3"}`: DPUConnection{
			VF: number(3), Sandbox: "35b8", Netdev: "enp1s0f0v3",
		},
		`{"pfId":"0","vfId":"3","sandboxId":"35b8","pfMac":"5c:00:00:00:00:01"}`: DPUConnection{
			VF: number(3), Sandbox: "35b8", PFMAC: MAC{0x5c, 0, 0, 0, 0, 1},
		},
		`{"Status":"Ready","SandboxId":"35b8"}`: DPUStatus{Status: DPUReady, Sandbox: "35b8"},
	} {
		got, err := json.Marshal(value)
		if err != nil || string(got) != want {
			t.Errorf("%s, want %s (%v)", got, want, err)
		}
	}
}

func TestSetNetwork_KeepsOtherNetworks(t *testing.T) {
	ready := DPUStatus{Status: DPUReady}
	for _, tc := range []struct {
		was   string
		value any
		want  string
	}{
		{"", nil, ""},
		{"", ready, `{"default":{"Status":"Ready"}}`},
		{`{"default":{"Status":"Error"},"net1":{"Status":"Ready"}}`, ready, `{"default":{"Status":"Ready"},"net1":{"Status":"Ready"}}`},
		{`{"default":{"Status":"Error"},"net1":{"Status":"Ready"}}`, nil, `{"net1":{"Status":"Ready"}}`},
		{`{"default":{"Status":"Error"}}`, nil, ""},
		{`{"pfId":"0","vfId":"0","sandboxId":"s"}`, nil, ""},
		{`{"PfId":0,"FuncId":1}`, nil, ""},
		{`rubbish`, ready, `{"default":{"Status":"Ready"}}`},
		{`null`, ready, `{"default":{"Status":"Ready"}}`},
	} {
		if got, err := SetNetwork(tc.was, DefaultNetwork, tc.value); err != nil || got != tc.want {
			t.Errorf("%s with %v: %s (%v), want %s", tc.was, tc.value, got, err, tc.want)
		}
	}
}

func TestParseManagementFunction_ValidAndInvalid(t *testing.T) {
	for value, want := range map[string]*ManagementFunction{
		``:                               nil,
		`{"net1":{"PfId":0,"FuncId":1}}`: nil,
		`{"PfId":1,"FuncId":2}`:          {PF: 1, Number: 2},
		`{"default":{"DeviceId":"0000:03:00.2","PfId":0,"FuncId":3}}`:                  {Device: "0000:03:00.2", Number: 3},
		`{"default":{"DeviceId":"d","PfId":0,"FuncId":0,"PfMac":"5c:00:00:00:00:01"}}`: {Device: "d", PFMAC: MAC{0x5c, 0, 0, 0, 0, 1}},
	} {
		got, err := ParseManagementFunction(value, DefaultNetwork)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", value, err, diff)
		}
	}
	for _, value := range []string{`x`, `{"default":{"PfId":"0"}}`, `{"default":{"PfId":0,"FuncId":-1}}`} {
		if got, err := ParseManagementFunction(value, DefaultNetwork); err == nil {
			t.Errorf("%s is read as %+v", value, got)
		}
	}
}

// networkOfOwn are annotations that say something of a network, in both forms.
func networkOfOwn(f *testing.F, seeds ...string) {
	for _, seed := range append(seeds, "", "x", "null", "{}", `{"default":null}`, `{"default":{}}`, `{"default":[]}`, `{"default":"x"}`) {
		f.Add(seed)
	}
}

func FuzzParseDPUConnection(f *testing.F) {
	networkOfOwn(f, `{"default":{"pfId":"0","vfId":"3","sandboxId":"35b8","vfNetdevName":"enp1s0f0v3"}}`, `{"pfId":"1","vfId":"0","sandboxId":"35b8"}`,
		`{"default":{"pfId":"1","sfId":"88","sandboxId":"35b8","pfMac":"5c:00:00:00:00:01","podIfName":"eth0"}}`,
		`{"default":{"pfId":"0","vfId":"1","sfId":"1","sandboxId":"s"}}`, `{"default":{"pfId":"4294967296","vfId":"-1","sandboxId":"s"}}`)
	f.Fuzz(func(t *testing.T, value string) {
		c, err := ParseDPUConnection(value, DefaultNetwork)
		if err == nil && c != nil && (c.Sandbox == "" || (c.VF == nil) == (c.SF == nil) || len(c.PFMAC) != 0 && len(c.PFMAC) != 6) {
			t.Errorf("%q is taken as %+v", value, c)
		}
		roundTrip(t, value, ParseDPUConnection)
		replacedAlone(t, value, c, err)
	})
}

func FuzzParseDPUStatus(f *testing.F) {
	networkOfOwn(f, `{"default":{"Status":"Ready","SandboxId":"35b8"}}`, `{"default":{"Status":"Error","Reason":"no representor"},"net1":{"Status":"Ready"}}`, `{"default":{"Status":7}}`)
	f.Fuzz(func(t *testing.T, value string) {
		s, err := ParseDPUStatus(value, DefaultNetwork)
		if err != nil && s != nil {
			t.Errorf("%q fails, %v, and is %+v", value, err, s)
		}
		roundTrip(t, value, ParseDPUStatus)
		replacedAlone(t, value, s, err)
	})
}

func FuzzParseManagementFunction(f *testing.F) {
	networkOfOwn(f, `{"PfId":1,"FuncId":2}`, `{"default":{"DeviceId":"0000:03:00.2","PfId":0,"FuncId":3}}`, `{"default":{"PfId":0,"FuncId":0,"PfMac":"5c:00:00:00:00:01"}}`,
		`{"default":{"PfId":"0"}}`, `{"default":{"PfId":0,"FuncId":-1}}`, `{"PfId":0,"FuncId":4294967296}`)
	f.Fuzz(func(t *testing.T, value string) {
		m, err := ParseManagementFunction(value, DefaultNetwork)
		if err == nil && m != nil && len(m.PFMAC) != 0 && len(m.PFMAC) != 6 {
			t.Errorf("%q is taken as %+v", value, m)
		}
		roundTrip(t, value, ParseManagementFunction)
	})
}

// replacedAlone holds that what was read of one network is there again when it is
// put into an annotation, beside what the annotation says of another.
func replacedAlone[T any](t *testing.T, value string, read *T, err error) {
	t.Helper()
	if err != nil || read == nil {
		return
	}
	other, err := SetNetwork(value, "other", "kept")
	if err != nil {
		t.Fatalf("%q with another network: %v", value, err)
	}
	both, err := SetNetwork(other, DefaultNetwork, read)
	if err != nil {
		t.Fatalf("%q with its own network: %v", value, err)
	}
	var networks map[string]json.RawMessage
	if err := json.Unmarshal([]byte(both), &networks); err != nil || string(networks["other"]) != `"kept"` {
		t.Fatalf("%q becomes %s, %v", value, both, err)
	}
	var again T
	if err := json.Unmarshal(networks[DefaultNetwork], &again); err != nil {
		t.Fatalf("%q becomes %s: %v", value, both, err)
	}
	if diff := cmp.Diff(*read, again, cmp.Comparer(func(a, b MAC) bool { return a.String() == b.String() })); diff != "" {
		t.Errorf("%q (-read +written):\n%s", value, diff)
	}
	if without, err := SetNetwork(both, DefaultNetwork, nil); err != nil || strings.Contains(without, `"`+DefaultNetwork+`":`) {
		t.Errorf("%q without its network: %s, %v", value, without, err)
	}
}
