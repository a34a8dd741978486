// Package python holds the source of pawld's client for Python, for Go programs that bring it along: pawl demo does.
package python

import _ "embed"

// Client is the module pawld, which needs nothing but Python's standard library.
//
//go:embed pawld/__init__.py
var Client string
