package snapshot

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// trim keeps of an object what its resource lists.
func (s selection) trim(object map[string]any) map[string]any {
	kept := map[string]any{}
	for _, path := range append([]string{
		"apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.creationTimestamp", "metadata.generation",
	}, s.keep...) {
		copyField(kept, object, strings.Split(path, "."))
	}
	all, _, _ := unstructured.NestedStringMap(object, "metadata", "annotations")
	ours := map[string]any{}
	for key, value := range all {
		for _, prefix := range annotations {
			if strings.HasPrefix(key, prefix) {
				ours[key] = value
			}
		}
	}
	if len(ours) > 0 {
		kept["metadata"].(map[string]any)["annotations"] = ours
	}
	return kept
}

// copyField copies one field, of each element where a list is on the way.
func copyField(to, from map[string]any, path []string) {
	value, ok := from[path[0]]
	if !ok {
		return
	}
	if len(path) == 1 {
		to[path[0]] = value
		return
	}
	switch value := value.(type) {
	case map[string]any:
		below, ok := to[path[0]].(map[string]any)
		if !ok {
			below = map[string]any{}
			to[path[0]] = below
		}
		copyField(below, value, path[1:])
	case []any:
		list, ok := to[path[0]].([]any)
		if !ok {
			list = make([]any, len(value))
			to[path[0]] = list
		}
		for i := range value {
			element, ok := value[i].(map[string]any)
			if !ok {
				continue
			}
			if list[i] == nil {
				list[i] = map[string]any{}
			}
			copyField(list[i].(map[string]any), element, path[1:])
		}
	}
}
