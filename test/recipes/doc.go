// Package recipes runs what the how-tos print for libraries that are not worth an adapter, on the
// libraries themselves. It is a separate module outside the workspace, because of what it
// downloads.
package recipes
