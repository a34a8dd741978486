// Package recipes runs what the how-tos print for libraries that are not worth an adapter, on
// the libraries themselves. It is a module of its own, outside the workspace, for what they
// download.
package recipes
