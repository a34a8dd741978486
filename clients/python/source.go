// Package python holds the source of pawld's Python client, for Go programs that ship it, as pawl demo
// does.
package python

import "embed"

// Client has the package pawld, which needs nothing but Python's standard library, in a folder of
// that name.
//
//go:embed pawld/*.py
var Client embed.FS
