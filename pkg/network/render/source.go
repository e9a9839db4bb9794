package render

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

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
	// Refused says what is wrong with the object; then it has no NADs.
	Refused string

	conf netconf
}

// Parse reads an object of one of the kinds.
func Parse(object *unstructured.Unstructured) (*Source, error) {
	s := &Source{Owner: OwnerOf(object), Object: object}
	var err error
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
		err = fmt.Errorf("kind %s stands for no network", object.GetKind())
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", s.Owner, err)
	}
	return s, nil
}

// OwnerOf names an object.
func OwnerOf(object *unstructured.Unstructured) contract.Owner {
	return contract.Owner{Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName()}
}

// NetworkName is the name of the network of an object.
func NetworkName(owner contract.Owner) string {
	if owner.Namespace == "" {
		return "cluster_udn_" + owner.Name
	}
	return owner.Namespace + "_" + owner.Name
}

// OwnerOfNetwork names the object that a network of layer3 with this name is made from; false when there can be none.
func OwnerOfNetwork(name string) (contract.Owner, bool) {
	if object, ok := strings.CutPrefix(name, "cluster_udn_"); ok {
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
