package deploy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/network"
	"github.com/ovn-offload/ovn-offload/pkg/network/chain"
	"github.com/ovn-offload/ovn-offload/pkg/policy"
)

// listLimit is the limit of a list that no schema bounds, as a line of docs/limits.md has it. The parser's own test refuses what is
// beyond it.
type listLimit struct {
	kind  string
	paths *regexp.Regexp
	list  string
	most  int
}

// listLimits have the first match of a path.
var listLimits = []listLimit{
	{"NetworkChaining", regexp.MustCompile(`\.(podSelector|namespaceSelector)\.match`), "`podSelector`, `namespaceSelector` of an end: labels and values", chain.MaxTerms},
	{"MultiNetworkPolicy", regexp.MustCompile(`elector\.match`), "`podSelector`, `namespaceSelector`: labels and values", policy.MaxTerms},
	{"MultiNetworkPolicy", regexp.MustCompile(`\.except$`), "`except`, with the networks themselves", policy.MaxNetworks},
	{"MultiNetworkPolicy", regexp.MustCompile(`\.ports$`), "`ports`", policy.MaxPorts},
	{"MultiNetworkPolicy", regexp.MustCompile(`\.(from|to)$`), "`from`, `to`: peers with selectors", policy.MaxSelectors},
	{"MultiNetworkPolicy", regexp.MustCompile(`^spec\.(ingress|egress)$`), "`spec.ingress`, `spec.egress`", policy.MaxRules},
}

// textLimits are those of lists in texts: annotations, and the configuration of a NetworkAttachmentDefinition. Tests of
// pkg/contract and pkg/network say that these are all.
var textLimits = []listLimit{
	{"Pod", nil, annotation(contract.NetworksKey), contract.MaxAttachments},
	{"Pod", nil, "`ips` of a network there, and in " + annotation(contract.DefaultNetworkKey), contract.MaxAskedAddresses},
	{"Pod", nil, annotation(contract.DefaultNetworkKey), 1},
	{"Pod", nil, annotation(contract.NodusNetworksKey) + ", " + annotation(contract.OVNNetworkKey), contract.MaxAttachments},
	{"Pod", nil, annotation(contract.OVNRoutesKey) + ", `routes` of " + annotation(contract.NodusNetworksKey), contract.MaxAskedRoutes},
	{"Pod", nil, annotation(contract.OpenPortsKey), contract.MaxOpenPorts},
	{"MultiNetworkPolicy", nil, annotation(contract.PolicyForKey), contract.MaxPolicyNADs},
	{"NetworkAttachmentDefinition", nil, "`subnets`", network.MaxSubnets},
	{"NetworkAttachmentDefinition", nil, "`excludeSubnets`, `reservedSubnets`, `infrastructureSubnets`, `defaultGatewayIPs`", network.MaxParts},
	{"NetworkAttachmentDefinition", nil, annotation(contract.GatewayKey), network.MaxParts},
	{"NetworkAttachmentDefinition", nil, "`joinSubnet`", network.MaxJoinSubnets},
	{"NetworkAttachmentDefinition", nil, "`dns`: `nameservers`, `search`, `options`", network.MaxDNS},
	{"NetworkAttachmentDefinition, UserDefinedNetwork", nil, annotation(contract.NamespacesKey), network.MaxNamespaces},
}

func annotation(key string) string { return "`" + key + "`" }

func line(kind, list string, most int) string {
	number := fmt.Sprint(most)
	if len(number) > 3 {
		number = number[:len(number)-3] + "," + number[len(number)-3:]
	}
	return "| " + kind + " | " + list + " | " + number + " |"
}

// listsOf are the lines of the lists and maps in a schema, and the paths of those without a limit.
func listsOf(kind, path string, schema apiextensionsv1.JSONSchemaProps) (lines, unbounded []string) {
	most := schema.MaxItems
	if schema.AdditionalProperties != nil {
		most = schema.MaxProperties
	}
	isFree := schema.XPreserveUnknownFields != nil && *schema.XPreserveUnknownFields
	switch at := slices.IndexFunc(listLimits, func(l listLimit) bool { return l.kind == kind && l.paths.MatchString(path) }); {
	case schema.Type != "array" && schema.AdditionalProperties == nil && !isFree:
	case most != nil:
		lines = append(lines, line(kind, "`"+path+"`", int(*most)))
	case at >= 0 && !isFree:
		lines = append(lines, line(kind, listLimits[at].list, listLimits[at].most))
	default:
		unbounded = append(unbounded, kind+" "+path)
	}
	below := func(path string, schema apiextensionsv1.JSONSchemaProps) {
		more, also := listsOf(kind, path, schema)
		lines, unbounded = append(lines, more...), append(unbounded, also...)
	}
	if schema.Items != nil {
		below(path+"[]", *schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		below(path+"{}", *schema.AdditionalProperties.Schema)
	}
	for name, property := range schema.Properties {
		if isOfAll := slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, name); path != "" || !isOfAll {
			below(strings.TrimPrefix(path+"."+name, "."), property)
		}
	}
	return lines, unbounded
}

// TestLists_HaveALimitInDocs: each list and map that users of a namespace write, in every kind that is installed, has a limit,
// and docs/limits.md has just these. Objects of the whole cluster are an administrator's. What is in a status is ours.
func TestLists_HaveALimitInDocs(t *testing.T) {
	manifests, err := Render(Example())
	if err != nil {
		t.Fatal(err)
	}
	want, kinds := map[string]bool{}, map[string]bool{}
	for _, l := range textLimits {
		want[line(l.kind, l.list, l.most)] = true
	}
	for file, text := range manifests {
		for _, document := range strings.Split(text, "\n---\n") {
			var crd apiextensionsv1.CustomResourceDefinition
			if yaml.Unmarshal([]byte(document), &crd) != nil || crd.Kind != "CustomResourceDefinition" || crd.Spec.Scope != apiextensionsv1.NamespaceScoped {
				continue
			}
			kind := crd.Spec.Names.Kind
			kinds[kind] = true
			for _, version := range crd.Spec.Versions {
				lines, unbounded := listsOf(kind, "", *version.Schema.OpenAPIV3Schema)
				for _, path := range unbounded {
					t.Errorf("%s: %s has no limit: give the schema maxItems, or the parser a limit and listLimits a row", file, path)
				}
				for _, line := range lines {
					want[line] = true
				}
			}
		}
	}
	for _, kind := range []string{"IPAMClaim", "MultiNetworkPolicy", "Network", "NetworkAttachmentDefinition", "NetworkChaining", "ProviderNetwork", "UserDefinedNetwork"} {
		if !kinds[kind] {
			t.Errorf("no schema of %s is looked at", kind)
		}
	}
	page := read(t, "../docs/limits.md")["../docs/limits.md"]
	_, section, _ := strings.Cut(page, "\n## Lists that users write\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, got := range strings.Split(section, "\n") {
		if strings.HasPrefix(got, "| ") && !want[got] && !strings.HasPrefix(got, "| Object ") {
			t.Errorf("docs/limits.md has a line too many: %s", got)
		}
		delete(want, got)
	}
	for missing := range want {
		t.Errorf("docs/limits.md lacks %s", missing)
	}
}

// TestLists_UnboundedIsFound: without its limit, a list fails the test above.
func TestLists_UnboundedIsFound(t *testing.T) {
	some, free := int64(4), true
	list := apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"}}}
	bounded := list
	bounded.MaxItems = &some
	texts := apiextensionsv1.JSONSchemaProps{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"}}}
	for name, tc := range map[string]struct {
		schema apiextensionsv1.JSONSchemaProps
		found  bool
	}{
		"a list": {list, true}, "a list with a limit": {bounded, false}, "a map": {texts, true},
		"anything": {apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &free}, true}, "a text": {apiextensionsv1.JSONSchemaProps{Type: "string"}, false},
	} {
		spec := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"inner": tc.schema}}
		object := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec}}
		lines, unbounded := listsOf("Network", "", object)
		if (len(unbounded) == 1) != tc.found || tc.found && unbounded[0] != "Network spec.inner" {
			t.Errorf("%s: lines %v, without a limit %v", name, lines, unbounded)
		}
	}
}
