package snapshot

import (
	"encoding/json"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Object is an object of a snapshot. Snapshots that follow each other share those that have not changed, and with them their
// conversion to a type, which takes most of the time of an answer about many nodes.
type Object struct {
	// Fields are what Trim left. Do not change them.
	Fields map[string]any

	typed atomic.Pointer[any] // a pointer to a type of the API
}

// MarshalJSON implements json.Marshaler.
func (o *Object) MarshalJSON() ([]byte, error) { return json.Marshal(o.Fields) }

func (o *Object) name() string {
	u := unstructured.Unstructured{Object: o.Fields}
	return u.GetNamespace() + "/" + u.GetName()
}

// as converts an object once.
func as[T any](o *Object) (*T, error) {
	if known := o.typed.Load(); known != nil {
		if typed, ok := (*known).(*T); ok {
			return typed, nil
		}
	}
	typed := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Fields, typed); err != nil {
		return nil, err
	}
	var known any = typed
	o.typed.Store(&known)
	return typed, nil
}
