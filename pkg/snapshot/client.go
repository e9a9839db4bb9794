package snapshot

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/kube/api"
	"github.com/ovn-offload/ovn-offload/pkg/kube/v1alpha1"
)

// Client is a Lister of the API server. It reads Kubernetes' own kinds in their binary format and ours into their types: of
// thousands of objects, the dynamic client reads the JSON four times.
type Client struct{ rest rest.Interface }

// NewClient makes one.
func NewClient(rc *rest.Config) (*Client, error) {
	scheme := api.Scheme()
	utilruntime.Must(appsv1.AddToScheme(scheme)) // fails for two kinds of one name
	rc = rest.CopyConfig(rc)
	rc.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	rc.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := rest.UnversionedRESTClientFor(rc)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", rc.Host, err)
	}
	return &Client{client}, nil
}

// List implements Lister.
func (c *Client) List(ctx context.Context, r Resource, of Selected, options metav1.ListOptions) ([]*Object, string, error) {
	if name, isOne := strings.CutPrefix(of.Fields, byName); isOne && r == Namespaces {
		return c.namespace(ctx, name)
	}
	kind := r.Kind()
	path := []string{"/apis", kind.Group, kind.Version}
	if kind.Group == "" {
		path = []string{"/api", kind.Version}
	}
	if of.Namespace != "" {
		path = append(path, "namespaces", of.Namespace)
	}
	request := c.rest.Get().AbsPath(append(path, kind.Resource)...)
	for name, value := range map[string]string{"limit": fmt.Sprint(options.Limit), "continue": options.Continue, "fieldSelector": options.FieldSelector, "labelSelector": options.LabelSelector} {
		if value != "" {
			request.Param(name, value)
		}
	}
	result := request.Do(ctx)
	if err := result.Error(); err != nil {
		return nil, "", err
	}
	switch r {
	case NodeOffloads:
		return ours[v1alpha1.NodeOffload](r, result)
	case OffloadPolicies:
		return ours[v1alpha1.OffloadPolicy](r, result)
	case PhysicalNetworks:
		return ours[v1alpha1.PhysicalNetwork](r, result)
	case AdminNetworkPolicies, BaselineAdminNetworkPolicies, ClusterNetworkPolicies, MultiNetworkPolicies:
		return untyped(r, result)
	}
	if _, isOfCRD := regarded()[r]; isOfCRD {
		return untyped(r, result)
	}
	return kubernetes(r, result)
}

// byName selects the object of a name.
const byName = "metadata.name="

// namespace reads one. Users with rights in a namespace alone may get it, and list none.
func (c *Client) namespace(ctx context.Context, name string) ([]*Object, string, error) {
	got, err := c.rest.Get().AbsPath("/api/v1/namespaces", name).Do(ctx).Get()
	if err != nil {
		return nil, "", err
	}
	object, err := meta.Accessor(got)
	if err != nil {
		return nil, "", err
	}
	return []*Object{typedObject(Namespaces, object)}, "", nil
}

// kubernetes reads a list of Kubernetes' own kinds.
func kubernetes(r Resource, result rest.Result) (page []*Object, next string, err error) {
	list, err := result.Get()
	if err != nil {
		return nil, "", err
	}
	head, err := meta.ListAccessor(list)
	if err != nil {
		return nil, "", err
	}
	err = meta.EachListItem(list, func(item runtime.Object) error {
		object, err := meta.Accessor(item)
		if err != nil {
			return err
		}
		page = append(page, typedObject(r, object))
		return nil
	})
	return page, head.GetContinue(), err
}

// ours reads a list of the group ovn-offload.io.
func ours[T any, PT interface {
	*T
	metav1.Object
}](r Resource, result rest.Result) (page []*Object, next string, err error) {
	body, err := result.Raw()
	if err != nil {
		return nil, "", err
	}
	var list struct {
		Metadata metav1.ListMeta `json:"metadata"`
		Items    []T             `json:"items"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, "", fmt.Errorf("reading the list of %s: %w", r, err)
	}
	for i := range list.Items {
		page = append(page, typedObject(r, PT(&list.Items[i])))
	}
	return page, list.Metadata.Continue, nil
}

// untyped reads a list of objects of which only pkg/policy knows the fields.
func untyped(r Resource, result rest.Result) (page []*Object, next string, err error) {
	body, err := result.Raw()
	if err != nil {
		return nil, "", err
	}
	var list unstructured.UnstructuredList
	if err := list.UnmarshalJSON(body); err != nil {
		return nil, "", fmt.Errorf("reading the list of %s: %w", r, err)
	}
	for i := range list.Items {
		page = append(page, NewObject(r.Trim(list.Items[i].Object)))
	}
	return page, list.GetContinue(), nil
}

// Dynamic is a Lister, too. Informers and fakes are of its kind of client.
type Dynamic struct{ dynamic.Interface }

// List implements Lister.
func (d Dynamic) List(ctx context.Context, r Resource, of Selected, options metav1.ListOptions) ([]*Object, string, error) {
	list, err := d.Of(r, of).List(ctx, options)
	if err != nil {
		return nil, "", err
	}
	page := make([]*Object, len(list.Items))
	for i := range list.Items {
		page[i] = NewObject(r.Trim(list.Items[i].Object))
	}
	return page, list.GetContinue(), nil
}

// Of is the client of a resource, in the namespace that is selected.
func (d Dynamic) Of(r Resource, of Selected) dynamic.ResourceInterface {
	if of.Namespace == "" {
		return d.Resource(r.Kind())
	}
	return d.Resource(r.Kind()).Namespace(of.Namespace)
}
