// Package docs has the pages for users, for `kubectl offload help`.
package docs

import "embed"

// Pages are all pages; those about failures are in failures/.
//
//go:embed *.md failures/*.md
var Pages embed.FS
