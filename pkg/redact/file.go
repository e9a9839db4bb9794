package redact

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// File replaces what is in a file of an archive, and in its name.
func (r *Redactor) File(name string, content []byte) (string, []byte, error) {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		bare, isJSON := strings.CutSuffix(part, ".json")
		if to, ok := r.names[bare]; ok && i > 0 {
			bare = to
		}
		if parts[i] = bare; isJSON {
			parts[i] += ".json"
		}
	}
	to := strings.Join(parts, "/")
	if !strings.HasSuffix(name, ".json") {
		return to, []byte(r.Text(string(content))), nil
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return "", nil, fmt.Errorf("reading %s: %w", name, err)
	}
	content, err := json.Marshal(r.value(value, "", false))
	return to, content, err
}

// verbatim are fields whose values are words of an API.
func verbatim() []string {
	return []string{
		"apiVersion", "kind", "type", "phase", "protocol", "place", "reason", "offload", "mode", "link", "state", "severity", "operator", "driver", "product", "direction",
		"stage", "row", "resource", "effect", "reportingController", "policyTypes", "action", "hwTCOffload", "status", "ipFamilies",
	}
}

// value replaces what is in a value of JSON. isKept: it is of an object of the network itself.
func (r *Redactor) value(value any, field string, isKept bool) any {
	switch value := value.(type) {
	case string:
		if slices.Contains(verbatim(), field) {
			return value
		}
		return r.Text(value)
	case []any:
		for i := range value {
			if label, ok := value[i].(string); ok && field == "values" { // of a selector
				value[i] = r.labelValue(label)
			} else {
				value[i] = r.value(value[i], field, isKept)
			}
		}
	case map[string]any:
		if metadata, ok := value["metadata"].(map[string]any); ok {
			namespace, _ := metadata["namespace"].(string)
			isKept = namespace == r.system
		}
		for key, of := range value {
			if key == "labels" || key == "matchLabels" || key == "selector" {
				if labels, ok := of.(map[string]any); ok && !isSelector(labels) {
					r.labels(labels, isKept)
					continue
				}
			}
			value[key] = r.value(of, key, isKept)
		}
	}
	return value
}

// isSelector says whether a field selector has selectors by labels, and no labels.
func isSelector(fields map[string]any) bool {
	for _, value := range fields {
		if _, isText := value.(string); !isText {
			return true
		}
	}
	return false
}

// labels replaces the values of labels.
func (r *Redactor) labels(labels map[string]any, isKept bool) {
	for key, value := range labels {
		if text, ok := value.(string); ok && !isKept && !isOurs(key) {
			labels[key] = r.labelValue(text)
		}
	}
}

// isOurs says whether a label is one that the network, or Kubernetes, gives its meaning.
func isOurs(key string) bool {
	return slices.ContainsFunc([]string{"ovn-offload.io/", "k8s.ovn.org/", "node-role.kubernetes.io/", "kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/"}, func(prefix string) bool {
		return strings.HasPrefix(key, prefix)
	})
}

// labelValue is the same for the same value in labels and in selectors.
func (r *Redactor) labelValue(text string) string {
	if to, ok := r.names[text]; ok {
		return to
	}
	if text == "" || text == "true" || text == "false" || r.kept[text] {
		return text
	}
	return r.pseudonym("label", text)
}
