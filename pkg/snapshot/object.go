package snapshot

import (
	"encoding/json"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Object is an object of a snapshot, as a map or in a type of the API: whatever was read first, the other is made when it is
// asked for. Snapshots that follow each other share the objects that have not changed, because a conversion takes most of the
// time of an answer about many nodes.
type Object struct {
	name   string
	fields func() map[string]any
	typed  atomic.Pointer[any] // a pointer to a type of the API
}

// NewObject makes one of what Trim left.
func NewObject(fields map[string]any) *Object {
	u := unstructured.Unstructured{Object: fields}
	return &Object{name: u.GetNamespace() + "/" + u.GetName(), fields: func() map[string]any { return fields }}
}

// typedObject makes one of a type of the API. Its fields are cut down when they are asked for.
func typedObject(r Resource, object metav1.Object) *Object {
	var typed any = object
	o := &Object{name: object.GetNamespace() + "/" + object.GetName()}
	o.fields = sync.OnceValue(func() map[string]any {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return map[string]any{} // types of the API have no such fields
		}
		return r.Trim(fields)
	})
	o.typed.Store(&typed)
	return o
}

// Fields are what Trim left. Do not change them.
func (o *Object) Fields() map[string]any { return o.fields() }

// MarshalJSON implements json.Marshaler.
func (o *Object) MarshalJSON() ([]byte, error) { return json.Marshal(o.Fields()) }

// as converts an object once.
func as[T any](o *Object) (*T, error) {
	if known := o.typed.Load(); known != nil {
		if typed, ok := (*known).(*T); ok {
			return typed, nil
		}
	}
	typed := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Fields(), typed); err != nil {
		return nil, err
	}
	var known any = typed
	o.typed.Store(&known)
	return typed, nil
}
