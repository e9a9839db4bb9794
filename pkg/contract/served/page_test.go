package served

import (
	"fmt"
	"strings"
)

const head = `# What is served

This page says of each annotation, label and kind that a manifest for Kubernetes, Multus or OVN-Kubernetes may have,
whether it has an effect.

| State | Meaning |
|---|---|
| served | has the effect that its project documents |
| refused | has **no effect**, though its author relies on it. The Warning Event [NotServed](failures/NotServed.md) on each such object says so |
| harmless | has no effect of its own here, and nothing that its author relies on is missing |
`

// page is docs/served.md.
func page() string {
	var b strings.Builder
	b.WriteString(head)
	b.WriteString("\n## Kinds\n\n| Kind | Group | Of | State | |\n|---|---|---|---|---|\n")
	for _, k := range Kinds() {
		group := "core"
		if k.Group != "" {
			group = "`" + k.Group + "/" + k.Version + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", k.Kind, group, k.Of, k.State.bold(), k.Note)
	}
	b.WriteString("\n## Annotations and labels\n\n[annotations.md](annotations.md) has the values of the annotations that are served.\n\n" +
		"| Key | On | Of | State | |\n|---|---|---|---|---|\n")
	for _, a := range Annotations() {
		key := "`" + a.Key + "`"
		if a.Label {
			key = "label " + key
		}
		if a.Asks != "" {
			key += fmt.Sprintf(" with the value `%s`", a.Asks)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", key, strings.Join(a.On, ", "), a.Of, a.State.bold(), a.Note)
	}
	return b.String()
}

// bold marks what users must not overlook.
func (s State) bold() string {
	if s == Refused {
		return "**" + string(s) + "**"
	}
	return string(s)
}
