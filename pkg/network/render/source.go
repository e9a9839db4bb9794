package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/kube/opnfv"
	"github.com/ovn-offload/ovn-offload/pkg/kube/ovnv1"
)

// Source is an object that stands for NADs.
type Source struct {
	// Owner names the object.
	Owner contract.Owner
	// Object is the object as the API has it.
	Object *unstructured.Unstructured
	// Selector selects the namespaces of the NADs; nil: the object's own.
	Selector labels.Selector
	// IsPrimary says that the network becomes that of all pods of its namespaces.
	IsPrimary bool
	// Transport is "" for Geneve.
	Transport ovnv1.Transport
	// Refused says what is wrong with the object; then it gets no NADs.
	Refused string
	// Keeps says that it is not known which namespaces the object selects: those that have its NAD keep it.
	Keeps bool

	conf netconf
}

var errKind = errors.New("the kind stands for no network")

// Parse reads an object of one of the kinds. An object that cannot be read is Refused: it can be deleted, and its condition says
// what is wrong with it.
func Parse(object *unstructured.Unstructured) (*Source, error) {
	s := &Source{Owner: OwnerOf(object), Object: object}
	var err error
	if s.Selector, err = SelectorOf(object); err != nil {
		s.Refused, s.Keeps = err.Error(), true
	}
	switch object.GetKind() {
	case ovnv1.KindUserDefinedNetwork:
		err = s.userDefined()
	case ovnv1.KindClusterUserDefinedNetwork:
		err = s.clusterUserDefined()
	case opnfv.KindNetwork:
		err = s.virtual()
	case opnfv.KindProviderNetwork:
		err = s.provider()
	default:
		err = fmt.Errorf("%w: %s", errKind, object.GetKind())
	}
	if errors.Is(err, errKind) {
		return nil, fmt.Errorf("reading %s: %w", s.Owner, err)
	}
	if err != nil {
		s.Refused, s.Keeps = err.Error(), true
	}
	return s, nil
}

// OwnerOf names an object.
func OwnerOf(object *unstructured.Unstructured) contract.Owner {
	return contract.Owner{Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName()}
}

// ClusterPrefix begins the names of the networks of ClusterUserDefinedNetworks.
const ClusterPrefix = "cluster_udn_"

// NetworkName is the name of the network of an object.
func NetworkName(owner contract.Owner) string {
	if owner.Namespace == "" {
		return ClusterPrefix + owner.Name
	}
	return owner.Namespace + "_" + owner.Name
}

// Kinds are those that stand for networks.
func Kinds() map[string]schema.GroupVersionResource {
	return map[string]schema.GroupVersionResource{
		ovnv1.KindUserDefinedNetwork:        ovnv1.UserDefinedNetworks(),
		ovnv1.KindClusterUserDefinedNetwork: ovnv1.ClusterUserDefinedNetworks(),
		opnfv.KindNetwork:                   opnfv.Networks(),
		opnfv.KindProviderNetwork:           opnfv.ProviderNetworks(),
	}
}

// ControllerOf names the object of one of the kinds that a NAD says it is made from. Whether the object is there, and has the
// UID, is another question.
func ControllerOf(nad *unstructured.Unstructured) (owner contract.Owner, uid types.UID, ok bool) {
	ref := metav1.GetControllerOf(nad)
	if ref == nil {
		return owner, "", false
	}
	owner = contract.Owner{Kind: ref.Kind, Namespace: nad.GetNamespace(), Name: ref.Name}
	if ref.Kind == ovnv1.KindClusterUserDefinedNetwork {
		owner.Namespace = ""
	}
	resource, known := Kinds()[ref.Kind]
	return owner, ref.UID, known && ref.APIVersion == resource.GroupVersion().String()
}

// SelectorOf selects the namespaces of the network of an object; nil: the object's own. With an error, it selects none.
func SelectorOf(object *unstructured.Unstructured) (labels.Selector, error) {
	if object.GetKind() != ovnv1.KindClusterUserDefinedNetwork {
		return nil, nil
	}
	var selector metav1.LabelSelector
	fields, _, err := unstructured.NestedMap(object.Object, "spec", "namespaceSelector")
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &selector)
	}
	if err != nil {
		return labels.Nothing(), fmt.Errorf("namespaceSelector: %w", err)
	}
	selects, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil {
		return labels.Nothing(), fmt.Errorf("namespaceSelector: %w", err)
	}
	return selects, nil
}

// OwnerOfNetwork names the object that a network of layer3 with this name is made from; false when there can be none.
func OwnerOfNetwork(name string) (contract.Owner, bool) {
	if object, ok := strings.CutPrefix(name, ClusterPrefix); ok {
		return contract.Owner{Kind: ovnv1.KindClusterUserDefinedNetwork, Name: object}, true
	}
	namespace, object, ok := strings.Cut(name, "_")
	return contract.Owner{Kind: ovnv1.KindUserDefinedNetwork, Namespace: namespace, Name: object}, ok
}

func decode[T any](object *unstructured.Unstructured) (*T, error) {
	out := new(T)
	return out, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, out)
}

// NAD is the NetworkAttachmentDefinition of the network in a namespace.
func (s *Source) NAD(namespace string) (*unstructured.Unstructured, error) {
	conf := s.conf
	conf.CNIVersion, conf.Type, conf.Name = "1.1.0", contract.PluginType, NetworkName(s.Owner)
	conf.NADName = namespace + "/" + s.Owner.Name
	text, err := json.Marshal(conf)
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w", s.Owner, err)
	}
	nad := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", "spec": map[string]any{"config": string(text)},
	}}
	nad.SetNamespace(namespace)
	nad.SetName(s.Owner.Name)
	marked := map[string]string{contract.UserDefinedNetworkLabel: ""}
	maps.Copy(marked, s.Object.GetLabels())
	nad.SetLabels(marked)
	if kept := s.annotations(); len(kept) > 0 {
		nad.SetAnnotations(kept)
	}
	nad.SetFinalizers([]string{contract.NetworkFinalizer})
	nad.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(s.Object, s.Object.GroupVersionKind())})
	return nad, nil
}

// annotations are those of the object that its NADs have, too. kubectl's copy of the object is about the object alone.
func (s *Source) annotations() map[string]string {
	kept := map[string]string{}
	for key, value := range s.Object.GetAnnotations() {
		if !strings.HasPrefix(key, contract.OVNPrefix) && key != "kubectl.kubernetes.io/last-applied-configuration" {
			kept[key] = value
		}
	}
	return kept
}
