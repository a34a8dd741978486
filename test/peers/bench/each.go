//go:build linux

package main

import "golang.org/x/sync/errgroup"

// each calls f with 0 to n-1, up to width at a time, and returns the first error.
func each(width, n int, f func(i int) error) error {
	var g errgroup.Group
	g.SetLimit(width)
	for i := range n {
		g.Go(func() error { return f(i) })
	}
	return g.Wait()
}
