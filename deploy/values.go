package deploy

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// property is one value of the chart in its JSON schema.
type property struct {
	Type        string
	Description string
	Properties  map[string]property
	Items       *property
}

// ValuesPage is docs/values.md: every value of the chart with its default, from values.yaml and values.schema.json.
func ValuesPage() (string, error) {
	c, err := Chart()
	if err != nil {
		return "", err
	}
	var schema property
	if err := json.Unmarshal(c.Schema, &schema); err != nil {
		return "", fmt.Errorf("reading the chart's schema: %w", err)
	}
	var page strings.Builder
	page.WriteString("# Values of the chart\n\nMade by `make generate` from the chart's values and schema. [deploy.md](deploy.md) says how to install the chart.\n\n" +
		"| Value | Default | Meaning |\n|---|---|---|\n")
	if err := describe(&page, "", schema, c.Values); err != nil {
		return "", err
	}
	return page.String(), nil
}

// describe writes a line for each value below a path.
func describe(page *strings.Builder, path string, in property, values map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(in.Properties)) {
		p := in.Properties[name]
		nested, _ := values[name].(map[string]any)
		if len(p.Properties) > 0 {
			if err := describe(page, path+name+".", p, nested); err != nil {
				return err
			}
			continue
		}
		value, err := json.Marshal(values[name])
		if err != nil {
			return err
		}
		if values != nil && values[name] != nil {
			fmt.Fprintf(page, "| `%s%s` | `%s` | %s |\n", path, name, value, p.Description)
		} else {
			fmt.Fprintf(page, "| `%s%s` | | %s |\n", path, name, p.Description)
		}
		if p.Items != nil && len(p.Items.Properties) > 0 {
			if err := describe(page, path+name+"[].", *p.Items, nil); err != nil {
				return err
			}
		}
	}
	return nil
}
